"""The benchmark figure: throughput, share of peak, scaling with K and with environments, breakdown of an update."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coverset.bench.parts import PARTS
from coverset.reports.figures import MEMBER_COLOURS, STYLE

OURS, BASELINE, GUIDE = MEMBER_COLOURS[0], MEMBER_COLOURS[4], "#333333"


def bench_figure(record: dict[str, Any]) -> Figure:
    """Draw the five panels from the content of `bench.json`."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 10), layout="constrained")
        panels = figure.subplot_mosaic([["speed", "share"], ["populations", "environments"], ["parts", "parts"]])
        _draw_bars(panels["speed"], record["throughput"], "steps_per_second", "environment steps per second")
        panels["speed"].set_xscale("log")
        _draw_bars(panels["share"], record["throughput"], "share_of_peak", "share of the matrix-product peak")
        panels["share"].set_xlim(0, 1)
        _draw_populations(panels["populations"], record["populations"])
        _draw_environments(panels["environments"], record["environments"])
        _draw_parts(panels["parts"], record["parts"])
    return figure


def _draw_bars(ax: Axes, rows: list[dict[str, Any]], field: str, label: str) -> None:
    names = [f"{row['env']} {row['preset']}, {row['stage']}" for row in rows]
    colours = [OURS if row["stage"] == "generate" else MEMBER_COLOURS[2] for row in rows]
    ax.barh(range(len(rows)), [row[field] for row in rows], color=colours)
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.set(xlabel=label)


def _draw_populations(ax: Axes, rows: list[dict[str, Any]]) -> None:
    sizes = [row["population_size"] for row in rows]
    compared = [row for row in rows if "grid_speedup" in row]
    cost = [row["cost_relative_to_smallest"] for row in rows]
    gathered = [row["cost_relative_to_smallest"] * row["grid_speedup"] for row in compared]
    ax.plot(sizes, cost, "o-", color=OURS, label="pair grid")
    ax.plot([row["population_size"] for row in compared], gathered, "s--", color=BASELINE, label="gathered and masked")
    ax.plot(sizes, [row["linear_growth_would_be"] for row in rows], ":", color=GUIDE, label="linear in K")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.set(xlabel="population size K", ylabel=f"relative cost per step, {rows[0]['env']}")
    ax.legend(frameon=False)


def _draw_environments(ax: Axes, rows: list[dict[str, Any]]) -> None:
    ax.plot([row["num_envs"] for row in rows], [row["steps_per_second"] for row in rows], "o-", color=OURS)
    ax.set_xscale("log", base=2)
    ax.set_ylim(0)
    ax.set(xlabel="environments of the pair grid", ylabel=f"environment steps per second, {rows[0]['env']}")


def _draw_parts(ax: Axes, rows: list[dict[str, Any]]) -> None:
    """Stacked bars; parts that are negative because of noise are left out."""
    ends = [0.0] * len(rows)
    for part, colour in zip(PARTS, (*MEMBER_COLOURS, GUIDE), strict=True):
        widths = [max(row[part], 0.0) for row in rows]
        ax.barh(range(len(rows)), widths, left=ends, color=colour, label=part.replace("_", " "), edgecolor="white")
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    ax.set_yticks(range(len(rows)), [f"{row['env']} {row['preset']}" for row in rows])
    ax.invert_yaxis()
    ax.set(xlabel="share of an update's time")
    ax.legend(frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.15))
