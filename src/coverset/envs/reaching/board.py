"""Both reaching games in the studio: a grid with four corners, and the payoffs of pairs of corners."""

import numpy as np

from coverset.envs.drawing import MOVE_ACTIONS, Action, Board, Cell, Grid, Mark, Scene, Table
from coverset.envs.reaching.dynamics import CORNERS, Reaching, ReachingState


def draw_board(environment: Reaching) -> Board:
    """Draw the grid, its corners, and the payoffs of the corners at which an episode can end."""
    ends = "corners at once, the same or not" if environment.ends_apart else "the same corner at once"
    actions = (Action("stay", " "), *MOVE_ACTIONS)
    return Board(
        rules=f"Walk to a corner. The episode ends when both stand on {ends}, and pays what the table says.",
        actions=(actions, actions),
        grid=Grid(
            environment.size, environment.size, [Mark(c, n, f"corner {n}") for c, n in _list_corners(environment)]
        ),
        table=Table(environment.convention_payoffs, CORNERS, CORNERS, "What the corners pay"),
        hides_partner=not environment.sees_teammate,
    )


def draw_scene(environment: Reaching, state: ReachingState) -> Scene:
    """Draw both players, and mark their corners if these end the episode."""
    first, second = ((row, column) for row, column in np.asarray(state.positions).tolist())
    number = {cell: CORNERS.index(name) for cell, name in _list_corners(environment)}
    on_corners = first in number and second in number and (environment.ends_apart or first == second)
    return Scene((first, second), played=(number[first], number[second]) if on_corners else None)


def _list_corners(environment: Reaching) -> list[tuple[Cell, str]]:
    """Return the cell and letter of each corner."""
    cells = np.asarray(environment.corners()).tolist()
    return [((row, column), name) for (row, column), name in zip(cells, CORNERS, strict=True)]
