"""Tables of results for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from coverset.reports.blocks import HtmlTable


GAP = 2
"""Columns of the terminal between those of a table."""


def print_table(title: str, content: "HtmlTable") -> None:
    """Print a table of a report."""
    table = Table(title=escape(title))
    for number, column in enumerate(content.columns):
        table.add_column(escape(column), justify="left" if number < content.text_columns else "right")
    for row in content.rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_summaries(summaries: Sequence[dict[str, Any]], *, details: bool = False) -> None:
    """Print a line per seed: members found, returns, constraints, time; with `details` also one per teammate."""
    first = summaries[0]
    table = Table(
        title=escape(f"{first.get('game', first['env'])}: {first['method']}, preset {first['preset']}"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    rows = [_format_row(summary) for summary in summaries]
    console = Console()
    left = console.width - GAP
    for number, column in enumerate(("seed", "found", "self-play", "cross-play", "constraints", "time")):
        table.add_column(column, justify="right", no_wrap=True)
        left -= max(len(column), *(len(row[number]) for row in rows)) + GAP
    table.add_column("teammates", no_wrap=True)
    for *cells, teammates in rows:
        table.add_row(*cells, escape(teammates if len(teammates) <= left else f"{teammates[: left - 1]}…"))
    console.print(table)
    if sentence := _in_units(first):
        console.print(sentence)
    if details:
        _print_members(console, summaries)


def _in_units(summary: dict[str, Any]) -> str | None:
    """What returns are counted in, where the game says."""
    unit = summary.get("return_unit")
    return unit and f"One of the {unit['name']} is a return of {unit['size']:.3g}."


def _print_members(console: Console, summaries: Sequence[dict[str, Any]]) -> None:
    for summary in summaries:
        for member, words in enumerate(summary["conventions"], start=1):
            own = summary["cross_play"][min(member, len(summary["cross_play"])) - 1][member - 1]
            line = f"seed {summary['seed']} teammate {member}: {words}; {own:.3g} with its best response"
            console.print(escape(line), soft_wrap=True, highlight=False)


def _format_row(summary: dict[str, Any]) -> tuple[str, ...]:
    from coverset.evaluation.seed_averages import mean_self_and_cross_play
    from coverset.pipeline.results import describe_coverage

    self_play, cross_play = mean_self_and_cross_play(np.array(summary["cross_play"]))
    return (
        str(summary["seed"]),
        describe_coverage(summary),
        f"{self_play:.3g}",
        f"{cross_play:.3g}",
        _describe_constraints(summary),
        format_duration(summary["train_seconds"]),
        "; ".join(words.split(",")[0] for words in summary["conventions"]),
    )


def _describe_constraints(summary: dict[str, Any]) -> str:
    """How many constraints do not hold, those on mixed teams among them."""
    violated = summary["constraints_violated"]
    if violated is None:
        return "-"
    violated += summary.get("mixed_teams", {}).get("constraints_violated", 0)
    return "all hold" if violated == 0 else f"{violated} violated"


def format_duration(seconds: float | None) -> str:
    """A duration such as 42 s, 7 min or 3.5 h."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def describe_steps(asked: int, run: int) -> str | None:
    """A sentence about a training whose steps are not those that were asked for; None where they are."""
    if asked == run:
        return None
    why = "chunks of updates are not cut" if run > asked else "training ended early"
    return f"{run:,} steps per seed, where --total-steps is {asked:,}: {why}."
