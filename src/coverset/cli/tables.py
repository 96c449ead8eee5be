"""Results as tables for people."""

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from coverset.reports.blocks import HtmlTable


def print_table(title: str, content: "HtmlTable") -> None:
    """A table of a report."""
    table = Table(title=escape(title))
    for number, column in enumerate(content.columns):
        table.add_column(escape(column), justify="left" if number < content.text_columns else "right")
    for row in content.rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_summaries(summaries: list[dict[str, Any]]) -> None:
    """One row per run: what was found, how well pairs play, how long it took."""
    console = Console()
    first = summaries[0]
    table = Table(title=f"{first['env']}: {first['method']}, preset {first['preset']}")
    for column in ("seed", "found", "self-play", "cross-play", "constraints", "seconds", "teammates"):
        table.add_column(column, justify="left" if column == "teammates" else "right", overflow="fold")
    for summary in summaries:
        table.add_row(*_cells(summary))
    console.print(table)


def _cells(summary: dict[str, Any]) -> tuple[str, ...]:
    returns = np.array(summary["cross_play"])
    cross = returns[~np.eye(len(returns), dtype=bool)]
    violated = summary["constraints_violated"]
    return (
        str(summary["seed"]),
        _found(summary),
        f"{np.diagonal(returns).mean():.3g}",
        f"{cross.mean():.3g}",
        "all hold" if violated == 0 else f"{violated} violated",
        f"{summary['train_seconds']:.0f}",
        "; ".join(words.split(",")[0] for words in summary["conventions"]),
    )


def _found(summary: dict[str, Any]) -> str:
    """Members of the known coverage set, or kinds of teammates where none is known."""
    found, size = summary["coverage_found"], summary["coverage_size"]
    if found is None:
        return "unknown"
    return f"{found} {'kind' if found == 1 else 'kinds'}" if size is None else f"{found} of {size}"
