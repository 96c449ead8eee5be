"""Figures of one generation run, drawn from its files: the cross-play matrix, and training curves."""

import io
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from coverset.reports.drawing import FLAT
from coverset.reports.method_fields import mask_diagonal, stack_method_fields
from coverset.reports.records import CONSTRAINTS, check_numbered_row, check_run_row
from coverset.runs.storage import DamagedFile, read_rows, write_bytes

STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "coverset"}
MEMBER_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#999999")
LINE_STYLES = ("-", "--", ":", "-.")
FIELD_LABELS = {"multipliers": "Lagrange multiplier"}
MOST_METHOD_FIELDS = 9
"""Largest number of method-specific fields to plot."""
PAIRS_ACROSS = 6
"""Panels of small multiples side by side."""


def draw_run(directory: Path, summary: dict[str, Any], *, size: int) -> None:
    """Write `figures/cross-play.png` and `figures/training.png` of a run.

    Args:
      size: number of pairs that were trained; a method may save others.
    """
    rows = _read_log(directory / "metrics.jsonl", size)
    save_figure(directory / "figures" / "cross-play.png", cross_play_figure([summary]))
    save_figure(directory / "figures" / "training.png", training_figure(summary, rows))


def _read_log(path: Path, size: int) -> list[dict[str, Any]]:
    """Read and check a log whose rows were intact while the run trained."""
    try:
        rows = read_rows(path)
        for number, row in enumerate(rows, start=1):
            check_numbered_row(row, path, number, partial(check_run_row, size=size))
    except DamagedFile as error:
        raise DamagedFile(f"{error} Repeat the command with `resume=True` to train again what the log lost.") from error
    return rows


def save_figure(path: Path, figure: Figure) -> None:
    """Write a figure as PNG or SVG, by the suffix of `path`."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=path.suffix[1:], dpi=150, metadata=metadata)
    write_bytes(path, buffer.getvalue())


def cross_play_figure(summaries: list[dict[str, Any]]) -> Figure:
    """Draw heat maps of cross-play returns side by side, one per summary, on one colour scale."""
    rows, columns = np.shape(summaries[0]["cross_play"])
    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(max(4.2, 1.5 + 0.62 * columns) * len(summaries), 2.4 + 0.55 * rows), layout="constrained"
        )
        axes = figure.subplots(1, len(summaries), squeeze=False)[0]
        top = float(max(np.max(summary["cross_play"]) for summary in summaries))
        for ax, summary in zip(axes, summaries, strict=True):
            _draw_heat_map(ax, summary, top)
    return figure


def _draw_heat_map(ax: Axes, summary: dict[str, Any], top: float) -> None:
    matrix = np.array(summary["cross_play"])
    draw_matrix(ax, matrix, top, bold_diagonal=True)
    rows, columns = matrix.shape
    names = [covered or "none" for covered in summary["covers"]][:rows]
    names += ["none"] * (rows - len(names))
    ax.set_xticks(range(columns), [f"{n + 1}" for n in range(columns)])
    ax.set_yticks(range(rows), [f"{n + 1}: {name}" for n, name in enumerate(names)])
    ax.set(xlabel="teammate", ylabel="best response: member it covers")
    game = summary.get("game", summary["env"])
    ax.set_title(f"{game}, {summary['method']}, seed {summary['seed']}{_describe_coverage(summary)}")


def draw_matrix(ax: Axes, matrix: np.ndarray, top: float, *, bold_diagonal: bool = False) -> None:
    """Draw annotated cells, coloured from 0 or the lowest value up to `top`."""
    low = min(0.0, matrix.min())
    ax.imshow(matrix, cmap="viridis", vmin=low, vmax=top)
    for (i, j), value in np.ndenumerate(matrix):
        bright = (value - low) / (top - low + 1e-9) > 0.6
        weight = "bold" if bold_diagonal and i == j else "normal"
        ax.text(j, i, f"{value:.3g}", ha="center", va="center", color="black" if bright else "white", weight=weight)
    ax.spines[:].set_visible(False)


def returns_figure(
    matrix: np.ndarray, *, rows: Sequence[str], columns: Sequence[str], labels: tuple[str, str], title: str
) -> Figure:
    """Draw a heat map of the mean returns of two groups of policies.

    Args:
      matrix: mean returns.
      rows: names of the policies of the rows.
      columns: names of the policies of the columns.
      labels: axis labels of rows and columns.
      title: title of the figure.
    """
    height, width = matrix.shape
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2 + 0.62 * width, 2.4 + 0.45 * height), layout="constrained")
        ax = figure.subplots()
        draw_matrix(ax, matrix, float(matrix.max()))
        ax.set_xticks(range(width), columns, rotation=45 if width > 1 else 0, ha="right" if width > 1 else "center")
        ax.set_yticks(range(height), rows)
        ax.set(ylabel=labels[0], xlabel=labels[1], title=title)
    return figure


def _describe_coverage(summary: dict[str, Any]) -> str:
    """A title line with the members or kinds found; empty if unknown."""
    found, size = summary["coverage_found"], summary["coverage_size"]
    if found is None:
        return ""
    return f"\nkinds found: {found}" if size is None else f"\n{found} of {size} found"


def training_figure(summary: dict[str, Any], rows: list[dict[str, Any]]) -> Figure:
    """Plot returns, coverage, constraint gaps and the method's own fields over training.

    What every pair has for every other, as gaps and multipliers, is drawn in small multiples: one panel for each pair.
    """
    steps = np.array([row["env_steps"] for row in rows])
    fields = dict([*stack_method_fields(rows).items()][:MOST_METHOD_FIELDS])
    by_pair = {"constraint gap (critic)": gaps} if (gaps := _stack_gaps(rows)) else {}
    by_pair |= {_label(name): parts for name, parts in fields.items() if _is_by_pair(parts)}
    others = {_label(name): parts for name, parts in fields.items() if not _is_by_pair(parts)}
    heights = [3.0, *(1.4 * _blocks(parts) + 0.3 for parts in by_pair.values()), *[3.0] * -(-len(others) // 2)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, sum(heights) + 0.6), layout="constrained")
        parts_of_figure = iter(figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
        first = next(parts_of_figure).subplots(1, 2)
        _draw_returns(first[0], steps, rows)
        _draw_coverage(first[1], steps, rows, summary)
        for (label, parts), place in zip(by_pair.items(), parts_of_figure, strict=False):
            _draw_multiples(place, steps, parts, label)
        panels = [ax for place in parts_of_figure for ax in place.subplots(1, 2)]
        for ax, (label, parts) in zip(panels, others.items(), strict=False):
            _draw_per_pair(ax, steps, parts, label)
        for ax in panels[len(others) :]:
            ax.set_axis_off()
        for ax in (*first, *panels):
            ax.set_xlabel("environment steps")
        figure.legend(handles=_legend_handles(summary), loc="outside lower center", ncols=4, frameon=False)
        game = summary.get("game", summary["env"])
        figure.suptitle(f"{game}, {summary['method']}, seed {summary['seed']}")
    return figure


def _label(name: str) -> str:
    return FIELD_LABELS.get(name, name.replace("_", " "))


def _is_by_pair(parts: Mapping[str, np.ndarray]) -> bool:
    """Whether every pair has a value for every other."""
    return any(values.ndim == 3 for values in parts.values())


def _blocks(parts: Mapping[str, np.ndarray]) -> int:
    """Rows of panels, of which `PAIRS_ACROSS` stand side by side."""
    return -(-max(values.shape[1] for values in parts.values() if values.ndim == 3) // PAIRS_ACROSS)


def _draw_multiples(place: SubFigure, steps: np.ndarray, parts: Mapping[str, np.ndarray], label: str) -> None:
    """Draw a panel for each pair: the colour is the other pair, the line style the part. All share their scales."""
    size = max(values.shape[1] for values in parts.values() if values.ndim == 3)
    panels = place.subplots(_blocks(parts), min(size, PAIRS_ACROSS), squeeze=False, sharex=True, sharey=True)
    for i, ax in enumerate(panels.ravel()[:size]):
        mine = {part: values[:, i] for part, values in parts.items() if values.ndim == 3 and i < values.shape[1]}
        _draw_per_pair(ax, steps, mine, "")
        ax.axhline(0, color="black", linewidth=0.6)
        ax.set_title(f"pair {i + 1}", size=9)
        ax.xaxis.set_major_locator(MaxNLocator(2))
    for ax in panels.ravel()[size:]:
        ax.set_axis_off()
    if all(np.nanmax(np.abs(values), initial=0.0) <= FLAT for values in parts.values()):
        panels[0, 0].set_ylim(-0.04, 1.0)  # matplotlib would magnify rounding errors
    place.supylabel(label, size=9)


def _legend_handles(summary: dict[str, Any]) -> list[Line2D]:
    """Legend of `_draw_per_pair` for constraints."""
    names = [f"pair {n + 1}: {covered or 'none'}" for n, covered in enumerate(summary["covers"])]
    pairs = [Line2D([], [], color=_member_colour(n), label=name) for n, name in enumerate(names)]
    kinds = [
        Line2D([], [], color="black", linewidth=0.9, linestyle="-", label="against other best responses"),
        Line2D([], [], color="black", linewidth=0.9, linestyle="--", label="against other teammates"),
    ]
    return pairs + kinds


def _member_colour(member: int) -> str:
    return MEMBER_COLOURS[member % len(MEMBER_COLOURS)]


def _draw_returns(ax: Axes, steps: np.ndarray, rows: list[dict[str, Any]]) -> None:
    for name, label, colour in (
        ("self_play_return", "self-play", MEMBER_COLOURS[0]),
        ("cross_play_return", "cross-play", MEMBER_COLOURS[4]),
    ):
        ax.plot(steps, [np.nan if row[name] is None else row[name] for row in rows], label=label, color=colour)
    ax.set(ylabel="mean return while training")
    ax.legend(frameon=False)


def _draw_coverage(ax: Axes, steps: np.ndarray, rows: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Draw the members found. Where the game names none, kinds are counted once, at the end: there is no curve."""
    if not summary["coverage_size"]:
        found = summary["coverage_found"]
        told = "kinds of teammates are unknown" if found is None else f"kinds of teammates at the end: {found}"
        ax.text(0.5, 0.5, told, ha="center", va="center", transform=ax.transAxes)
        ax.set_axis_off()
        return
    ax.step(steps, [row["coverage_found"] for row in rows], where="post", color=MEMBER_COLOURS[2])
    ax.axhline(summary["coverage_size"], color="black", linewidth=0.8, linestyle="--")
    ax.set_ylim(0, summary["coverage_size"] + 0.5)
    ax.set(ylabel="members of the coverage set found")


def _stack_gaps(rows: list[dict[str, Any]]) -> dict[str, np.ndarray] | None:
    """The gaps of all constraints over rows; None if best responses and teammates differ in number."""
    if any(row["gaps"] is None for row in rows):
        return None
    return {kind: mask_diagonal(np.array([row["gaps"][kind] for row in rows], float)) for kind in CONSTRAINTS}


def _draw_per_pair(ax: Axes, steps: np.ndarray, parts: Mapping[str, np.ndarray], label: str) -> None:
    """Draw one line per entry: the colour is the pair (first axis), the line style the part."""
    for values, style in zip(parts.values(), itertools.cycle(LINE_STYLES), strict=False):
        if values.ndim == 1:
            ax.plot(steps, values, style, color="black", linewidth=0.9)
            continue
        for i in range(values.shape[1]):
            ax.plot(steps, values[:, i], style, color=_member_colour(i), linewidth=0.9, alpha=0.8)
    ax.set(ylabel=label)
