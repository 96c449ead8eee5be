"""Figures of a solved game: the teammates' simplex coloured by best response, or the margins if it has many dimensions.

The colours of Okabe and Ito (2008) are distinguishable with any common colour blindness; regions are also labelled with
their action, so no figure depends on colour alone.
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
from coverset.solver.coverage import Solution, format_share
from coverset.solver.games import Game

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
HATCHES = ("", "//", "..", "xx", "--")
INK, PALE = "#222222", "#BBBBBB"
CORNERS = np.array([(0.0, 0.0), (1.0, 0.0), (0.5, np.sqrt(3.0) / 2.0)])
"""Positions of the pure teammate actions in the plane."""
MAX_BARS, MAX_COLUMNS, MAX_ROWS, MAX_LABELS = 40, 10, 24, 12


def draw(solution: Solution) -> Figure:
    """Draw lines for two teammate actions, a triangle for three, bars for other numbers; two players only."""
    check_drawable(solution.game)
    how = {2: _draw_lines, 3: _draw_triangle}.get(solution.game.shape[1], _draw_margins)
    with rc_context({"text.parse_math": False}):  # an action may be named $x
        return how(solution)


def check_drawable(game: Game) -> None:
    """Raise unless the game has two players: a team of several has no simplex of its own to draw."""
    if game.players > 2:
        raise ValueError(f"There is no drawing of games with more than two players, and this one has {game.players}.")


def check_figure_path(path: Path) -> None:
    """Raise unless the path has a known suffix and an existing directory."""
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(f"figure must end in one of {', '.join('.' + kind for kind in sorted(known))}, got '{path}'.")
    if not path.parent.is_dir():
        raise ValueError(f"figure must lie in an existing directory, got '{path}'.")


def save(figure: Figure, path: Path) -> None:
    """Write the figure atomically, in the format of the path's suffix."""
    check_figure_path(path)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower().lstrip("."), dpi=160, bbox_inches="tight")
    write_bytes(path, drawn.getvalue())


def _draw_lines(solution: Solution) -> Figure:
    """Two teammate actions: the payoff of each ego action over the mixes, thick where it is a best response."""
    game = solution.game
    payoffs = game.floats()
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    share = np.array([0.0, 1.0])
    for item in solution.non_members:
        axes.plot(share, payoffs[item.action], color=PALE, lw=1.2, ls="--", zorder=1)
    for number, member in enumerate(solution.members):
        colour, values = _choose_colour(number), payoffs[member.action]
        axes.plot(share, values, color=colour, lw=1.4, zorder=2)
        low, high = _find_best_range(payoffs, member.action)
        axes.plot([low, high], np.interp([low, high], share, values), color=colour, lw=5, alpha=0.9, zorder=3)
        witness = float(member.witness[1])
        height = float(np.interp(witness, share, values))
        axes.plot(witness, height, marker="*", ms=15, color=colour, mec=INK, zorder=5, clip_on=False)
        label = f"{game.ego_actions[member.action]}  ({_format_margin(solution, number)})"
        axes.plot([], [], color=colour, lw=5, label=label)
    if solution.non_members:
        axes.plot([], [], color=PALE, ls="--", label="not needed")
    axes.plot([], [], marker="*", ms=12, ls="", color="white", mec=INK, label="witness teammate")
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel(f"share of teammate action {game.teammate_actions[1]} (rest: {game.teammate_actions[0]})")
    axes.set_ylabel("ego agent's payoff")
    axes.set_title(_format_title(solution))
    _hide_spines(axes)
    figure.legend(loc="outside right center", frameon=False, title="best response")
    return figure


def _find_best_range(payoffs: np.ndarray, action: int) -> tuple[float, float]:
    """Return the range of shares of the second teammate action for which `action` is a best response."""
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


def _draw_triangle(solution: Solution) -> Figure:
    """Three teammate actions: the triangle of mixes, a polygon per member, a star at each witness."""
    game = solution.game
    payoffs = game.floats()
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    axes = figure.subplots()
    for number, member in enumerate(solution.members):
        corners = region_polygon(payoffs, member.action) @ CORNERS
        name = game.ego_actions[member.action]
        label = f"{name}  ({_format_margin(solution, number)})"
        style = {"facecolor": _choose_colour(number), "hatch": _choose_hatch(number), "edgecolor": "white"}
        axes.add_patch(Polygon(corners, closed=True, lw=1.5, alpha=0.85, label=label, **style))
        x, y = solution.witnesses[number] @ CORNERS
        axes.plot(x, y, marker="*", ms=17, color="white", mec=INK, zorder=5, clip_on=False)
        if len(solution.members) <= MAX_LABELS:
            _draw_label(axes, name, corners.mean(axis=0), np.array([x, y]))
    axes.plot([], [], marker="*", ms=13, ls="", color="white", mec=INK, label="witness teammate")
    axes.add_patch(Polygon(CORNERS, closed=True, fill=False, ec=INK, lw=1.2))
    for corner, name, (dx, dy), side in zip(
        CORNERS, game.teammate_actions, ((-8, -12), (8, -12), (0, 18)), ("right", "left", "center"), strict=True
    ):
        axes.annotate(f"always {name}", corner, (dx, dy), textcoords="offset points", ha=side, va="center", color=INK)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.12)
    figure.suptitle(_format_title(solution), fontsize=12)
    figure.legend(loc="outside right center", frameon=False, title="best response")
    return figure


def _draw_label(axes: Axes, name: str, centre: np.ndarray, star: np.ndarray) -> None:
    """Write an action's name in its region, below the star if that is in the centre."""
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
    """Return the corners, as mixes [corners, 3], of the region where `action` is a best response.

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
            break  # too thin to draw in floats; its name and margin are in the legend
        corners = np.array(kept)
    return corners


def _draw_margins(solution: Solution) -> Figure:
    """Any number of teammate actions: a bar per ego action, and a table of the witnesses if it fits."""
    game = solution.game
    entries = [(m.action, m.margin, number) for number, m in enumerate(solution.members)]
    entries += [(item.action, item.margin, None) for item in solution.non_members]
    entries.sort(key=lambda entry: (entry[2] is None, entry[0]))
    shown = entries[:MAX_BARS]
    wide = game.shape[1] <= MAX_COLUMNS and len(solution.members) <= MAX_ROWS
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
    _hide_spines(axes)
    left = len(entries) - len(shown)
    axes.set_title(f"blue: needed, grey: not{f'; {left} more not shown' if left else ''}", fontsize=10)
    if table:
        _draw_witness_table(table[0], solution)
    figure.suptitle(_format_title(solution), fontsize=12)
    return figure


def _draw_witness_table(axes: Axes, solution: Solution) -> None:
    axes.set_axis_off()
    axes.set_title("witness of each member: shares of the teammate actions", fontsize=10)
    cells = [[format_share(share) for share in member.witness] for member in solution.members]
    names = [solution.game.ego_actions[member.action] for member in solution.members]
    table = axes.table(
        cells, rowLabels=names, colLabels=solution.game.teammate_actions, loc="upper center", cellLoc="center"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1.0, 1.35)
    for cell in table.get_celld().values():
        cell.set_edgecolor(PALE)


def _format_title(solution: Solution) -> str:
    names: Sequence[str] = [solution.game.ego_actions[action] for action in solution.coverage_set]
    listed = ", ".join(names) if len(", ".join(names)) <= 40 else f"{len(names)} of {solution.game.shape[0]} actions"
    return f"{solution.game.name}: minimum coverage set {{{listed}}}"


def _format_margin(solution: Solution, number: int) -> str:
    margin = solution.members[number].margin
    return "without rival" if margin is None else f"margin {float(margin):.3g}"


def _choose_colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _choose_hatch(number: int) -> str:
    return HATCHES[number // len(PALETTE) % len(HATCHES)]


def _hide_spines(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
