"""Pictures of one generation run, drawn from its files: the cross-play matrix, and training over time."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from coverset.reports.records import check_run_row
from coverset.runs.storage import DamagedFile, read_rows, write_bytes

STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "coverset"}
MEMBER_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#999999")


def draw_run(directory: Path, summary: dict[str, Any]) -> None:
    """Write `figures/cross-play.png` and `figures/training.png` of a run."""
    rows = read_rows(directory / "metrics.jsonl")
    for number, row in enumerate(rows, start=1):
        try:
            check_run_row(row, size=summary["population_size"])
        except ValueError as error:
            raise DamagedFile(f"{directory / 'metrics.jsonl'}, line {number}, is damaged: {error}") from error
    save_figure(directory / "figures" / "cross-play.png", cross_play_figure([summary]))
    save_figure(directory / "figures" / "training.png", training_figure(summary, rows))


def save_figure(path: Path, figure: Figure) -> None:
    """Write a figure as PNG or SVG, by the ending of `path`."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=path.suffix[1:], dpi=150, metadata=metadata)
    write_bytes(path, buffer.getvalue())


def cross_play_figure(summaries: list[dict[str, Any]]) -> Figure:
    """Heat maps of cross-play returns side by side, one per summary, on one colour scale."""
    size = summaries[0]["population_size"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(4.2, 1.5 + 0.62 * size) * len(summaries), 2.4 + 0.55 * size), layout="constrained")
        axes = figure.subplots(1, len(summaries), squeeze=False)[0]
        top = float(max(np.max(summary["cross_play"]) for summary in summaries))
        for ax, summary in zip(axes, summaries, strict=True):
            _heat_map(ax, summary, top)
    return figure


def _heat_map(ax: Axes, summary: dict[str, Any], top: float) -> None:
    matrix = np.array(summary["cross_play"])
    draw_matrix(ax, matrix, top, bold_diagonal=True)
    names = [covered or "none" for covered in summary["covers"]]
    ax.set_xticks(range(len(matrix)), [f"{n + 1}" for n in range(len(matrix))])
    ax.set_yticks(range(len(matrix)), [f"{n + 1}: {name}" for n, name in enumerate(names)])
    ax.set(xlabel="teammate", ylabel="best response: what it covers")
    ax.set_title(f"{summary['env']}, {summary['method']}, seed {summary['seed']}{_found(summary)}")


def draw_matrix(ax: Axes, matrix: np.ndarray, top: float, *, bold_diagonal: bool = False) -> None:
    """Coloured cells with their numbers in them, from 0 or the lowest number to `top`."""
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
    """A heat map of the mean returns of any two groups of policies; `labels` name the groups of rows and columns."""
    height, width = matrix.shape
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2 + 0.62 * width, 2.4 + 0.45 * height), layout="constrained")
        ax = figure.subplots()
        draw_matrix(ax, matrix, float(matrix.max()))
        ax.set_xticks(range(width), columns, rotation=45 if width > 1 else 0, ha="right" if width > 1 else "center")
        ax.set_yticks(range(height), rows)
        ax.set(ylabel=labels[0], xlabel=labels[1], title=title)
    return figure


def _found(summary: dict[str, Any]) -> str:
    """A line on what was found: members of the known coverage set, or kinds of teammates; nothing if not known."""
    found, size = summary["coverage_found"], summary["coverage_size"]
    if found is None:
        return ""
    return f"\nkinds found: {found}" if size is None else f"\n{found} of {size} found"


def training_figure(summary: dict[str, Any], rows: list[dict[str, Any]]) -> Figure:
    """Returns, coverage, constraint gaps and multipliers of every pair over training."""
    steps = np.array([row["env_steps"] for row in rows])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 6.6), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True)
        _draw_returns(panels[0, 0], steps, rows)
        _draw_coverage(panels[0, 1], steps, rows, summary)
        _draw_per_pair(panels[1, 0], steps, [row["gaps"] for row in rows], "constraint gap (critic)")
        panels[1, 0].axhline(0, color="black", linewidth=0.8)
        if rows and rows[0]["multipliers"] is not None:
            _draw_per_pair(panels[1, 1], steps, [row["multipliers"] for row in rows], "Lagrange multiplier")
        else:
            panels[1, 1].set_axis_off()
            middle = {"x": 0.5, "y": 0.5, "ha": "center", "transform": panels[1, 1].transAxes}
            panels[1, 1].text(**middle, s=f"{summary['method']} has no multipliers")
            panels[0, 1].tick_params(labelbottom=True)
        for ax in panels[1]:
            ax.set_xlabel("environment steps")
        figure.legend(handles=_pair_keys(summary), loc="outside lower center", ncols=4, frameon=False)
        figure.suptitle(f"{summary['env']}, {summary['method']}, seed {summary['seed']}")
    return figure


def _pair_keys(summary: dict[str, Any]) -> list[Line2D]:
    """What the lines of `_draw_per_pair` mean."""
    names = [f"pair {n + 1}: {covered or 'none'}" for n, covered in enumerate(summary["covers"])]
    pairs = [Line2D([], [], color=_colour(n), label=name) for n, name in enumerate(names)]
    kinds = [
        Line2D([], [], color="black", linewidth=0.9, linestyle="-", label="against other best responses"),
        Line2D([], [], color="black", linewidth=0.9, linestyle="--", label="against other teammates"),
    ]
    return pairs + kinds


def _colour(member: int) -> str:
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
    ax.step(steps, [row["coverage_found"] for row in rows], where="post", color=MEMBER_COLOURS[2])
    if summary["coverage_size"]:
        ax.axhline(summary["coverage_size"], color="black", linewidth=0.8, linestyle="--")
        ax.set_ylim(0, summary["coverage_size"] + 0.5)
    ax.set(ylabel="members of the coverage set found")


def _draw_per_pair(ax: Axes, steps: np.ndarray, records: list[dict[str, list]], label: str) -> None:
    """A line per constraint: colour is the pair it protects, solid for other best responses, dashed for teammates."""
    for name, style in (("other_best_response", "-"), ("other_teammate", "--")):
        values = np.array([record[name] for record in records], float)
        size = values.shape[1]
        for i in range(size):
            others = [j for j in range(size) if j != i]
            ax.plot(steps, values[:, i, others], style, color=_colour(i), linewidth=0.9, alpha=0.8)
    ax.set(ylabel=label)
