"""Both reaching games in the studio: a grid with four corners, and the payoffs of pairs of corners."""

import numpy as np

from coverset.envs.drawing import MOVE_ACTIONS, Action, Board, Cell, Grid, Mark, Scene, Table
from coverset.envs.reaching.dynamics import CORNERS, Reaching, ReachingState


def draw_board(environment: Reaching) -> Board:
    """Draw the grid, its corners, and the payoffs of the corners at which an episode can end."""
    ends = "corners at once, the same or not" if environment.ends_apart else "the same corner at once"
    everybody, pays = "both", "what the table says"
    if environment.players > 2:
        everybody, pays = f"all {environment.players}", "what the table says for the pair of corners that earns least"
    return Board(
        rules=f"Walk to a corner. The episode ends when {everybody} stand on {ends}, and pays {pays}.",
        actions=((Action("stay", " "), *MOVE_ACTIONS),) * environment.players,
        grid=Grid(
            environment.size, environment.size, [Mark(c, n, f"corner {n}") for c, n in _list_corners(environment)]
        ),
        table=Table(environment.convention_payoffs, CORNERS, CORNERS, "What the corners pay"),
        hides_partner=not environment.sees_teammate,
    )


def draw_scene(environment: Reaching, state: ReachingState, seat: int | None = None) -> Scene:
    """Draw the players that `seat` sees, and mark the corners of seat 0 and the team if these end the episode."""
    cells = [(row, column) for row, column in np.asarray(state.positions).tolist()]
    seen = environment.visible_seats(seat)
    shown = tuple(cell if number in seen else None for number, cell in enumerate(cells))
    return Scene(shown, played=_find_played(environment, cells) if len(seen) == len(cells) else None)


def _find_played(environment: Reaching, cells: list[Cell]) -> tuple[int, int] | None:
    """The corners of seat 0 and of all its teammates; None if the episode goes on, or the teammates are apart."""
    number = {cell: CORNERS.index(name) for cell, name in _list_corners(environment)}
    first, second = cells[0], cells[1]
    on_corners = first in number and set(cells[1:]) == {second} and second in number
    if not on_corners or not (environment.ends_apart or first == second):
        return None
    return number[first], number[second]


def _list_corners(environment: Reaching) -> list[tuple[Cell, str]]:
    """Return the cell and letter of each corner."""
    cells = np.asarray(environment.corners()).tolist()
    return [((row, column), name) for (row, column), name in zip(cells, CORNERS, strict=True)]
