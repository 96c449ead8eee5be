"""Describe environments to the browser as JSON: a fixed board, and a scene for each state.

A game without its own drawing is shown as the text of its `render`; see `coverset.envs.drawing`.
"""

from dataclasses import asdict
from typing import Any

from coverset.envs.base import Environment
from coverset.envs.drawing import Board, number_actions
from coverset.envs.extensions import draw_board, draw_scene
from coverset.evaluation.conventions import coverage_set
from coverset.types import PyTree

LONGEST_TEXT = 10_000
AS_TEXT = "This environment has no drawing of its own and is shown as text."


def describe_board(environment: Environment) -> dict[str, Any]:
    """Describe what does not depend on the state: rules, actions with their keys, places."""
    drawn = draw_board(environment) or _text_board(environment)
    return {
        **asdict(drawn),
        "kind": "grid" if drawn.grid else "table" if drawn.table else "text",
        "horizon": environment.horizon,
        "conventions": list(environment.conventions),
        "members": [environment.conventions[index] for index in coverage_set(environment)],
        "payoffs": [list(row) for row in environment.convention_payoffs],
        "seats_alike": environment.seats_alike,
    }


def describe_scene(environment: Environment, state: PyTree) -> dict[str, Any]:
    """Describe one state, whose arrays are on the host."""
    drawn = draw_scene(environment, state)
    if drawn is None:
        return {"text": str(environment.render(state))[:LONGEST_TEXT]}
    return asdict(drawn)


def _text_board(environment: Environment) -> Board:
    seat_0, seat_1 = environment.num_actions
    return Board(AS_TEXT, (number_actions(seat_0), number_actions(seat_1)))
