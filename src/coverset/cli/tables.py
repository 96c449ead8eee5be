"""Tables of results for the terminal."""

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from coverset.reports.blocks import HtmlTable


def print_table(title: str, content: "HtmlTable") -> None:
    """Print a table of a report."""
    table = Table(title=escape(title))
    for number, column in enumerate(content.columns):
        table.add_column(escape(column), justify="left" if number < content.text_columns else "right")
    for row in content.rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_summaries(summaries: list[dict[str, Any]]) -> None:
    """Print one row per run: members found, returns, constraints, time."""
    console = Console()
    first = summaries[0]
    table = Table(title=f"{first['env']}: {first['method']}, preset {first['preset']}")
    for column in ("seed", "found", "self-play", "cross-play", "constraints", "seconds", "teammates"):
        table.add_column(column, justify="left" if column == "teammates" else "right", overflow="fold")
    for summary in summaries:
        table.add_row(*_format_row(summary))
    console.print(table)
    if sentence := _in_units(first):
        console.print(sentence)


def _in_units(summary: dict[str, Any]) -> str | None:
    """What returns are counted in, where the game says."""
    unit = summary.get("return_unit")
    return unit and f"One of the {unit['name']} is a return of {unit['size']:.3g}."


def _format_row(summary: dict[str, Any]) -> tuple[str, ...]:
    from coverset.evaluation.seed_averages import mean_self_and_cross_play

    self_play, cross_play = mean_self_and_cross_play(np.array(summary["cross_play"]))
    violated = summary["constraints_violated"]
    return (
        str(summary["seed"]),
        _found(summary),
        f"{self_play:.3g}",
        f"{cross_play:.3g}",
        "-" if violated is None else "all hold" if violated == 0 else f"{violated} violated",
        f"{summary['train_seconds']:.0f}",
        "; ".join(words.split(",")[0] for words in summary["conventions"]),
    )


def _found(summary: dict[str, Any]) -> str:
    """Members of the known coverage set, or the number of kinds of teammates if it is unknown."""
    found, size = summary["coverage_found"], summary["coverage_size"]
    if found is None:
        return "unknown"
    return f"{found} {'kind' if found == 1 else 'kinds'}" if size is None else f"{found} of {size}"
