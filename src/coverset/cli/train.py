"""`coverset train`: an ad hoc agent for the teammates of a run."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options, with_settings
from coverset.cli.shared import StopRequest, enable_compilation_cache, parse_seeds, peek_option, stop_on_interrupt
from coverset.presets import resolve_training
from coverset.settings import TrainSettings

DESCRIPTION = """Train an ad hoc agent with the teammates that `coverset generate` has written to DIR, one per seed.
The agent of DIR/seed-N goes to DIR/seed-N/NAME; agents of several names stand side by side and are compared by
`coverset evaluate DIR`. Settings below show the defaults of the run's environment.

Examples:
  coverset train runs/matrix-lbrdiv-fast
  coverset train runs/matrix-lbrdiv-fast --learner plastic --bins 20
  coverset train runs/matrix-lbrdiv-fast --learner rl2 --network gru --name rl2-gru
  coverset train runs/reaching-lbrdiv-fast --partners teammates H1 H2 --seeds 0 1
"""

LEARNER_SETTINGS = "learner_settings"


@dataclass(frozen=True)
class Train(TrustOptions):
    """Options of the command; the rest are settings of the training itself."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Directory of a generation run: it holds seed-0, seed-1, ..."""
    settings: Annotated[TrainSettings, tyro.conf.arg(name="")]
    learner: str = "rl2"
    """Learner: rl2, feedforward (no memory), plastic and planner (best responses and a belief), an installed one, or
    module:Class; its own settings are listed last."""
    name: str | None = None
    """Name of the agents and of their directories (default: the learner's)."""
    preset: str = "fast"
    """Where the defaults of the settings come from: fast or paper."""
    seeds: tuple[str, ...] = ()
    """Seeds of the run (default: all); 0..3 means all from 0 to 3."""
    partners: tuple[str, ...] = ("teammates",)
    """The pool: teammates, best-responses, other-seeds, heuristics, a heuristic's name, paths of runs and agents, or
    module:function."""
    seat: int = 0
    """The agent's seat; partners take all others. Beyond two players it must be 0 unless seats are alike."""
    resume: bool = False
    """Go on with training that was stopped or killed, and skip agents that are done."""
    log: tuple[str, ...] = ()
    """Further logs beside metrics.jsonl: tensorboard, wandb."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


def main(arguments: list[str]) -> int:
    """Parse, run, print. Signals are minded from the start: in the middle of an import they would do harm."""
    with stop_on_interrupt() as stop:
        return _run(parse(arguments), stop)


def _run(command: Train, stop: StopRequest) -> int:
    enable_compilation_cache()

    from coverset.cli.progress import CommandProgress
    from coverset.pipeline.loop import Stopped
    from coverset.pipeline.train import train

    with CommandProgress(quiet=command.json, should_stop=stop) as progress:
        try:
            summaries = train(
                command.directory,
                learner=getattr(command, LEARNER_SETTINGS),
                name=command.name,
                settings=command.settings,
                preset=command.preset,
                seeds=parse_seeds(command.seeds) or None,
                partners=command.partners,
                seat=command.seat,
                resume=command.resume,
                reporter=progress,
                logs=command.log,
            )
        except Stopped as stopped:
            print(f"coverset: {stopped} Repeat the command with --resume.", file=sys.stderr)
            return stop.exit_code
    show(command, summaries)
    return 0


def parse(arguments: list[str]) -> Train:
    """Read the options; the settings' defaults are those of the run's environment and of the learner."""
    helping = bool({"-h", "--help"} & set(arguments))
    if not arguments or (arguments[0].startswith("-") and not helping):
        raise ValueError("train needs the directory of a generation run as its first argument.")
    directory = Path(arguments[0])
    environment = "" if helping and not directory.is_dir() else _environment(directory)
    learner = peek_option(arguments, "--learner", "rl2")
    settings, own = resolve_training(environment, learner, peek_option(arguments, "--preset", "fast"))
    options = with_settings(Train, LEARNER_SETTINGS, type(own))
    return read_options(
        options,
        arguments,
        command="train",
        description=DESCRIPTION,
        default=options(directory=directory, settings=settings, learner=learner, **{LEARNER_SETTINGS: own}),
    )


def _environment(directory: Path) -> str:
    from coverset.partners import read_config, seed_directories

    first = next(iter(seed_directories(directory).values()))
    return read_config(first)["env"]


def show(command: Train, summaries: Sequence[dict[str, Any]]) -> None:
    """Print where the agents are."""
    if command.json:
        print_json({"agents": summaries})
        return
    from coverset.adhoc.registry import agent_folder
    from coverset.cli.tables import describe_steps, format_duration
    from coverset.partners import seed_directories
    from coverset.pipeline.served import describe_unserved
    from coverset.runs.storage import check_fields

    name = command.name or agent_folder(command.learner)
    runs = seed_directories(command.directory, parse_seeds(command.seeds) or None)
    for (seed, run), summary in zip(runs.items(), summaries, strict=True):
        place = run / name
        check_fields(place / "summary.json", summary, env_steps=int, train_seconds=float)
        print(f"seed {seed}: {summary['env_steps']:,} steps in {format_duration(summary['train_seconds'])} -> {place}")
        if sentence := describe_unserved(summary.get("served", {})):
            print(f"seed {seed}: {sentence}")
    steps = summaries[0]["env_steps"]
    if steps and (sentence := describe_steps(command.settings.total_steps, steps)):
        print(sentence)
    print(f"Measure them with: coverset evaluate {command.directory} --agents {name}")
