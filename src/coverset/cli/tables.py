"""Tables of results for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.shared import print_text

if TYPE_CHECKING:
    from coverset.reports.blocks import HtmlTable


GAP = 2
"""Columns of the terminal between those of a table."""
FEWEST_LETTERS = 8
"""To which a text is shortened at most."""


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
    title = f"{first.get('game', first['env'])}: {first['method']}, preset {first['preset']}"
    columns = ("seed", "found", "self-play", "cross-play", "constraints", "time", "teammates")
    cut = print_rows(title, columns, [_format_row(summary) for summary in summaries], text=-1)
    if sentence := _in_units(first):
        print(sentence)
    if details:
        _print_members(summaries)
    elif cut:
        print("What every teammate does: --details.")


def print_rows(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 0, keep_end: bool = False
) -> bool:
    """Print a table of a line per row that fits into the terminal, and tell whether a text had to be shortened for it.

    Args:
      title: stands above the table.
      columns: headings.
      rows: cells.
      text: the column of text, which is shortened where there is no room; all others are numbers, which never are.
      keep_end: whether the end of a text, rather than its beginning, tells it from others.
    """
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    text %= len(columns)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == text else "right", no_wrap=True)
    console = Console()
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    room = max(console.width - GAP * len(columns) - sum(widths) + widths[text], FEWEST_LETTERS)
    for row in rows:
        shown = [_shorten(cell, room, keep_end) if number == text else cell for number, cell in enumerate(row)]
        table.add_row(*map(escape, shown))
    console.print(table)
    return widths[text] > room


def _shorten(text: str, room: int, keep_end: bool) -> str:
    if len(text) <= room:
        return text
    return f"…{text[1 - room :]}" if keep_end else f"{text[: room - 1]}…"


def fit_columns(widths: Sequence[int], room: int) -> list[slice]:
    """Consecutive groups of columns, each at most `room` wide with its gaps where a single one is."""
    groups, start, used = [], 0, 0
    for number, width in enumerate(widths):
        if number > start and used + width + GAP > room:
            groups.append(slice(start, number))
            start, used = number, 0
        used += width + GAP
    return [*groups, slice(start, len(widths))]


def _in_units(summary: dict[str, Any]) -> str | None:
    """What returns are counted in, where the game says."""
    unit = summary.get("return_unit")
    return unit and f"One of the {unit['name']} is a return of {unit['size']:.3g}."


def _print_members(summaries: Sequence[dict[str, Any]]) -> None:
    for summary in summaries:
        for member, words in enumerate(summary["conventions"], start=1):
            own = summary["cross_play"][min(member, len(summary["cross_play"])) - 1][member - 1]
            line = f"seed {summary['seed']} teammate {member}: {words}; {own:.3g} with its best response"
            print_text(line)


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
