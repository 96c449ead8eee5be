"""Both reaching games in the studio: a grid with four corners, and a table of what pairs of corners pay."""

import numpy as np

from coverset.envs.drawing import WALKING, Action, Board, Cell, Grid, Mark, Scene, Table
from coverset.envs.reaching.dynamics import CORNERS, Reaching, ReachingState


def draw_board(environment: Reaching) -> Board:
    """The grid, its corners, and the payoffs of the corners at which an episode can end."""
    ends = "corners at once, the same or not" if environment.ends_apart else "the same corner at once"
    actions = (Action("stay", " "), *WALKING)
    return Board(
        rules=f"Walk to a corner. The episode ends when both stand on {ends}, and pays what the table says.",
        actions=(actions, actions),
        grid=Grid(environment.size, environment.size, [Mark(c, n, f"corner {n}") for c, n in _corners(environment)]),
        table=Table(environment.convention_payoffs, CORNERS, CORNERS, "What the corners pay"),
        hides_partner=not environment.sees_teammate,
    )


def draw_scene(environment: Reaching, state: ReachingState) -> Scene:
    """Where both stand; the corners on which they stand, if these end the episode."""
    first, second = ((row, column) for row, column in np.asarray(state.positions).tolist())
    number = {cell: CORNERS.index(name) for cell, name in _corners(environment)}
    on_corners = first in number and second in number and (environment.ends_apart or first == second)
    return Scene((first, second), played=(number[first], number[second]) if on_corners else None)


def _corners(environment: Reaching) -> list[tuple[Cell, str]]:
    """Cell and letter of each corner."""
    cells = np.asarray(environment.corners()).tolist()
    return [((row, column), name) for (row, column), name in zip(cells, CORNERS, strict=True)]
