"""Figures of generated teammates: coverage, cross-play, and constraints over training."""

from collections import Counter
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from coverset.evaluation.statistics import student_interval
from coverset.reports import drawing, tables
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.drawing import INK, MUTED, STYLE
from coverset.reports.figures import MEMBER_COLOURS
from coverset.reports.records import CONSTRAINTS, Content, read_multipliers
from coverset.reports.wording import TIMES

MOST_MAPS = 64
"""Largest number of small multiples to draw."""
MAPS_ACROSS = 8


def coverage_figure(chapter: Chapter) -> Figure:
    """Draw one panel per method: rows are seeds, columns members of the coverage set, cells the pairs that hold one."""
    methods = [method for method in chapter.methods if method.finished]
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    chosen = [colour for method, colour in zip(chapter.methods, colours, strict=True) if method.finished]
    longest = max(len(name) for name in chapter.members)
    with mpl.rc_context(STYLE):
        columns = len(methods) if len(methods) * len(chapter.members) <= 14 else 2 if len(methods) > 1 else 1
        down = -(-len(methods) // columns)
        rows = max(len(method.finished) for method in methods)
        width = drawing.NARROW if columns * len(chapter.members) <= 9 else drawing.WIDTH
        figure = drawing.new_figure(width, (0.75 + 0.075 * min(longest, 24) + 0.24 * rows) * down)
        axes = figure.subplots(down, columns, squeeze=False).ravel()
        for ax in axes[len(methods) :]:
            ax.set_axis_off()
        for ax, method, colour in zip(axes, methods, chosen, strict=False):
            _draw_coverage(ax, method, chapter.members, colour)
    return figure


def _draw_coverage(ax: Axes, method: MethodRuns, members: Sequence[str], colour: str) -> None:
    summaries = method.summaries()
    for row, summary in enumerate(summaries.values()):
        held = Counter(summary["covers"])
        for column, member in enumerate(members):
            _draw_cell(ax, row, column, held[member], colour)
    ax.set_xlim(-0.5, len(members) - 0.5)
    ax.set_ylim(len(summaries) - 0.5, -0.5)
    ax.set_xticks(range(len(members)), [drawing.shorten(member, 24) for member in members], rotation=90)
    ax.set_yticks(range(len(summaries)), [f"seed {seed}" for seed in summaries])
    ax.tick_params(length=0)
    ax.set_title(drawing.shorten(method.label), color=colour, weight="bold")


def _draw_cell(ax: Axes, row: int, column: int, count: int, colour: str) -> None:
    """Draw an empty cell if no pair holds the member, a filled one otherwise, with the count of duplicates."""
    face = to_rgba(colour, 0.45 if count else 0.0)
    ax.add_patch(Rectangle((column - 0.42, row - 0.4), 0.84, 0.8, facecolor=face, edgecolor=MUTED, linewidth=0.6))
    if count > 1:
        ax.text(column, row, f"{TIMES}{count}", ha="center", va="center_baseline", size=9, weight="bold", color=INK)


def shown_seed(chapter: Chapter) -> int | None:
    """The lowest seed that all methods with finished runs share, else the first method's lowest; None without runs."""
    finished = [set(method.finished) for method in chapter.methods if method.finished]
    if not finished:
        return None
    return min(set.intersection(*finished) or finished[0])


def colour_range(chapter: Chapter) -> tuple[float, float]:
    """Range of all cross-play returns, extended to include 0."""
    values = [v for m in chapter.methods for s in m.summaries().values() for row in s["cross_play"] for v in row]
    low, high = min(0.0, *values), max(values)
    return low, high if high > low else low + 1.0


def cross_play_map(summary: Content, label: str, limits: tuple[float, float]) -> Figure:
    """Draw the cross-play returns of one population as an annotated heat map."""
    matrix = np.array(summary["cross_play"])
    rows, columns = matrix.shape
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(1.55 + 0.44 * columns, 1.15 + 0.4 * rows)
        ax = figure.subplots()
        _draw_map(ax, matrix, limits)
        for (i, j), value in np.ndenumerate(matrix):
            bright = (value - limits[0]) / (limits[1] - limits[0]) > 0.55
            weight = "bold" if i == j else "normal"
            text = f"{value:.2g}" if abs(value) < 10 else f"{value:.3g}"
            ax.text(j, i, text, ha="center", va="center_baseline", size=9, weight=weight,
                    color="#000001" if bright else "#ffffff")  # fmt: skip
        covers = [*summary["covers"], *[None] * rows][:rows]
        ax.set_xticks(range(columns), [str(n + 1) for n in range(columns)])
        ax.set_yticks(range(rows), [f"{n + 1}: {drawing.shorten(name or 'none', 14)}" for n, name in enumerate(covers)])
        ax.set(xlabel="teammate", ylabel="best response")
        ax.set_title(f"{drawing.shorten(label)}, seed {summary['seed']}")
    return figure


def cross_play_multiples(chapter: Chapter) -> Figure | None:
    """Draw small heat maps of all seeds, grouped by method; None for too many maps or one seed per method."""
    blocks = [method for method in chapter.methods if method.finished]
    count = sum(len(method.finished) for method in blocks)
    if count > MOST_MAPS or count == len(blocks):
        return None
    across = min(MAPS_ACROSS, max(len(method.finished) for method in blocks))
    heights = [-(-len(method.finished) // across) for method in blocks]
    limits = colour_range(chapter)
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(max(4.0, 0.95 * across), 0.3 * len(blocks) + 1.12 * sum(heights))
        parts = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=[0.3 + 1.12 * h for h in heights])[:, 0]
        for part, method, down in zip(parts, blocks, heights, strict=True):
            part.suptitle(drawing.shorten(method.label), weight="bold", size=10)
            axes = part.subplots(down, across, squeeze=False).ravel()
            for ax, (seed, summary) in zip(axes, method.summaries().items(), strict=False):
                _draw_map(ax, np.array(summary["cross_play"]), limits)
                ax.set(xticks=[], yticks=[])
                ax.set_title(_small_title(seed, summary), size=8.5, pad=2)
            for ax in axes[len(method.finished) :]:
                ax.set_axis_off()
    return figure


def _small_title(seed: int, summary: Content) -> str:
    found = "" if summary["coverage_size"] is None else f": {summary['coverage_found']}/{summary['coverage_size']}"
    return f"seed {seed}{found}"


def _draw_map(ax: Axes, matrix: np.ndarray, limits: tuple[float, float]) -> None:
    """Draw cells as vector shapes instead of an embedded image."""
    down, across = (np.arange(size + 1) - 0.5 for size in matrix.shape)
    ax.pcolormesh(across, down, matrix, cmap="viridis", vmin=limits[0], vmax=limits[1])
    ax.set_ylim(len(matrix) - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def training_overview(chapter: Chapter) -> Figure:
    """Plot returns, the smallest constraint gap and the largest multiplier over generation, as means over seeds."""
    colours = drawing.choose_colours([method.name for method in chapter.methods])
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(drawing.WIDTH, 5.4)
        axes = figure.subplots(2, 2).ravel()
        for number, (method, colour) in enumerate(zip(chapter.methods, colours, strict=True)):
            for ax, (_, choose) in zip(axes, TRAINING_PANELS, strict=True):
                curves = {s: _curve(run.rows, choose) for s, run in method.finished.items()}
                _draw_mean(ax, curves, drawing.shorten(method.label), colour, number)
        for ax, (label, _) in zip(axes, TRAINING_PANELS, strict=True):
            ax.set_title(label)
            drawing.format_steps_axis(ax, "environment steps")
            ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.6)
        axes[2].axhline(0, color=INK, linewidth=0.9)
        if not axes[3].lines:  # no method of the chapter has multipliers
            axes[3].remove()
        drawing.add_legend_above(figure, axes[0])
    return figure


TRAINING_PANELS = (
    ("self-play return", lambda row: row["self_play_return"]),
    ("cross-play return", lambda row: row["cross_play_return"]),
    ("smallest constraint gap", lambda row: tables.extreme_entry(row["gaps"], min)),
    ("largest multiplier", lambda row: tables.extreme_entry(read_multipliers(row), max)),
)
"""Panels of the overview: the title, and the value of a metrics row."""


def _curve(rows, choose) -> dict[int, float]:
    return {row["env_steps"]: value for row in rows if (value := choose(row)) is not None}


def _draw_mean(ax: Axes, curves: dict[int, dict[int, float]], label: str, colour: str, number: int) -> None:
    """Draw the mean over seeds as a line and the range of seeds as a band."""
    curves = {seed: curve for seed, curve in curves.items() if curve}
    if not curves:
        return
    steps = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    values = np.array([[curve[step] for step in steps] for curve in curves.values()])
    means = [student_interval(column).mean for column in values.T]
    ax.plot(steps, means, color=colour, linestyle=drawing.line_style(number), linewidth=1.5, label=label)
    if len(curves) > 1:
        ax.fill_between(steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.14, linewidth=0)


def constraint_figure(method: MethodRuns, seed: int) -> Figure:
    """Plot every constraint of one seed over training: its gap, and its multiplier if the method has multipliers."""
    rows = method.finished[seed].rows
    steps = np.array([row["env_steps"] for row in rows])
    shown = [("constraint gaps", [row["gaps"] for row in rows])]
    multipliers = [read_multipliers(row) for row in rows]
    if None not in multipliers:
        shown.append(("multipliers", multipliers))
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(drawing.WIDTH if len(shown) > 1 else 4.0, 3.2)
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for ax, (name, records) in zip(axes, shown, strict=True):
            _draw_constraints(ax, steps, records)
            ax.set_title(f"{drawing.shorten(method.label)}: {name}")
            drawing.format_steps_axis(ax, "environment steps")
        axes[0].axhline(0, color=INK, linewidth=0.9)
        handles = [
            Line2D([], [], color=MEMBER_COLOURS[i % len(MEMBER_COLOURS)], label=f"pair {i + 1}")
            for i in range(len(rows[0]["gaps"]["other_teammate"]))
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=6, handlelength=1.4)
    return figure


def _draw_constraints(ax: Axes, steps: np.ndarray, records: Sequence[Content]) -> None:
    """Draw one line per constraint, coloured by the pair that it protects."""
    for kind, line in zip(CONSTRAINTS, ("-", (0, (3, 2))), strict=True):
        values = np.array([record[kind] for record in records], float)
        for i, j in np.ndindex(*values.shape[1:]):
            if i != j:
                colour = MEMBER_COLOURS[i % len(MEMBER_COLOURS)]
                ax.plot(steps, values[:, i, j], color=colour, linestyle=line, linewidth=1)
