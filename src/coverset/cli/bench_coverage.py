"""`coverset bench coverage`: how much of known coverage sets each method finds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.cli.shared import enable_compilation_cache, parse_seeds

DESCRIPTION = """Run methods in games whose coverage sets are known: random matrix games (matrix), random finite
Dec-POMDPs (dec-pomdp), small grids with random payoffs (grid), the paper's four games (paper) and three-button
signalling (signalling). For each part and method: the share of runs that find the whole set and of those whose number
of pairs is right, members found, coverage regret, steps and seconds. Methods other than `growing` are told the size of
the exact set. A suite that was stopped goes on when the command is repeated; the whole takes hours.

Examples:
  coverset bench coverage --parts matrix --methods growing --seeds 0..3
  coverset bench coverage --parts signalling paper --methods growing lbrdiv
  coverset bench coverage --games 8 --steps 200000 --out runs/small --json
"""


@dataclass(frozen=True)
class BenchCoverage:
    """Command-line options."""

    parts: tuple[str, ...] = ("matrix", "dec-pomdp", "grid", "paper", "signalling")
    """Parts of the suite."""
    methods: tuple[str, ...] = ("growing", "lbrdiv", "brdiv", "lipo")
    """Methods, as for `coverset generate`."""
    seeds: tuple[str, ...] = ("0",)
    """Seeds of every game; 0..3 is a range."""
    games: int = 100
    """Random matrix games; a tenth as many Dec-POMDPs and grid games."""
    first_game: int = 0
    """Number of the first random game."""
    steps: int | None = None
    """Environment steps of every run at most (default: those of the method and game)."""
    out: Path = Path("runs") / "bench-coverage"
    """Directory for coverage.json, coverage.png and the runs."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(BenchCoverage, arguments, command="bench coverage", description=DESCRIPTION)
    seeds = tuple(parse_seeds(command.seeds))
    enable_compilation_cache()

    from coverset.bench.coverage_suite import SuiteSettings, bench_coverage

    settings = SuiteSettings(command.parts, command.methods, seeds, command.games, command.first_game, command.steps)
    with Console(stderr=True).status("Starting") as status:
        record = bench_coverage(settings, out=command.out, on_start=status.update)
    if command.json:
        print_json(record)
        return 0
    _show(record["summary"])
    print(f"Written: {command.out / 'coverage.json'}, {command.out / 'coverage.png'}")
    return 0


def _show(summary: list[dict[str, Any]]) -> None:
    """A line for each part and method."""
    columns = ("part", "method", "runs", "whole", "size right", "found", "size", "regret", "steps", "time")
    table = Table(title="Coverage of games with known sets", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 2 else "right")
    for line in summary:
        table.add_row(*_cells(line))
    Console().print(table)
    print(
        "Whole: runs that found every member whose exact margin is at least the run's. Size: mean found / mean of such "
        "members. Regret: the largest, in units of reward."
    )


def _cells(line: dict[str, Any]) -> tuple[str, ...]:
    from coverset.cli.tables import format_duration

    return (
        line["part"],
        line["method"],
        str(line["runs"]),
        f"{line['whole']:.0%}",
        f"{line['size_right']:.0%}",
        f"{line['members_found']}/{line['members_due']}",
        f"{line['size_found']:.1f}/{line['size_due']:.1f}",
        f"{line['largest_regret']:.2g}",
        f"{line['median_steps']:.1e}",
        format_duration(line["seconds"]),
    )
