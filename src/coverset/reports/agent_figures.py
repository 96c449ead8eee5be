"""Figures of ad hoc agents: robustness over training, final returns, differences, adaptation within a trial."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coverset.evaluation.statistics import bootstrap_interval, student_interval
from coverset.reports import agent_tables, drawing
from coverset.reports.agent_groups import AgentGroup
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.drawing import INK, MUTED, STYLE

Curves = Callable[[MethodRuns, str], Mapping[int, Mapping[Any, float]]]


def robustness_figure(chapter: Chapter, shown: Sequence[AgentGroup]) -> Figure:
    """Plot the mean return with held-out partners over agent training: the paper's main figure."""
    figure = _curve_figure(chapter, shown, agent_tables.training_curves, "return with held-out partners")
    for ax in figure.axes:
        drawing.format_steps_axis(ax, "environment steps of agent training")
    return figure


def adaptation_figure(chapter: Chapter, shown: Sequence[AgentGroup]) -> Figure:
    """Plot the mean return over partners by episode of a trial, with the mean oracle return as a reference line."""
    figure = _curve_figure(chapter, shown, agent_tables.adaptation_curves, "return of the episode", oracle=True)
    for ax in figure.axes:
        ax.set_xlabel("episode with the same partner")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    return figure


def mean_oracle(chapter: Chapter, label: str) -> float | None:
    """Mean oracle return over the partners of a group of agents; None unless every partner's oracle is known."""
    every = (record for m in chapter.methods for record in m.evaluations.get(label, {}).values())
    partners = next(every, {"partners": {}})["partners"].values()
    values = [partner["oracle"] for partner in partners]
    return float(np.mean(values)) if values and None not in values else None


def _curve_figure(
    chapter: Chapter, shown: Sequence[AgentGroup], curves: Curves, label: str, *, oracle: bool = False
) -> Figure:
    """Draw one panel for each group of agents, and a horizontal line at the mean oracle return if asked for."""
    with mpl.rc_context(STYLE):
        figure, axes = drawing.make_panels(len(shown), height=3.2)
        for ax, agents in zip(axes, shown, strict=True):
            draw_curves(ax, chapter, agents.label, curves)
            if oracle:
                draw_oracle(ax, chapter, agents.label)
            ax.set_title(f"{drawing.shorten(agents.title, 40)} agents")
        for ax in axes[::2]:
            ax.set_ylabel(label)
        drawing.add_legend_above(figure, max(axes, key=lambda ax: len(ax.get_legend_handles_labels()[0])))
    return figure


def draw_curves(ax: Axes, chapter: Chapter, label: str, curves: Curves) -> None:
    """Draw a line and a band for every method."""
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    for number, (method, colour) in enumerate(zip(chapter.methods, colours, strict=True)):
        if points := agent_tables.shared_points(curves(method, label)):
            drawing.draw_band(ax, points, drawing.shorten(method.label), colour, drawing.line_style(number))
    ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.6)


def draw_oracle(ax: Axes, chapter: Chapter, label: str) -> None:
    """Draw a line at the mean oracle return, if it is known."""
    if (value := mean_oracle(chapter, label)) is not None:
        ax.axhline(value, color=MUTED, linewidth=1.2, linestyle=(0, (2, 2)), label="mean oracle")


def final_figure(chapter: Chapter) -> Figure:
    """Plot the final mean return of every method and group of agents: seeds, means, Student and bootstrap intervals."""
    entries = final_entries(chapter, chapter.agents)
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(drawing.NARROW, 0.9 + 0.45 * len(entries))
        draw_intervals(figure.subplots(), entries, "mean return with held-out partners")
    return figure


def final_entries(chapter: Chapter, shown: Sequence[AgentGroup]) -> list[tuple[str, list[float], str]]:
    """Title, returns of all seeds and colour of every method and of the groups of agents that are shown."""
    return [
        (_title(chapter, method.label, agents, alone=len(shown) == 1), list(returns.values()), colour)
        for agents, colours in zip(chapter.agents, entry_colours(chapter), strict=True)
        for method, colour in zip(chapter.methods, colours, strict=True)
        if agents in shown and (returns := agent_tables.final_returns(method, agents.label))
    ]


def entry_colours(chapter: Chapter) -> list[list[str]]:
    """Colours by group of agents and method: of the method or, where there is only one, of the group."""
    if len(chapter.methods) == 1:
        by_group = drawing.choose_colours([chapter.methods[0].name] * len(chapter.agents))
        return [[colour] for colour in by_group]
    return [drawing.choose_colours([method.name for method in chapter.methods])] * len(chapter.agents)


def difference_figure(chapter: Chapter) -> Figure | None:
    """Plot the reference method minus each other method, paired by seed; None if there is nothing to compare."""
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    entries = [
        (_title(chapter, f"minus {method.label}", agents, alone=len(chapter.agents) == 1), values, colour)
        for agents in chapter.agents
        for method, colour in zip(chapter.methods[1:], colours[1:], strict=True)
        if (values := agent_tables.paired_values(chapter.reference, method, agents.label))
    ]
    if not entries:
        return None
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(drawing.NARROW, 0.9 + 0.45 * len(entries))
        ax = figure.subplots()
        draw_intervals(ax, entries, f"{drawing.shorten(chapter.reference.label)} minus other method")
        ax.axvline(0, color=INK, linewidth=0.9)
    return figure


def _title(chapter: Chapter, label: str, agents: AgentGroup, *, alone: bool) -> str:
    """Method and agents; one of them where the other is always the same."""
    method, agent = drawing.shorten(label), drawing.shorten(agents.title, 40)
    return method if alone else agent if len(chapter.methods) == 1 else f"{method}, {agent}"


def draw_intervals(ax: Axes, entries: Sequence[tuple[str, list[float], str]], label: str) -> None:
    """Draw one row for every entry: a title, the values of its seeds, a colour."""
    for row, (_, values, colour) in enumerate(entries):
        _draw_interval(ax, row, values, colour)
    frame_rows(ax, [title for title, _, _ in entries], label)


def frame_rows(ax: Axes, titles: Sequence[str], label: str) -> None:
    """Name the rows of a figure, from the top, and its horizontal axis."""
    ax.set_yticks(range(len(titles)), titles)
    ax.set_ylim(len(titles) - 0.45, -0.55)
    ax.set_xlabel(label)
    ax.grid(axis="x", color=MUTED, alpha=0.25, linewidth=0.6)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.margins(x=0.12)


def _draw_interval(ax: Axes, row: int, values: list[float], colour: str) -> None:
    """Draw seeds as dots and, above them, the mean with a thick Student bar and a thin bootstrap line.

    One or two seeds have no interval that says anything, and are drawn as dots and mean alone.
    """
    ax.plot(values, np.full(len(values), row + 0.24), "o", color=colour, markersize=3.5, alpha=0.6, linewidth=0)
    if len(values) > 2:
        student, bootstrap = student_interval(values), bootstrap_interval(values)
        ax.plot([student.low, student.high], [row, row], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
        ax.plot([bootstrap.low, bootstrap.high], [row, row], color=colour, linewidth=1.8)
    ax.plot([float(np.mean(values))], [row], "D", color=colour, markersize=6)
