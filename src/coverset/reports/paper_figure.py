"""One figure of a game as a paper prints it: who plays with whom, training, adaptation and final returns in one row."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coverset.reports import agent_figures, agent_tables, drawing, population_figures
from coverset.reports.agent_groups import AgentGroup
from coverset.reports.blocks import Picture
from coverset.reports.chapters import Chapter
from coverset.reports.drawing import MUTED

WIDTH = 7.0
"""Width in inches of both columns of a paper's page."""
HEIGHT = 2.35
STYLE: Any = {**drawing.STYLE, "font.size": 8, "axes.titlesize": 8, "axes.linewidth": 0.7, "lines.linewidth": 1.2}
LONGEST_TITLE = 28
MOST_ROWS = 6
"""Largest number of rows of final returns."""

Panel = tuple[float, str, Callable[[Axes], None]]
"""Relative width, what the panel shows, and the function that draws it."""


def paper_picture(chapter: Chapter) -> Picture | None:
    """The figure of a chapter with its caption; None without finished runs."""
    panels = _choose_panels(chapter)
    if not panels:
        return None
    letters = "abcdefgh"
    said = " ".join(f"({letter}) {text}" for letter, (_, text, _) in zip(letters, panels, strict=False))
    caption = f"{chapter.title} at a glance, {WIDTH:g} inches wide for a page of two columns. {said}"
    return Picture(f"{chapter.slug}-figure", draw_panels(panels), caption, formats=("png", "svg", "pdf"))


def draw_panels(panels: list[Panel]) -> Figure:
    """Draw panels side by side, lettered from (a) on, with one legend above them."""
    with mpl.rc_context(STYLE):
        total = sum(width for width, _, _ in panels)
        figure = drawing.new_figure(WIDTH * min(1.0, total / 3.4), HEIGHT)
        axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=[width for width, _, _ in panels])[0]
        for letter, ax, (_, _, draw) in zip("abcdefgh", axes, panels, strict=False):
            draw(ax)
            ax.set_title(f"({letter}) {ax.get_title()}", loc="left", pad=4)
            ax.set_title("", loc="center")
        entries = {}
        for ax in axes:
            handles, labels = ax.get_legend_handles_labels()
            entries |= dict(zip(labels, handles, strict=True))
        if entries:
            figure.legend(
                [*entries.values()],
                [*entries],
                loc="outside upper center",
                ncols=min(len(entries), 5),
                handlelength=2.4,
            )
    return figure


def _choose_panels(chapter: Chapter) -> list[Panel]:
    panels: list[Panel] = []
    seed = population_figures.shown_seed(chapter)
    if seed is None:
        return []
    method = next(one for one in chapter.methods if seed in one.finished)
    text = f"Mean return of every pair of {method.label}, seed {seed}: best responses in rows, teammates in columns."
    panels.append((1.0, text, lambda ax: _draw_cross_play(ax, chapter, seed)))
    if any(len(run.rows) > 1 for one in chapter.methods for run in one.finished.values()):
        panels.append(
            (1.0, "Self-play and, thin, cross-play over teammate generation.", lambda ax: _draw_returns(ax, chapter))
        )
    measured = [a for a in chapter.agents if any(agent_tables.adaptation_curves(m, a.label) for m in chapter.methods)]
    if measured:
        shown = measured if len(chapter.methods) == 1 else measured[:1]
        who = "the agents" if len(shown) > 1 else f"{shown[0].title} agents"
        text = f"Return of {who} by episode with one held-out partner."
        panels.append((1.0, text, lambda ax: _draw_adaptation(ax, chapter, shown)))
        if len(agent_figures.final_entries(chapter, shown)) <= MOST_ROWS:
            text = f"Mean return of {who} with held-out partners: seeds (dots), mean, 95% interval from three seeds on."
            panels.append((1.0, text, lambda ax: _draw_final(ax, chapter, shown)))
    return panels


def _draw_cross_play(ax: Axes, chapter: Chapter, seed: int) -> None:
    method = next(one for one in chapter.methods if seed in one.finished)
    summary = method.summaries()[seed]
    population_figures.draw_numbered_map(ax, summary, population_figures.colour_range(chapter), size=6.5)
    ax.set(xlabel="teammate", ylabel="best response", title="cross-play")


def _draw_returns(ax: Axes, chapter: Chapter) -> None:
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    for number, (method, colour) in enumerate(zip(chapter.methods, colours, strict=True)):
        for field, width in (("self_play_return", 1.4), ("cross_play_return", 0.7)):
            label = drawing.shorten(method.label) if width > 1 and len(chapter.methods) > 1 else None
            curves = population_figures.curves_of(method, lambda row, field=field: row[field])
            population_figures.draw_mean(ax, curves, label, colour, number, linewidth=width)
    drawing.format_steps_axis(ax, "environment steps")
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.set(title="generation", ylabel="return")
    ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.5)


def _draw_adaptation(ax: Axes, chapter: Chapter, shown: Sequence[AgentGroup]) -> None:
    """Draw the curves of one group of agents for every method or, of a single method, those of every group."""
    if len(chapter.methods) > 1:
        agent_figures.draw_curves(ax, chapter, shown[0].label, agent_tables.adaptation_curves)
    else:
        colours = {
            a.label: colour for a, (colour,) in zip(chapter.agents, agent_figures.entry_colours(chapter), strict=True)
        }
        for number, agents in enumerate(shown):
            points = agent_tables.shared_points(agent_tables.adaptation_curves(chapter.reference, agents.label))
            name = drawing.shorten(agents.title, LONGEST_TITLE)
            drawing.draw_band(ax, points, name, colours[agents.label], drawing.line_style(number))
        ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.5)
    if len({agent_figures.mean_oracle(chapter, agents.label) for agents in shown}) == 1:
        agent_figures.draw_oracle(ax, chapter, shown[0].label)
    ax.set(title="adaptation", xlabel="episode with one partner", ylabel="return")
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))


def _draw_final(ax: Axes, chapter: Chapter, shown: Sequence[AgentGroup]) -> None:
    entries = agent_figures.final_entries(chapter, shown)
    wrapped = [(fill(title, 15), values, colour) for title, values, colour in entries]
    agent_figures.draw_intervals(ax, wrapped, "return")
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.set_title("held-out partners")
