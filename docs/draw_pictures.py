"""Draw the pictures of docs/method.md from a short real run of L-BRDiv: `python docs/draw_pictures.py [RUN]`.

RUN is the directory of one seed; without it, seed 0 of the matrix game is trained for it. The pictures are part of the
repository, because the page is also read where nothing is built.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import coverset
from coverset.presets import resolve_generation
from coverset.reports.drawing import INK, MUTED, STYLE, format_steps_axis
from coverset.teammates.method import World
from coverset.teammates.methods.lbrdiv import Multipliers, lagrangian_pair_weights

IMAGES = Path(__file__).parent / "images"
STEPS = 60_000
"""All that there is to see happens early; the preset trains longer, to make sure."""
TITLES = {"independent": "independent", "lipo": "LIPO, alpha {:g}", "brdiv": "BRDiv, alpha {:g}"}
RIVALS = ("#5a56b8", "#00795a", "#c25a00")
"""Colours of two pairs that may be in each other's way."""
HELD = ("#9ccbe8", "#f3d08a", "#a5dcc6")
"""Colours of the actions that a pair may hold; none is white."""

Row = dict[str, Any]


def train(out: Path, **smaller: Any) -> Path:
    """The run behind the pictures, with a row of metrics for every few updates."""
    settings = {"total_steps": STEPS, "chunk_steps": 600, "parallel_seeds": 1, **smaller}
    coverset.generate("matrix", seeds=[0], out=out, **settings)
    return out / "seed-0"


def constraints(row: Row, field: str) -> np.ndarray:
    """Gaps or multipliers of both sets of constraints, [2, K, K]; the diagonals mean nothing and are 0."""
    found = row["method"][field] if field == "multipliers" else row[field]
    return np.nan_to_num(np.array([found[name] for name in Multipliers._fields], float))


def pair_weights(row: Row) -> dict[str, np.ndarray]:
    """The pair weights of every method under a title: constant ones, and L-BRDiv's in one row of its run."""
    found = {}
    for method, title in TITLES.items():
        settings, own = resolve_generation("matrix", method, "fast")
        world = World(coverset.make("matrix"), settings, len(row["covers"]), len(row["covers"]))
        alpha = getattr(own, "alpha", 0.0)
        found[title.format(alpha)] = np.asarray(own.weights(own.init(jax.random.key(0), world)))
    learned = lagrangian_pair_weights(Multipliers(*jnp.array(constraints(row, "multipliers"))))
    return {**found, f"L-BRDiv, step {row['env_steps']:,}": np.asarray(learned)}


def weights_picture(weights: dict[str, np.ndarray]) -> Figure:
    """The K x K matrices side by side, on one scale of colours around 0."""
    reach = max(np.abs(matrix).max() for matrix in weights.values())
    figure = Figure(figsize=(8.4, 2.75), layout="constrained", facecolor="white")
    for ax, (title, matrix) in zip(figure.subplots(1, len(weights)), weights.items(), strict=True):
        draw_matrix(ax, matrix, reach)
        ax.set(title=title, xlabel="teammate j")
    figure.axes[0].set_ylabel("best response i")
    return figure


def draw_matrix(ax: Axes, matrix: np.ndarray, reach: float) -> None:
    """Cells with their numbers; the diagonal is bold."""
    size = len(matrix)
    edges = np.arange(size + 1) - 0.5
    ax.pcolormesh(edges, edges, matrix, cmap="RdBu", vmin=-1.2 * reach, vmax=1.2 * reach, edgecolors="white")
    for (i, j), value in np.ndenumerate(matrix):
        text = f"{value:.2g}".replace("-", "\N{MINUS SIGN}")
        ink = "white" if abs(value) > 0.7 * reach else INK
        ax.text(j, i, text, ha="center", va="center_baseline", weight="bold" if i == j else "normal", color=ink)
    names = [str(number + 1) for number in range(size)]
    ax.set_xticks(range(size), names)
    ax.set_yticks(range(size), names)
    ax.set(aspect="equal", ylim=(size - 0.5, -0.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def constraints_picture(rows: list[Row]) -> Figure:
    """What every pair holds over one run, and for any two pairs how near their constraints are, and what that costs."""
    figure = Figure(figsize=(8.4, 5.6), layout="constrained", facecolor="white")
    held, slack, push = figure.subplots(3, 1, sharex=True, height_ratios=(3, 4, 4))
    draw_held(held, rows)
    draw_rivals(slack, rows, "gaps", np.min)
    draw_rivals(push, rows, "multipliers", np.sum)
    slack.axhline(0, color=INK, linewidth=0.9)
    slack.set(ylabel="smallest slack")
    push.set(ylabel="sum of multipliers")
    push.legend(loc="upper right", handlelength=1.6)
    format_steps_axis(push, "environment steps")
    return figure


def draw_held(ax: Axes, rows: list[Row]) -> None:
    """A strip for each pair, in the colour of the action that it holds."""
    edges = [0, *(row["env_steps"] for row in rows)]
    for pair in range(len(rows[0]["covers"])):
        chunks = zip([row["covers"][pair] for row in rows], itertools.pairwise(edges), strict=True)
        for action, same in itertools.groupby(chunks, key=lambda chunk: chunk[0]):
            spans = [span for _, span in same]
            start, end = spans[0][0], spans[-1][1]
            if action is not None:
                colour = HELD[int(action.removeprefix("action ")) - 1]
                ax.broken_barh([(start, end - start)], (pair - 0.42, 0.84), color=colour)
            if action is not None and end - start > edges[-1] / 15:
                ax.text((start + end) / 2, pair, action, ha="center", va="center_baseline", size=9)
    size = len(rows[0]["covers"])
    ax.set_yticks(range(size), [f"pair {pair + 1}" for pair in range(size)])
    ax.set_ylim(size - 0.5, -0.5)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def draw_rivals(ax: Axes, rows: list[Row], field: str, summary: Any) -> None:
    """A line for any two pairs i and j: a summary of their four constraints, two of i and two of j."""
    steps = [row["env_steps"] for row in rows]
    values = np.array([constraints(row, field) for row in rows])
    for (i, j), colour in zip(itertools.combinations(range(values.shape[-1]), 2), RIVALS, strict=False):
        four = np.concatenate([values[:, :, i, j], values[:, :, j, i]], axis=1)
        ax.plot(steps, summary(four, axis=1), color=colour, linewidth=1.6, label=f"pairs {i + 1} and {j + 1}")
    ax.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.6)


def draw(run: Path, images: Path = IMAGES) -> None:
    """Write both pictures; weights are those of the moment at which the multipliers are largest together."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    busiest = max(rows, key=lambda row: constraints(row, "multipliers").sum())
    with mpl.rc_context(STYLE):
        pictures = {
            "pair-weights.svg": weights_picture(pair_weights(busiest)),
            "constraints.svg": constraints_picture(rows),
        }
        for name, figure in pictures.items():
            figure.savefig(images / name, metadata={"Date": None})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        draw(Path(sys.argv[1]) if len(sys.argv) > 1 else train(Path(directory)))
