"""The repeated matrix game in the studio: the payoff table with the last joint action marked."""

import numpy as np

from coverset.envs.drawing import Board, Scene, Table, number_actions
from coverset.envs.matrix.dynamics import MatrixGame, MatrixState


def draw_board(environment: MatrixGame) -> Board:
    """Draw the payoff table, with actions on the number keys."""
    actions = tuple(number_actions(count) for count in environment.num_actions)
    rows, columns = ([action.name for action in seat] for seat in actions)
    return Board(
        rules="Both choose an action at the same time; the table says what the pair earns for it.",
        actions=(actions[0], actions[1]),
        table=Table(environment.payoffs, rows, columns),
    )


def draw_scene(environment: MatrixGame, state: MatrixState) -> Scene:
    """Mark the joint action of the last round, if one was played."""
    del environment
    row, column = np.asarray(state.actions).tolist()
    return Scene(played=(row, column) if int(state.time) else None)
