"""The repeated matrix game in the studio: the payoff table with the last joint action marked.

Only a table of two players with one number per entry can be drawn; other games are shown as text.
"""

import numpy as np

from coverset.envs.drawing import Board, Scene, Table, number_actions
from coverset.envs.matrix.dynamics import MatrixGame, MatrixState


def draw_board(environment: MatrixGame) -> Board:
    """Draw the payoff table, with actions on the number keys."""
    actions = tuple(number_actions(count) for count in environment.num_actions)
    return Board(rules=_describe_rules(environment), actions=actions, table=_draw_table(environment))


def _draw_table(environment: MatrixGame) -> Table | None:
    """The table of a common payoff, or of what seat 0 wins from seat 1."""
    if environment.num_seats > 2 or (environment.by_player and not _is_zero_sum(environment)):
        return None
    rows, columns = ([action.name for action in number_actions(count)] for count in environment.num_actions)
    caption = {"caption": "What seat 0 earns and seat 1 loses"} if environment.by_player else {}
    return Table(environment.tables[0], rows, columns, **caption)


def _is_zero_sum(environment: MatrixGame) -> bool:
    return not np.sum(environment.tables, axis=0).any()


def _describe_rules(environment: MatrixGame) -> str:
    everybody = "Both" if environment.num_seats == 2 else f"All {environment.num_seats} players"
    if not environment.by_player:
        team = "pair" if environment.num_seats == 2 else "team"
        paid = f"the table says what the {team} earns for it"
    elif _draw_table(environment):
        paid = "the table says what seat 0 earns for it and seat 1 loses"
    else:
        paid = "each has a table of its own that says what it earns for it"
    return f"{everybody} choose an action at the same time; {paid}."


def draw_scene(environment: MatrixGame, state: MatrixState) -> Scene | None:
    """Mark the joint action of the last round, if one was played; None where there is no table to mark it in."""
    if _draw_table(environment) is None:
        return None
    row, column = np.asarray(state.actions).tolist()
    return Scene(played=(row, column) if int(state.time) else None)
