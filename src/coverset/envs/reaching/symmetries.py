"""The symmetries of the square that leave the payoffs of its corners as they are."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from coverset.envs.reaching.dynamics import MOVES
from coverset.types import Symmetry

if TYPE_CHECKING:
    from coverset.envs.reaching.dynamics import Reaching


def list_symmetries(game: "Reaching") -> tuple[Symmetry, ...]:
    """Reflections of rows and of columns and the exchange of both, all eight combinations, as far as they apply.

    One that moves corners must keep every payoff. Coordinates can only be exchanged: a reflection changes their sign,
    which permutes nothing.
    """
    last, found = game.size - 1, []
    for swaps, *flips in itertools.product((False, True), repeat=3):
        if game.encoding == "coordinates" and any(flips):
            continue

        def turn(vector, around: int = 0, swaps: bool = swaps, flips: list[bool] = flips) -> tuple[int, int]:
            """Reflect and exchange the two numbers of a cell, around its board, or those of a move."""
            row, column = (around - x if flip else x for x, flip in zip(vector, flips, strict=True))
            return (column, row) if swaps else (row, column)

        corners = [(0, 0), (0, last), (last, last), (last, 0)]
        order = [corners.index(turn(corner, last)) for corner in corners]
        payoffs = np.asarray(game.payoffs)
        if np.array_equal(payoffs[np.ix_(order, order)], payoffs):
            actions = tuple(MOVES.index(turn(move)) for move in MOVES)
            found.append(Symmetry(_relabel_observation(game, turn, swaps), actions))
    return tuple(found)


def _relabel_observation(game: "Reaching", turn, swaps: bool) -> tuple[int, ...]:
    """Every player's cell is relabelled in the same way."""
    size = game.size
    if game.encoding == "coordinates":
        cell = [1, 0] if swaps else [0, 1]
    else:
        turned = [turn((row, column), size - 1) for row, column in itertools.product(range(size), repeat=2)]
        cell = [row * size + column for row, column in turned]
    blocks = game.observation_size // len(cell)
    return tuple(block * len(cell) + entry for block in range(blocks) for entry in cell)
