"""`coverset generate`: teammates for an environment."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options, with_settings
from coverset.cli.shared import (
    StopRequest,
    enable_compilation_cache,
    parse_key_values,
    parse_seeds,
    peek_option,
    stop_on_interrupt,
    take_option,
)
from coverset.presets import AUTO, default_method, resolve_generation
from coverset.settings import GenerateSettings

DESCRIPTION = """Train K pairs of best responses and teammates such that each best response is the best match only for
its own teammate. Settings below show the defaults of the chosen environment, method and preset.

Examples:
  coverset generate matrix --seeds 0..15
  coverset generate weighted-reaching --method brdiv --alpha 0.5 --out runs/brdiv-half
  coverset generate reaching --env-args size=7 horizon=80 --population-size 4
  coverset generate weighted-reaching --population-size auto
  coverset generate my_package.games:kitchen --total-steps 2000000
"""

METHOD_SETTINGS = "method_settings"


@dataclass(frozen=True)
class Generate:
    """Options of the command; the rest are settings of the training itself."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """Environment: a name that `coverset envs` lists, or module:Class or module:function of your own."""
    settings: Annotated[GenerateSettings, tyro.conf.arg(name="")]
    method: str = "lbrdiv"
    """Method: lbrdiv, lbrdiv-guarded, brdiv, lipo, lipo-max, growing, independent, mep, trajedi, fcp, maven, edrqn,
    comedi, adversity, other-play, rotate, an installed one, or module:Class; its own settings are listed last."""
    preset: str = "fast"
    """Where the defaults of the settings come from: fast or paper."""
    seeds: tuple[str, ...] = ("0",)
    """Seeds, one run each; 0..15 means all from 0 to 15."""
    out: Path | None = None
    """Directory of the runs (default: runs/ENV-METHOD-PRESET)."""
    resume: bool = False
    """Go on with runs that were stopped or killed, and skip those that are done."""
    checkpoint_seconds: float = 5.0
    """Training time between two checkpoints; has no influence on the result."""
    env_args: tuple[str, ...] = field(default=())
    """Parameters of the environment as NAME=VALUE, values as JSON or plain text."""
    log: tuple[str, ...] = ()
    """Further logs beside metrics.jsonl: tensorboard, wandb."""
    details: bool = False
    """Also print what every teammate does."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


def main(arguments: list[str]) -> int:
    """Parse, run, print. Signals are minded from the start: in the middle of an import they would do harm."""
    with stop_on_interrupt() as stop:
        return _run(parse(arguments), stop)


def _run(command: Generate, stop: StopRequest) -> int:
    enable_compilation_cache()

    from coverset.cli.progress import CommandProgress
    from coverset.pipeline.generate import generate
    from coverset.pipeline.loop import Stopped

    with CommandProgress(quiet=command.json, should_stop=stop) as progress:
        try:
            summaries = generate(
                command.env,
                method=getattr(command, METHOD_SETTINGS),
                preset=command.preset,
                seeds=parse_seeds(command.seeds),
                out=command.out,
                resume=command.resume,
                env_parameters=parse_key_values("env_args", command.env_args),
                reporter=progress,
                logs=command.log,
                checkpoint_seconds=command.checkpoint_seconds,
                settings=command.settings,
            )
        except Stopped as stopped:
            print(f"coverset: {stopped} Repeat the command with --resume.", file=sys.stderr)
            return stop.exit_code
    show(command, summaries)
    return 0


def parse(arguments: list[str]) -> Generate:
    """Read the options; the settings' defaults are those of the chosen environment, method and preset."""
    env = arguments[0] if arguments and not arguments[0].startswith("-") else "matrix"
    if env == "matrix" and (not arguments or arguments[0] != "matrix") and not {"-h", "--help"} & set(arguments):
        raise ValueError("generate needs an environment as its first argument, for example: coverset generate matrix.")
    arguments, size = take_option(arguments, "--population-size", AUTO)
    method = peek_option(arguments, "--method", default_method(size))
    found: dict[str, Any] = {} if size is None else {"population_size": size}
    settings, own = resolve_generation(env, method, peek_option(arguments, "--preset", "fast"), **found)
    options = with_settings(Generate, METHOD_SETTINGS, type(own))
    return read_options(
        options,
        arguments,
        command="generate",
        description=DESCRIPTION,
        default=options(env=env, settings=settings, method=method, **{METHOD_SETTINGS: own}),
    )


def show(command: Generate, summaries: Sequence[dict[str, Any]]) -> None:
    """Print what was found, where it is, and what to do next."""
    if command.json:
        print_json({"runs": summaries})
        return
    from coverset.cli.tables import describe_steps, print_summaries
    from coverset.pipeline.generate import run_name

    first = summaries[0]
    out = command.out or Path("runs") / run_name(first.get("game", command.env), first["method"], first["preset"])
    print_summaries(summaries, details=command.details)
    for advised in (summary for summary in summaries if summary.get("advice")):
        print(f"Seed {advised['seed']}: {advised['advice']}")
    if sentence := describe_steps(command.settings.total_steps, first["env_steps"]):
        print(sentence)
    print(f"Teammates: {out}")
    print(f"Train an agent with them: {shlex.join(['coverset', 'train', str(out)])}")
