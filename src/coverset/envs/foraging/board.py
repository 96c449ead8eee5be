"""Level-based Foraging in the studio: a grid with objects that the players must load together."""

import numpy as np

from coverset.envs.drawing import MOVE_ACTIONS, Action, Board, Grid, Mark, Scene
from coverset.envs.foraging.dynamics import Foraging, ForagingState


def draw_board(environment: Foraging) -> Board:
    """Draw the empty grid; objects belong to the scene, because their cells may change between episodes."""
    return Board(
        rules=f"An object is collected when {_name_loaders(environment)} beside it and load in the same step. "
        "Collect them all.",
        actions=((Action("wait", "."), *MOVE_ACTIONS, Action("load", " ", highlighted=True)),) * environment.players,
        grid=Grid(environment.size, environment.size),
        hides_partner=not environment.sees_teammate,
    )


def _name_loaders(environment: Foraging) -> str:
    if environment.level == 1:
        return "one player stands"
    if environment.level < environment.players:
        return f"{environment.level} of the {environment.players} players stand"
    return "both stand" if environment.players == 2 else f"all {environment.players} players stand"


def draw_scene(environment: Foraging, state: ForagingState, seat: int | None = None) -> Scene:
    """Draw the players that `seat` sees and the remaining objects."""
    everybody = [(row, column) for row, column in np.asarray(state.positions).tolist()]
    seen = environment.visible_seats(seat)
    players = tuple(cell if number in seen else None for number, cell in enumerate(everybody))
    cells, present = np.asarray(state.cells).tolist(), np.asarray(state.present)
    objects = [
        Mark((row, column), str(number + 1), f"object {number + 1}")
        for number, (row, column) in enumerate(cells)
        if present[number]
    ]
    left = "; ".join(f"{o.name} at row {o.cell[0] + 1}, column {o.cell[1] + 1}" for o in objects)
    return Scene(players, objects, words=f"Left: {left}." if objects else "Everything is collected.")
