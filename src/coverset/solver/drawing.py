"""Figures of a solved game: the teammates' simplex coloured by best response, or the margins where it cannot be drawn.

Colours are those of Okabe and Ito (2008), which readers with any common colour blindness can tell apart; regions carry
their action's name as well, so no figure depends on colour alone.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from coverset.runs.storage import write_bytes
from coverset.solver.coverage import Solution, share_text

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
HATCHES = ("", "//", "..", "xx", "--")
INK, PALE = "#222222", "#BBBBBB"
CORNERS = np.array([(0.0, 0.0), (1.0, 0.0), (0.5, np.sqrt(3.0) / 2.0)])
"""Where the pure teammate actions stand in the plane."""
MOST_BARS, MOST_COLUMNS, MOST_ROWS, MOST_LABELS = 40, 10, 24, 12


def draw(solution: Solution) -> Figure:
    """The figure that suits the number of teammate actions: lines for two, a triangle for three, bars for others."""
    how = {2: _lines, 3: _triangle}.get(solution.game.shape[1], _margins)
    with rc_context({"text.parse_math": False}):  # an action may be called $x
        return how(solution)


def check_figure_path(path: Path) -> None:
    """Raise unless a figure can be written there: known suffix, existing directory."""
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(f"figure must end in one of {', '.join('.' + kind for kind in sorted(known))}, got '{path}'.")
    if not path.parent.is_dir():
        raise ValueError(f"figure must lie in an existing directory, got '{path}'.")


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the path's suffix; nothing half-written is ever left under that name."""
    check_figure_path(path)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower().lstrip("."), dpi=160, bbox_inches="tight")
    write_bytes(path, drawn.getvalue())


def _lines(solution: Solution) -> Figure:
    """Two teammate actions: what each ego action earns along the mixes, the envelope, and who owns which stretch."""
    game = solution.game
    payoffs = game.floats()
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    share = np.array([0.0, 1.0])
    for item in solution.non_members:
        axes.plot(share, payoffs[item.action], color=PALE, lw=1.2, ls="--", zorder=1)
    for number, member in enumerate(solution.members):
        colour, values = _colour(number), payoffs[member.action]
        axes.plot(share, values, color=colour, lw=1.4, zorder=2)
        low, high = _best_stretch(payoffs, member.action)
        axes.plot([low, high], np.interp([low, high], share, values), color=colour, lw=5, alpha=0.9, zorder=3)
        witness = float(member.witness[1])
        height = float(np.interp(witness, share, values))
        axes.plot(witness, height, marker="*", ms=15, color=colour, mec=INK, zorder=5, clip_on=False)
        label = f"{game.ego_actions[member.action]}  ({_margin(solution, number)})"
        axes.plot([], [], color=colour, lw=5, label=label)
    if solution.non_members:
        axes.plot([], [], color=PALE, ls="--", label="not needed")
    axes.plot([], [], marker="*", ms=12, ls="", color="white", mec=INK, label="witness teammate")
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel(f"share of teammate action {game.teammate_actions[1]} (rest: {game.teammate_actions[0]})")
    axes.set_ylabel("ego agent's payoff")
    axes.set_title(_title(solution))
    _plain(axes)
    figure.legend(loc="outside right center", frameon=False, title="best response")
    return figure


def _best_stretch(payoffs: np.ndarray, action: int) -> tuple[float, float]:
    """The shares of the second teammate action for which `action` is a best response."""
    low, high = 0.0, 1.0
    for row in payoffs:
        left, right = payoffs[action] - row
        if left != right:
            crossing = left / (left - right)
            if right > left:
                low = max(low, crossing)
            else:
                high = min(high, crossing)
    return low, max(low, high)


def _triangle(solution: Solution) -> Figure:
    """Three teammate actions: the triangle of mixes, a polygon per member, a star at each witness."""
    game = solution.game
    payoffs = game.floats()
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    axes = figure.subplots()
    for number, member in enumerate(solution.members):
        corners = region_polygon(payoffs, member.action) @ CORNERS
        name = game.ego_actions[member.action]
        label = f"{name}  ({_margin(solution, number)})"
        style = {"facecolor": _colour(number), "hatch": _hatch(number), "edgecolor": "white"}
        axes.add_patch(Polygon(corners, closed=True, lw=1.5, alpha=0.85, label=label, **style))
        x, y = solution.witnesses[number] @ CORNERS
        axes.plot(x, y, marker="*", ms=17, color="white", mec=INK, zorder=5, clip_on=False)
        if len(solution.members) <= MOST_LABELS:
            _label(axes, name, corners.mean(axis=0), np.array([x, y]))
    axes.plot([], [], marker="*", ms=13, ls="", color="white", mec=INK, label="witness teammate")
    axes.add_patch(Polygon(CORNERS, closed=True, fill=False, ec=INK, lw=1.2))
    for corner, name, (dx, dy), side in zip(
        CORNERS, game.teammate_actions, ((-8, -12), (8, -12), (0, 18)), ("right", "left", "center"), strict=True
    ):
        axes.annotate(f"always {name}", corner, (dx, dy), textcoords="offset points", ha=side, va="center", color=INK)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.12)
    figure.suptitle(_title(solution), fontsize=12)
    figure.legend(loc="outside right center", frameon=False, title="best response")
    return figure


def _label(axes: Axes, name: str, centre: np.ndarray, star: np.ndarray) -> None:
    """An action's name in its region, beside the star where that stands in the middle."""
    beside = float(np.hypot(*(centre - star))) < 0.05
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.85}
    axes.annotate(
        name,
        (centre[0], centre[1]),
        xytext=(0, -20 if beside else 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=12,
        weight="bold",
        color=INK,
        bbox=box,
        zorder=4,
    )


def region_polygon(payoffs: np.ndarray, action: int) -> np.ndarray:
    """Corners, as mixes [corners, 3], of the teammates to which `action` is a best response.

    The triangle of all mixes, clipped by one half-plane per other row (Sutherland and Hodgman 1974).
    """
    corners = np.eye(3)
    for row in payoffs:
        gains = corners @ (payoffs[action] - row)
        kept = []
        for k in range(len(corners)):
            here, there = gains[k - 1], gains[k]
            if (here < 0.0) != (there < 0.0):
                kept.append(corners[k - 1] + (corners[k] - corners[k - 1]) * here / (here - there))
            if there >= 0.0:
                kept.append(corners[k])
        if len(kept) < 3:
            break  # a sliver that floats cannot draw; its name and margin stand in the legend
        corners = np.array(kept)
    return corners


def _margins(solution: Solution) -> Figure:
    """Any number of teammate actions: a bar per ego action, and beside it the witnesses where they fit in a table."""
    game = solution.game
    entries = [(m.action, m.margin, number) for number, m in enumerate(solution.members)]
    entries += [(item.action, item.margin, None) for item in solution.non_members]
    entries.sort(key=lambda entry: (entry[2] is None, entry[0]))
    shown = entries[:MOST_BARS]
    wide = game.shape[1] <= MOST_COLUMNS and len(solution.members) <= MOST_ROWS
    height = 1.6 + 0.3 * len(shown)
    figure = Figure(figsize=(10.5 if wide else 7.2, max(3.2, height)), layout="constrained")
    axes, *table = figure.subplots(1, 2, width_ratios=(1, 1.25)) if wide else [figure.subplots()]
    values = [0.0 if margin is None else float(margin) for _, margin, _ in shown]
    colours = [PALE if number is None else PALETTE[0] for _, _, number in shown]
    axes.barh(range(len(shown)), values, color=colours)
    axes.axvline(0.0, color=INK, lw=0.8)
    axes.set_yticks(range(len(shown)), [game.ego_actions[action] for action, _, _ in shown])
    axes.invert_yaxis()
    axes.set_xlabel("widest margin over the other actions (payoff)")
    axes.set_ylabel("ego action")
    _plain(axes)
    left = len(entries) - len(shown)
    axes.set_title(f"blue: needed, grey: not{f'; {left} more not shown' if left else ''}", fontsize=10)
    if table:
        _witness_table(table[0], solution)
    figure.suptitle(_title(solution), fontsize=12)
    return figure


def _witness_table(axes: Axes, solution: Solution) -> None:
    axes.set_axis_off()
    axes.set_title("witness of each member: shares of the teammate actions", fontsize=10)
    cells = [[share_text(share) for share in member.witness] for member in solution.members]
    names = [solution.game.ego_actions[member.action] for member in solution.members]
    table = axes.table(
        cells, rowLabels=names, colLabels=solution.game.teammate_actions, loc="upper center", cellLoc="center"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1.0, 1.35)
    for cell in table.get_celld().values():
        cell.set_edgecolor(PALE)


def _title(solution: Solution) -> str:
    names: Sequence[str] = [solution.game.ego_actions[action] for action in solution.coverage_set]
    listed = ", ".join(names) if len(", ".join(names)) <= 40 else f"{len(names)} of {solution.game.shape[0]} actions"
    return f"{solution.game.name}: minimum coverage set {{{listed}}}"


def _margin(solution: Solution, number: int) -> str:
    margin = solution.members[number].margin
    return "without rival" if margin is None else f"margin {float(margin):.3g}"


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _hatch(number: int) -> str:
    return HATCHES[number // len(PALETTE) % len(HATCHES)]


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
