"""`coverset crossplay`: returns of any policies with any others."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import enable_compilation_cache, parse_key_values, print_text
from coverset.cli.tables import GAP, fit_columns

if TYPE_CHECKING:
    from coverset.pipeline.crossplay import CrossPlay

DESCRIPTION = """Play every policy of A, in seat 0, with every policy of B, in seat 1; in games of three or more players
it takes all other seats, and returns are those of seat 0. A and B are each a path (one seed
of a generation run, with its best responses in seat 0 and its teammates in seat 1; an agent; an exported agent),
`heuristics`, the name of a heuristic, or module:function for a third-party agent. Prints mean returns with 95%
intervals over trials.

Examples:
  coverset crossplay runs/matrix-lbrdiv-fast/seed-0 runs/matrix-brdiv-fast/seed-0
  coverset crossplay runs/matrix-lbrdiv-fast/seed-0/rl2 heuristics --out rl2.png
  coverset crossplay heuristics H3 --env reaching --json
"""
FIGURES = (".png", ".svg")
HEURISTICS = "heuristics"


@dataclass(frozen=True)
class Crossplay(TrustOptions):
    """Command-line options."""

    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")]
    """Policies in seat 0."""
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")]
    """Policies in seat 1, or in all seats but 0."""
    env: str | None = None
    """Environment; needed only if neither A nor B is a path."""
    env_args: tuple[str, ...] = field(default=())
    """Parameters of that environment as NAME=VALUE."""
    roles: tuple[str, str] = ("best-responses", "teammates")
    """Which half of a population A and B use."""
    trials: int | None = None
    """Trials per pair (default: 128, or fewer if episodes are very long)."""
    episodes: int | None = None
    """Episodes per trial; policies keep their memory within a trial (default: 20, or fewer if they are very long)."""
    seed: int = 0
    """Random seed."""
    out: Path | None = None
    """File for a heat map of the matrix (.png or .svg)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Crossplay, arguments, command="crossplay", description=DESCRIPTION)
    if command.out is not None and command.out.suffix not in FIGURES:
        raise ValueError(f"out must end in {' or '.join(FIGURES)}, got '{command.out}'.")
    if command.env_args and command.env is None:
        raise ValueError("env_args need --env: a path already determines the parameters of its environment.")
    enable_compilation_cache()

    from coverset.pipeline.crossplay import crossplay

    with Console(stderr=True).status("Playing"):
        played = crossplay(
            command.a,
            command.b,
            env=command.env,
            env_parameters=parse_key_values("env_args", command.env_args),
            roles=command.roles,
            trials=command.trials,
            episodes=command.episodes,
            seed=command.seed,
        )
    if command.out is not None:
        from coverset.reports.figures import save_figure

        save_figure(command.out, played.plot())
    if command.json:
        print_json(played.to_json())
    else:
        _show(played)
    return 0


def _show(played: "CrossPlay") -> None:
    """Print seat 0 as rows and the others as columns; below each mean stands half the width of its interval."""
    print_text(f"{played.game}: {played.first.source} with {played.second.source}")
    rows = [list(_lines(played, row)) for row in range(len(played.first.titles))]
    names = played.second.titles
    widths = [max(len(name), *(len(line[n]) for row in rows for line in row)) for n, name in enumerate(names)]
    console = Console()
    for group in fit_columns(widths, console.width - max(map(len, played.first.titles)) - GAP):
        _show_columns(played, rows, group, console)
    trials, episodes = played.returns.shape[2:]
    whose = "Mean return" if played.seat_returns is None else "Mean return of seat 0 (--json has all seats')"
    if HEURISTICS in (played.first.source, played.second.source):
        print(f"What each heuristic does: coverset envs {played.environment}")
    print(f"{whose} over {trials} trials of {episodes} episodes, with 95% intervals over trials.")


def _show_columns(played: "CrossPlay", rows: list[list[list[str]]], group: slice, console: Console) -> None:
    """Print some columns of the table, as many as fit."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in played.second.titles[group]:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for name, (means, widths) in zip(played.first.titles, rows, strict=True):
        table.add_row(escape(name), *map("\n".join, zip(means[group], widths[group], strict=True)))
    console.print(table)


def _lines(played: "CrossPlay", row: int) -> Iterator[list[str]]:
    """Mean returns of a row, and below them half the widths of their intervals, if there are several trials."""
    intervals = [played.interval(row, column) for column in range(len(played.second.titles))]
    yield [f"{interval.mean:.3g}" for interval in intervals]
    yield [f"± {interval.half_width:.2g}" if interval.n > 1 else "" for interval in intervals]
