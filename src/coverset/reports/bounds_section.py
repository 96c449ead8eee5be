"""Report section about what is possible: agents between chance, covering bound, Bayes bound and oracle."""

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coverset.evaluation.bounds_wording import BoundRange, Scale, average_bounds
from coverset.reports import agent_figures, drawing
from coverset.reports.blocks import HtmlTable, Picture, Section
from coverset.reports.chapters import Chapter
from coverset.reports.drawing import INK, MUTED, STYLE
from coverset.reports.tables import DataTable, make_table
from coverset.reports.wording import UNKNOWN, format_number

COLUMNS = ("method", "agent", "seeds", "mean_return", "chance", "covering_at_least", "covering_at_most")
COLUMNS += ("covering_exact", "bayes_at_least", "bayes_at_most", "bayes_exact", "oracle", "covering_fraction")
Row = tuple[str, str, int, float, Scale]
"""Method, label of the agents, seeds, mean return, and what it stands between."""


def bounds_section(chapter: Chapter) -> Section | None:
    """What the agents earn, and what could be earned with the same partners; None where it was not computed."""
    rows = _rows(chapter)
    if not rows:
        return None
    caption = (
        "Mean return per episode of a trial with a partner that is drawn from the held-out ones (diamonds), between an "
        "agent that acts at random (tick on the left) and the oracle, which knows its partner (tick on the right). "
        "Thick bars are the covering bound: the most that an agent can earn which knows the held-out partners, but not "
        "which one it has, and plays one of its generated best responses in each episode. Thin bars are the Bayes "
        "bound: the same for an agent that may play anything. A bar is a point where the bound is exact, and otherwise "
        "runs from what was earned to what cannot be exceeded. Agents that do more than choose best responses may "
        "exceed the covering bound."
    )
    data = _data(chapter, rows)
    picture = Picture(f"{chapter.slug}-bounds", _figure(chapter, rows), caption, (data,))
    return Section("possible", "What is possible", [picture, _table(chapter, rows)])


def _rows(chapter: Chapter) -> list[Row]:
    found: list[Row] = []
    for agents in chapter.agents:
        for method in chapter.methods:
            records = [*method.evaluations.get(agents.label, {}).values()]
            if (scale := average_bounds(records)) is not None:
                mean = sum(record["mean_return"] for record in records) / len(records)
                found.append((method.label, agents.label, len(records), mean, scale))
    return found


def _data(chapter: Chapter, rows: list[Row]) -> DataTable:
    nothing = (None, None, None)
    cells = [
        (*row[:4], scale.chance, *(scale.covering or nothing), *(scale.bayes or nothing), scale.oracle, fraction)
        for row in rows
        for scale in [row[4]]
        for fraction in [scale.covering_fraction]
    ]
    return make_table(chapter, "bounds", COLUMNS, cells)


def _table(chapter: Chapter, rows: list[Row]) -> HtmlTable:
    shown = [
        (
            *(method, chapter.agent_title(label), format_number(scale.chance), format_number(mean)),
            *(UNKNOWN if bound is None else str(bound) for bound in (scale.covering, scale.bayes)),
            format_number(scale.oracle),
            UNKNOWN if scale.covering_fraction is None else f"{100 * scale.covering_fraction:.1f}%",
        )
        for method, label, _, mean, scale in rows
    ]
    columns = ("method", "agent", "chance", "mean return", "covering bound", "Bayes bound", "oracle", "of covering")
    caption = (
        "The same as numbers, averaged over seeds. A single number is exact. Fractions are those of the lower end of "
        "the covering bound, and not clipped."
    )
    return HtmlTable(caption, columns, shown, text_columns=2)


def _figure(chapter: Chapter, rows: list[Row]) -> Figure:
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(drawing.NARROW, 0.9 + 0.45 * len(rows))
        ax = figure.subplots()
        titles = [f"{drawing.shorten(method, 16)}, {chapter.agent_title(label)}" for method, label, *_ in rows]
        for number, (*_, mean, scale) in enumerate(rows):
            _draw_row(ax, number, mean, scale)
        agent_figures.frame_rows(ax, titles, "mean return with held-out partners")
    return figure


def _draw_row(ax: Axes, row: int, mean: float, scale: Scale) -> None:
    for value in (scale.chance, scale.oracle):
        if value is not None:
            ax.plot([value], [row], "|", color=INK, markersize=14)
    for bound, width, shift in ((scale.covering, 5.0, 0.0), (scale.bayes, 1.8, 0.2)):
        if bound is not None:
            _draw_range(ax, row + shift, bound, width)
    ax.plot([mean], [row], "D", color=drawing.METHOD_COLOURS["lbrdiv"], markersize=6)


def _draw_range(ax: Axes, row: float, bound: BoundRange, width: float) -> None:
    ends = (bound.at_least, bound.at_least if bound.at_most is None else bound.at_most)
    ax.plot(ends, [row, row], color=MUTED, linewidth=width, alpha=0.7)
    ax.plot(ends, [row, row], "|", color=MUTED, markersize=2 + width)
