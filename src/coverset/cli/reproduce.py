"""`coverset reproduce`: the whole study of the paper."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.cli.shared import (
    FAILED,
    IN_USE,
    enable_compilation_cache,
    parse_key_values,
    parse_seeds,
    stop_on_interrupt,
)
from coverset.cli.wording import in_options

if TYPE_CHECKING:
    from coverset.study.engine import StudyEngine
    from coverset.study.planning import Estimate
    from coverset.study.reproduce import Study

DESCRIPTION = """Run the study of the paper: for every environment and method generate teammates, certify them, train
agents with them and evaluate these with held-out partners; then write the report. Finished units are skipped, and units
that were stopped or killed resume: repeat the command until the study is done. Results go to OUT/ENV-METHOD-PRESET.
Exit codes: 0 done, 1 a unit failed, 2 bad input, 3 in use by another process, 130 or 143 stopped.

Examples:
  coverset reproduce --dry-run
  coverset reproduce matrix --methods lbrdiv brdiv --seeds 0..15
  coverset reproduce matrix reaching --learners rl2 plastic --generation total_steps=100000
  coverset reproduce --engine ray --cpus 8
"""


@dataclass(frozen=True)
class Reproduce:
    """Command-line options."""

    envs: tyro.conf.Positional[tuple[str, ...]] = ()
    """Environments (default: the four of the paper)."""
    methods: tuple[str, ...] = ("lbrdiv", "brdiv", "lipo")
    """Methods of teammate generation."""
    learners: tuple[str, ...] = ("rl2",)
    """Learners of the ad hoc agents: rl2, feedforward, plastic, planner, an installed one, or module:Class."""
    preset: str = "fast"
    """Where the settings come from: fast or paper."""
    seeds: tuple[str, ...] = ("0", "1", "2", "3")
    """Random seeds; 0..15 is a range."""
    out: Path = Path("runs")
    """Parent directory of all runs."""
    generation: tuple[str, ...] = ()
    """Settings of `coverset generate` that replace the preset's, as NAME=VALUE."""
    training: tuple[str, ...] = ()
    """Settings of `coverset train` that replace the preset's, as NAME=VALUE."""
    engine: str = "local"
    """local: units run sequentially in this process; ray: in parallel on a Ray cluster."""
    address: str | None = None
    """With --engine ray: HOST:PORT of a running cluster, or auto (default: start a cluster on this machine)."""
    cpus: int | None = None
    """With --engine ray and no --address: how many units run in parallel (default: the CPUs of this machine)."""
    dry_run: bool = False
    """Only print the remaining units and their estimated time."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Reproduce, arguments, command="reproduce", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.cli.study_progress import StudyProgress
    from coverset.study.planning import ENVIRONMENTS, estimate, plan_study
    from coverset.study.reproduce import reproduce

    environments, engine = command.envs or ENVIRONMENTS, _make_engine(command)
    chosen: dict[str, Any] = {
        "methods": command.methods,
        "learners": command.learners,
        "preset": command.preset,
        "seeds": parse_seeds(command.seeds),
        "out": command.out,
        "generation": parse_key_values("generation", command.generation),
        "training": parse_key_values("training", command.training),
    }
    if command.dry_run:
        _show_plan([estimate(unit) for unit in plan_study(environments, **chosen)], as_json=command.json)
        return 0
    with stop_on_interrupt() as stop, StudyProgress(quiet=command.json, should_stop=stop) as progress:
        study = reproduce(environments, **chosen, engine=engine, reporter=progress)
    _show(study, command.out, as_json=command.json)
    return stop.exit_code if study.stopped else FAILED if study.failed else IN_USE if study.in_use else 0


def _make_engine(command: Reproduce) -> "StudyEngine":
    from coverset.checks import check_one_of

    check_one_of("engine", command.engine, ("local", "ray"))
    if command.engine == "ray":
        from coverset.study.ray.engine import RayEngine

        return RayEngine(command.address, cpus=command.cpus)
    for name, value in (("address", command.address), ("cpus", command.cpus)):
        if value is not None:
            raise ValueError(f"--{name} needs --engine ray.")
    from coverset.study.engine import LocalEngine

    return LocalEngine()


def _show_plan(plan: "list[Estimate]", *, as_json: bool) -> None:
    from coverset.cli.tables import format_duration
    from coverset.study.planning import total_seconds

    seconds = total_seconds(plan)
    if as_json:
        print_json({"units": [row.to_json() for row in plan], "seconds": seconds})
        return
    table = Table(title="remaining units")
    for column in ("unit", "state", "time"):
        table.add_column(column, justify="right" if column == "time" else "left", overflow="fold")
    for row in plan:
        time = format_duration(row.seconds) if row.state in ("to do", "resumes") else ""
        table.add_row(row.name, row.state, time)
    table.add_section()
    unknown = " and more" if any(row.seconds is None for row in plan) else ""
    table.add_row("all", "", f"about {format_duration(seconds)}{unknown}")
    Console().print(table)


def _show(study: "Study", out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(study.to_json())
    else:
        table = Table(title=f"study in {escape(str(out))}")
        for column in ("unit", "state", "seconds", "why"):
            table.add_column(column, justify="right" if column == "seconds" else "left", overflow="fold")
        for outcome in study.outcomes:
            seconds = "" if outcome.seconds is None else f"{outcome.seconds:.1f}"
            table.add_row(outcome.name, outcome.state, seconds, escape(in_options(outcome.error or "")))
        Console().print(table)
        if study.report is not None:
            print(f"Report: {study.report}")
    if study.stopped:
        print("coverset: stopped; repeat the command to continue.", file=sys.stderr)
