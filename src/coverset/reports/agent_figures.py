"""Figures of ad hoc agents: robustness over training, final returns, differences, adaptation within a trial."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coverset.evaluation.statistics import bootstrap_interval, student_interval
from coverset.reports import drawing, tables
from coverset.reports.chapters import Chapter, MethodRuns, learner_name
from coverset.reports.drawing import INK, MUTED, STYLE

Curves = Callable[[MethodRuns, str], Mapping[int, Mapping[Any, float]]]


def robustness_figure(chapter: Chapter, learners: Sequence[str]) -> Figure:
    """Plot the mean return with held-out partners over agent training: the paper's main figure."""
    figure = _curve_figure(chapter, learners, tables.training_curves, "return with held-out partners")
    for ax in figure.axes:
        drawing.format_steps_axis(ax, "environment steps of agent training")
    return figure


def adaptation_figure(chapter: Chapter, learners: Sequence[str]) -> Figure:
    """Plot the mean return over partners by episode of a trial, with the mean oracle return as a reference line."""
    label = "return of the episode"
    figure = _curve_figure(chapter, learners, tables.adaptation_curves, label, line_at=mean_oracle(chapter))
    for ax in figure.axes:
        ax.set_xlabel("episode with the same partner")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    return figure


def mean_oracle(chapter: Chapter) -> float | None:
    """Mean oracle return over partners; None unless every partner's oracle is known."""
    every = (record for m in chapter.methods for by_seed in m.evaluations.values() for record in by_seed.values())
    partners = next(every, {"partners": {}})["partners"].values()
    values = [partner["oracle"] for partner in partners]
    return float(np.mean(values)) if values and None not in values else None


def _curve_figure(
    chapter: Chapter, learners: Sequence[str], curves: Curves, label: str, *, line_at: float | None = None
) -> Figure:
    """Draw one panel per learner with a line and band per method, and a horizontal line at `line_at` if given."""
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    with mpl.rc_context(STYLE):
        figure, axes = drawing.make_panels(len(learners), height=3.4)
        for ax, learner in zip(axes, learners, strict=True):
            for number, (method, colour) in enumerate(zip(chapter.methods, colours, strict=True)):
                if band := tables.seed_intervals(curves(method, learner)):
                    name = drawing.shorten(method.label)
                    drawing.draw_band(ax, band, name, colour, drawing.line_style(number))
            if line_at is not None:
                ax.axhline(line_at, color=MUTED, linewidth=1.2, linestyle=(0, (2, 2)), label="mean oracle")
            ax.set_title(f"{drawing.shorten(learner_name(learner))} agents")
            ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.6)
        for ax in axes[::2]:
            ax.set_ylabel(label)
        drawing.add_legend_above(figure, max(axes, key=lambda ax: len(ax.lines)))
    return figure


def final_figure(chapter: Chapter) -> Figure:
    """Plot the final mean return of every method and learner: seeds, means, Student and bootstrap intervals."""
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    entries = [
        (_title(chapter, method.label, learner), list(returns.values()), colour)
        for learner in chapter.learners
        for method, colour in zip(chapter.methods, colours, strict=True)
        if (returns := tables.final_returns(method, learner))
    ]
    return _interval_figure(entries, "mean return with held-out partners")


def difference_figure(chapter: Chapter) -> Figure | None:
    """Plot the reference method minus each other method, paired by seed; None if there is nothing to compare."""
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    entries = []
    for learner in chapter.learners:
        ours = tables.final_returns(chapter.reference, learner)
        for method, colour in zip(chapter.methods[1:], colours[1:], strict=True):
            theirs = tables.final_returns(method, learner)
            values = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
            if values:
                entries.append((_title(chapter, f"minus {method.label}", learner), values, colour))
    if not entries:
        return None
    figure = _interval_figure(entries, f"{drawing.shorten(chapter.reference.label)} minus other method")
    figure.axes[0].axvline(0, color=INK, linewidth=0.9)
    return figure


def _title(chapter: Chapter, label: str, learner: str) -> str:
    short = drawing.shorten(label)
    return f"{short}, {drawing.shorten(learner_name(learner))}" if len(chapter.learners) > 1 else short


def _interval_figure(entries: Sequence[tuple[str, list[float], str]], label: str) -> Figure:
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(drawing.NARROW, 0.9 + 0.45 * len(entries))
        ax = figure.subplots()
        for row, (_, values, colour) in enumerate(entries):
            _draw_interval(ax, row, values, colour)
        ax.set_yticks(range(len(entries)), [title for title, _, _ in entries])
        ax.set_ylim(len(entries) - 0.45, -0.55)
        ax.set_xlabel(label)
        ax.grid(axis="x", color=MUTED, alpha=0.25, linewidth=0.6)
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_locator(MaxNLocator(6))
    return figure


def _draw_interval(ax: Axes, row: int, values: list[float], colour: str) -> None:
    """Draw seeds as dots and, above them, the mean with a thick Student bar and a thin bootstrap line."""
    ax.plot(values, np.full(len(values), row + 0.24), "o", color=colour, markersize=3.5, alpha=0.6, linewidth=0)
    student, bootstrap = student_interval(values), bootstrap_interval(values)
    if student.n > 1:
        ax.plot([student.low, student.high], [row, row], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
        ax.plot([bootstrap.low, bootstrap.high], [row, row], color=colour, linewidth=1.8)
    ax.plot([student.mean], [row], "D", color=colour, markersize=6)
