"""Level-based Foraging in the studio: a grid with objects that both players must load together."""

import numpy as np

from coverset.envs.drawing import MOVE_ACTIONS, Action, Board, Grid, Mark, Scene
from coverset.envs.foraging.dynamics import Foraging, ForagingState


def draw_board(environment: Foraging) -> Board:
    """Draw the empty grid; objects belong to the scene, because their cells may change between episodes."""
    actions = (Action("wait", "."), *MOVE_ACTIONS, Action("load", " ", highlighted=True))
    return Board(
        rules="An object is collected when both stand beside it and load in the same step. Collect them all.",
        actions=(actions, actions),
        grid=Grid(environment.size, environment.size),
        hides_partner=not environment.sees_teammate,
    )


def draw_scene(environment: Foraging, state: ForagingState) -> Scene:
    """Draw both players and the remaining objects."""
    del environment
    first, second = ((row, column) for row, column in np.asarray(state.positions).tolist())
    cells, present = np.asarray(state.cells).tolist(), np.asarray(state.present)
    objects = [
        Mark((row, column), str(number + 1), f"object {number + 1}")
        for number, (row, column) in enumerate(cells)
        if present[number]
    ]
    left = "; ".join(f"{o.name} at row {o.cell[0] + 1}, column {o.cell[1] + 1}" for o in objects)
    return Scene((first, second), objects, words=f"Left: {left}." if objects else "Everything is collected.")
