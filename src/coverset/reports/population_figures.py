"""Figures of generated teammates: coverage, cross-play, and constraints over training."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from coverset.reports import drawing, tables
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.drawing import INK, METHOD_COLOURS, MUTED, STYLE
from coverset.reports.records import CONSTRAINTS, Content, read_multipliers
from coverset.reports.wording import MINUS, TIMES

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
    longest = max(len(text) for row in format_cells(matrix) for text in row)
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(1.75 + max(0.44, 0.085 * longest + 0.08) * columns, 1.15 + 0.4 * rows)
        ax = figure.subplots()
        draw_numbered_map(ax, summary, limits, size=9)
        covers = [*summary["covers"], *[None] * rows][:rows]
        ax.set_yticks(range(rows), [f"{n + 1}: {drawing.shorten(name or 'none', 22)}" for n, name in enumerate(covers)])
        ax.set_aspect("auto")
        ax.set(xlabel="teammate", ylabel="best response")
        ax.set_title(f"{drawing.shorten(label)}, seed {summary['seed']}")
    return figure


def draw_numbered_map(ax: Axes, summary: Content, limits: tuple[float, float], *, size: float) -> None:
    """Draw a heat map with a number in every cell, in letters of at most `size` points."""
    matrix = np.array(summary["cross_play"])
    texts = format_cells(matrix)
    _draw_map(ax, matrix, limits)
    for (i, j), value in np.ndenumerate(matrix):
        bright = (value - limits[0]) / (limits[1] - limits[0]) > 0.55
        weight = "bold" if i == j else "normal"
        ax.text(j, i, texts[i][j], ha="center", va="center_baseline", size=min(size, 24 / len(matrix)), weight=weight,
                color="#000001" if bright else "#ffffff")  # fmt: skip
    ax.set_xticks(range(matrix.shape[1]), [str(n + 1) for n in range(matrix.shape[1])])
    ax.set_yticks(range(len(matrix)), [str(n + 1) for n in range(len(matrix))])


def format_cells(matrix: np.ndarray) -> list[list[str]]:
    """Numbers for the cells of a map, all with the decimals that the largest needs for three digits."""
    largest = float(np.abs(matrix).max())
    if largest >= 10_000:
        return [[f"{value / 1000:.0f}k".replace("-", MINUS) for value in row] for row in matrix]
    decimals = int(np.clip(2 - np.floor(np.log10(largest)), 0, 2)) if largest > 0 else 0
    small = 0 < largest < 0.05  # two decimals would show zeros
    return [
        [(f"{value:.0e}" if small else f"{value:.{decimals}f}").replace("-", MINUS) for value in row] for row in matrix
    ]


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
                draw_mean(ax, curves_of(method, choose), drawing.shorten(method.label), colour, number)
        for ax, (label, _) in zip(axes, TRAINING_PANELS, strict=True):
            ax.set_title(label)
            drawing.format_steps_axis(ax, "environment steps")
            ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.6)
            drawing.widen_flat_axis(ax)
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


def curves_of(method: MethodRuns, choose: Callable[[Content], float | None]) -> dict[int, dict[int, float]]:
    """For each finished seed, a value of every metrics row by environment steps; unknown values are left out."""
    return {
        seed: {row["env_steps"]: value for row in run.rows if (value := choose(row)) is not None}
        for seed, run in method.finished.items()
    }


def draw_mean(
    ax: Axes,
    curves: dict[int, dict[int, float]],
    label: str | None,
    colour: str,
    number: int,
    *,
    linewidth: float = 1.5,
) -> None:
    """Draw the mean over seeds as a line and the range of seeds as a band."""
    curves = {seed: curve for seed, curve in curves.items() if curve}
    if not curves:
        return
    steps = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    values = np.array([[curve[step] for step in steps] for curve in curves.values()])
    means = values.mean(axis=0)
    marker = "o" if len(steps) == 1 else None
    style = {"color": colour, "linestyle": drawing.line_style(number), "linewidth": linewidth, "marker": marker}
    ax.plot(steps, means, label=label, **style)
    if len(curves) > 1:
        ax.fill_between(steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.14, linewidth=0)


def constraint_figure(method: MethodRuns, seed: int) -> Figure:
    """Plot one column of panels for each pair: the gaps of its constraints over training, and its multipliers.

    A pair has K - 1 constraints of each kind. The line is the one that binds most, that is the smallest gap or the
    largest multiplier; the band spans all of them.
    """
    rows = method.finished[seed].rows
    steps = np.array([row["env_steps"] for row in rows])
    shown = [("gap", [row["gaps"] for row in rows], np.nanmin)]
    multipliers = [read_multipliers(row) for row in rows]
    if None not in multipliers:
        shown.append(("multiplier", multipliers, np.nanmax))
    size = len(rows[0]["gaps"]["other_teammate"])
    across = min(size, PAIRS_ACROSS)
    blocks = -(-size // across)
    down = blocks * len(shown)
    with mpl.rc_context(STYLE):
        figure = drawing.new_figure(max(5.6, 1.3 * across + 0.5), 0.7 + 1.2 * down)
        axes = figure.subplots(down, across, squeeze=False, sharex=True)
        for ax in axes.ravel():
            ax.set_visible(False)
        for place, (name, records, choose) in enumerate(shown):
            row_axes = [axes[(i // across) * len(shown) + place][i % across] for i in range(size)]
            _draw_constraints(row_axes, steps, records, choose)
            for i, ax in enumerate(row_axes):
                ax.set_title(f"pair {i + 1}" if place == 0 else "")
                ax.set_ylabel(name if i % across == 0 else "")
        for ax in axes[-1]:
            ax.xaxis.set_major_locator(MaxNLocator(2))
            ax.xaxis.set_major_formatter(lambda value, _: drawing.format_steps(value))
        figure.supxlabel("environment steps", size=10)
        drawing.add_legend_above(figure, axes[0][0])
    return figure


PAIRS_ACROSS = 6
KIND_STYLES = (
    ("against other best responses", METHOD_COLOURS["lbrdiv"], "-"),
    ("against other teammates", METHOD_COLOURS["brdiv"], (0, (4, 2))),
)


def _draw_constraints(axes: Sequence[Axes], steps: np.ndarray, records: Sequence[Content], choose: Any) -> None:
    """Draw the constraints of one pair in each of the axes, which share their vertical scale."""
    found = [np.array([record[kind] for record in records], float) for kind in CONSTRAINTS]
    for values in found:
        values[:, range(values.shape[1]), range(values.shape[1])] = np.nan
    known = np.concatenate([values[np.isfinite(values)] for values in found])
    low, high = (min(known.min(), 0.0), max(known.max(), 0.0)) if known.size else (0.0, 1.0)
    edge = 0.06 * (high - low) or 0.06
    for i, ax in enumerate(axes):
        ax.set_visible(True)
        for values, (label, colour, line) in zip(found, KIND_STYLES, strict=True):
            mine = values[:, i]
            measured = np.isfinite(mine).any(axis=1)
            if measured.any():
                x, mine = steps[measured], mine[measured]
                marker = "o" if len(x) == 1 else None
                ax.plot(
                    x, choose(mine, axis=1), color=colour, linestyle=line, linewidth=1.3, label=label, marker=marker
                )
                ax.fill_between(
                    x, np.nanmin(mine, axis=1), np.nanmax(mine, axis=1), color=colour, alpha=0.14, linewidth=0
                )
        ax.axhline(0, color=INK, linewidth=0.7)
        ax.set_ylim(low - edge, (high if high > low else 1.0) + edge)
        ax.yaxis.set_major_locator(MaxNLocator(3))
        ax.tick_params(labelleft=i % PAIRS_ACROSS == 0)
