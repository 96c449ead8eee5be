"""What all figures of a report share: sizes, colours that the page can exchange for the dark, lines with bands."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coverset.evaluation.statistics import Interval

INK = "#1f2429"
MUTED = "#68717a"
METHOD_COLOURS = {"lbrdiv": "#0067a8", "brdiv": "#c25a00", "lipo": "#00795a", "independent": "#9a4f86"}
OTHER_COLOURS = ("#7a6a00", "#5a56b8", "#a8324a", "#3d7a8a")
LINES = ("-", (0, (5, 2)), (0, (5, 2, 1, 2)), (0, (1.5, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
"""Methods differ in their lines too, for eyes and printers that do not tell their colours apart."""
WIDTH = 6.6
"""Inches, of figures with several panels."""
NARROW = 5.0
"""Inches, of figures with one panel: small enough to be seen whole on a phone."""
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
    "text.parse_math": False,  # labels may hold any text
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "coverset",
}


def colours(methods: Sequence[str]) -> list[str]:
    """A colour for each method of a chapter; known methods keep theirs wherever nobody else has it yet."""
    chosen: list[str] = []
    spare = [*OTHER_COLOURS, *METHOD_COLOURS.values()]
    for method in methods:
        colour = METHOD_COLOURS.get(method)
        if colour is None or colour in chosen:
            colour = next((other for other in spare if other not in chosen), MUTED)
        chosen.append(colour)
    return chosen


def line_style(number: int) -> Any:
    """The line of a chapter's method by its number."""
    return LINES[number % len(LINES)]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; call it and all drawing within `mpl.rc_context(STYLE)`."""
    return Figure(figsize=(width, height), layout="constrained")


def shorten(text: str, length: int = 28) -> str:
    """A label that leaves room for the figure."""
    return text if len(text) <= length else text[: length - 1] + "…"


def draw_band(ax: Axes, band: Mapping[Any, Interval], label: str, colour: str, line: Any) -> None:
    """A mean over seeds as a line, and its interval as a band where there is one."""
    places = list(band)
    marker = "o" if len(places) <= 25 else None
    means = [interval.mean for interval in band.values()]
    ax.plot(places, means, color=colour, linestyle=line, marker=marker, markersize=3, linewidth=1.8, label=label)
    low, high = ([getattr(interval, end) for interval in band.values()] for end in ("low", "high"))
    if np.isfinite(low).all() and np.isfinite(high).all():
        ax.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0)


def panels(count: int, *, height: float, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels side by side, in rows of at most `columns`; panels share the vertical axis."""
    across = min(count, columns)
    down = -(-count // across)
    figure = new_figure(WIDTH if across > 1 else NARROW, height * down)
    axes = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for ax in axes[count:]:
        ax.remove()
    return figure, list(axes[:count])


def legend_above(figure: Figure, ax: Axes) -> None:
    """One legend for all panels, above them, where it covers nothing."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=len(handles) if len(handles) <= 4 else 3,
            handlelength=2.6,
        )


def steps_axis(ax: Axes, label: str) -> None:
    """A horizontal axis of environment steps, in thousands or millions."""
    ax.set_xlabel(label)
    ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(5))  # pyright: ignore[reportAttributeAccessIssue]
    ax.xaxis.set_major_formatter(lambda value, _: short_steps(value))


def short_steps(steps: float) -> str:
    """For example 250k or 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:.3g}{name}"
    return f"{steps:.3g}"
