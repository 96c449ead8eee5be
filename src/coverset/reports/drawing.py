"""Shared elements of the report's figures: sizes, colours (replaced by the page in dark mode), lines with bands."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coverset.evaluation.statistics import student_interval

INK = "#1f2429"
MUTED = "#68717a"
METHOD_COLOURS = {"lbrdiv": "#0067a8", "brdiv": "#c25a00", "lipo": "#00795a", "independent": "#9a4f86"}
OTHER_COLOURS = ("#7a6a00", "#5a56b8", "#a8324a", "#3d7a8a")
LINES = ("-", (0, (5, 2)), (0, (5, 2, 1, 2)), (0, (1.5, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
"""Line styles of methods, so that they differ without colour."""
WIDTH = 6.6
"""Width in inches of figures with several panels."""
NARROW = 5.0
"""Width in inches of figures with one panel, which fit on a phone screen."""
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # labels may contain any text
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "coverset",
    "pdf.fonttype": 42,  # publishers refuse bitmap fonts
}


def choose_colours(methods: Sequence[str]) -> list[str]:
    """Choose distinct colours for the methods of a chapter; built-in methods get their fixed colour if it is free."""
    chosen: list[str] = []
    spare = [*OTHER_COLOURS, *METHOD_COLOURS.values()]
    for method in methods:
        colour = METHOD_COLOURS.get(method)
        if colour is None or colour in chosen:
            colour = next((other for other in spare if other not in chosen), MUTED)
        chosen.append(colour)
    return chosen


def line_style(number: int) -> Any:
    """The line style of a chapter's method by its index."""
    return LINES[number % len(LINES)]


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure. Call this and draw within `mpl.rc_context(STYLE)`."""
    return Figure(figsize=(width, height), layout="constrained")


def shorten(text: str, length: int = 28) -> str:
    """Truncate a label to `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def draw_band(ax: Axes, points: Mapping[Any, Sequence[float]], label: str, colour: str, line: Any) -> None:
    """Draw the mean over seeds as a line with a band: Student's 95% interval, or the range of two seeds.

    Args:
      ax: the axes to draw in.
      points: values of all seeds by x.
      label: name in the legend.
      colour: colour of line and band.
      line: matplotlib line style.
    """
    places = list(points)
    found = [student_interval(values) for values in points.values()]
    means = [interval.mean for interval in found]
    marker = "o" if len(places) <= 25 else None
    ax.plot(places, means, color=colour, linestyle=line, marker=marker, markersize=3, linewidth=1.8, label=label)
    if found[0].n > 1:
        ends = [
            (interval.low, interval.high) if interval.n > 2 else (min(values), max(values))
            for interval, values in zip(found, points.values(), strict=True)
        ]
        low, high = zip(*ends, strict=True)
        ax.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0)


FLAT = 1e-9
"""Differences that are rounding errors."""


def widen_flat_axis(ax: Axes) -> None:
    """Show values that never change from zero upwards: around a flat line, matplotlib draws an axis like 0 +- 0.05."""
    drawn = [np.asarray(line.get_ydata(), float) for line in ax.lines]
    values = np.concatenate([values[np.isfinite(values)] for values in drawn]) if drawn else np.zeros(0)
    if values.size and np.ptp(values) <= FLAT:
        value = float(values[0])
        ax.set_ylim(min(0.0, 1.25 * value) - 0.04 * (abs(value) or 1.0), max(1.0 if value == 0 else 0.0, 1.25 * value))


def make_panels(count: int, *, height: float, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """Make a figure of `count` panels in rows of at most `columns`, with a shared vertical axis."""
    across = min(count, columns)
    down = -(-count // across)
    figure = new_figure(WIDTH if across > 1 else NARROW, height * down)
    axes = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for ax in axes[count:]:
        ax.remove()
    return figure, list(axes[:count])


def add_legend_above(figure: Figure, ax: Axes) -> None:
    """Add one legend for all panels above them."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=len(handles) if len(handles) <= 4 else 3,
            handlelength=2.6,
        )


def format_steps_axis(ax: Axes, label: str) -> None:
    """Label a horizontal axis of environment steps in thousands or millions."""
    ax.set_xlabel(label)
    ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(5))  # pyright: ignore[reportAttributeAccessIssue]
    ax.xaxis.set_major_formatter(lambda value, _: format_steps(value))


def format_steps(steps: float) -> str:
    """Format a number of steps, for example 250k or 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:.3g}{name}"
    return f"{steps:.3g}"
