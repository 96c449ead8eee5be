"""`coverset probe`: the teammate that a finished set of best responses serves worst."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import StopRequest, enable_compilation_cache, parse_seeds, stop_on_interrupt

if TYPE_CHECKING:
    from coverset.pipeline.results import ProbeResult, Probes

DESCRIPTION = """Search for a teammate that the best responses of a finished run do not serve. Fresh pairs, the probes,
train side by side against the frozen best responses, each to earn more with its own teammate than any of them does.
Prints the coverage regret: how much more the best response to the worst teammate found earns than the best member of
the set, over new episodes, with two standard errors. In small finite games the regret is also solved exactly.

The worst teammate and its best response are kept in seed-N/probe, to be watched and played with in the studio, and
the summary of each seed repeats what was found. A search that was stopped goes on when the command is repeated.

Examples:
  coverset probe runs/matrix-brdiv-fast
  coverset probe runs/reaching-lbrdiv-fast --seeds 0..3 --probes 32 --name wide
  coverset crossplay runs/matrix-brdiv-fast/seed-0 runs/matrix-brdiv-fast/seed-0/probe
"""


@dataclass(frozen=True)
class Probe(TrustOptions):
    """Command-line options."""

    dir: tyro.conf.Positional[Path]
    """Directory written by coverset generate: of all seeds, or of one seed."""
    seeds: tuple[str, ...] = ()
    """Seeds to probe; 0..15 is a range (default: all)."""
    probes: int = 16
    """Pairs that look for an uncovered teammate side by side."""
    steps: int | None = None
    """Environment steps at most (default: those of a round of the method `growing`); probes that settle end earlier."""
    name: str = "probe"
    """Name of the directory beside the files of each seed."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse, run, print. Signals are minded from the start: in the middle of an import they would do harm."""
    with stop_on_interrupt() as stop:
        return _run(read_options(Probe, arguments, command="probe", description=DESCRIPTION), stop)


def _run(command: Probe, stop: StopRequest) -> int:
    seeds = parse_seeds(command.seeds)
    enable_compilation_cache()

    from coverset.cli.progress import CommandProgress
    from coverset.pipeline.loop import Stopped
    from coverset.pipeline.probe import probe

    with CommandProgress(quiet=command.json, should_stop=stop) as progress:
        try:
            found = probe(
                command.dir,
                seeds=seeds or None,
                probes=command.probes,
                steps=command.steps,
                name=command.name,
                reporter=progress,
            )
        except Stopped as stopped:
            print(f"coverset: {stopped} Repeat the command.", file=sys.stderr)
            return stop.exit_code
    if command.json:
        print_json({"probes": found})
    else:
        _show(found)
    return 0


def _show(found: Probes) -> None:
    """A line per seed, a sentence about each, and how to watch what was found."""
    shown = ("seed", "members", "probes", "regret", "margin", "exact", "worst teammate")
    title = escape(f"{found[0]['game']}: {found[0]['method']}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in shown:
        last = column == shown[-1]
        table.add_column(
            column, justify="left" if last else "right", no_wrap=True, overflow="ellipsis" if last else "fold"
        )
    for record in found:
        cells = dict(zip(record.columns, record.cells(), strict=True))
        table.add_row(*(escape(cells[column]) for column in shown))
    console = Console()
    console.print(table)
    for record in found:
        console.print(escape(f"Seed {record.seed}: {record['sentence']}"), highlight=False)
    console.print(_next_step(found[0]), soft_wrap=True, highlight=False)


def _next_step(record: ProbeResult) -> str:
    """How to look at the worst teammate."""
    assert record.path is not None
    command = shlex.join(["coverset", "crossplay", str(record.path.parent), str(record.path)])
    return escape(f"What the set earns with the teammate: {command}")
