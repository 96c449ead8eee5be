"""Environments as the browser draws them: a board that stays, and a scene for each state.

Each built-in family has a kind of board of its own; any other environment is shown as the text of its `render`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coverset.envs.base import Environment
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import CORNERS, Reaching
from coverset.evaluation.conventions import coverage_set
from coverset.types import PyTree

LONGEST_TEXT = 10_000
WALKING = (("up", "ArrowUp"), ("down", "ArrowDown"), ("left", "ArrowLeft"), ("right", "ArrowRight"))


def board(environment: Environment) -> dict[str, Any]:
    """What stays the same over all states: rules, actions with their keys, places."""
    return {
        **_family(environment),
        "horizon": environment.horizon,
        "conventions": list(environment.conventions),
        "members": [environment.conventions[index] for index in coverage_set(environment)],
        "payoffs": [list(row) for row in environment.convention_payoffs],
        "seats_alike": environment.seats_alike,
    }


def scene(environment: Environment, state: PyTree) -> dict[str, Any]:
    """One state, with its arrays on the host."""
    match environment:
        case MatrixGame():
            return {"played": np.asarray(state.actions).tolist() if int(state.time) else None}
        case Reaching():
            return {"positions": np.asarray(state.positions).tolist()}
        case Foraging():
            objects = zip(np.asarray(state.cells).tolist(), np.asarray(state.present).tolist(), strict=True)
            return {
                "positions": np.asarray(state.positions).tolist(),
                "objects": [cell if there else None for cell, there in objects],
            }
        case _:
            return {"text": str(environment.render(state))[:LONGEST_TEXT]}


def _family(environment: Environment) -> dict[str, Any]:
    match environment:
        case MatrixGame():
            return _matrix(environment)
        case Reaching():
            return _reaching(environment)
        case Foraging():
            return _foraging(environment)
        case _:
            rules = "An environment without a drawing of its own, shown as text."
            return {"kind": "text", "rules": rules, "actions": [_numbered(n) for n in environment.num_actions]}


def _matrix(environment: MatrixGame) -> dict[str, Any]:
    return {
        "kind": "matrix",
        "rules": "Both choose an action at the same time; the table says what the pair earns for it.",
        "table": [list(row) for row in environment.payoffs],
        "actions": [_numbered(n) for n in environment.num_actions],
    }


def _reaching(environment: Reaching) -> dict[str, Any]:
    ends = "corners at once, the same or not" if environment.ends_apart else "the same corner at once"
    return {
        "kind": "reaching",
        "rules": f"Walk to a corner. The episode ends when both stand on {ends}, and pays what the table says.",
        "size": environment.size,
        "corners": dict(zip(CORNERS, environment.corners().tolist(), strict=True)),
        "sees_teammate": environment.sees_teammate,
        "actions": [_actions((("stay", " "), *WALKING))] * 2,
    }


def _foraging(environment: Foraging) -> dict[str, Any]:
    return {
        "kind": "foraging",
        "rules": "An object is collected when both stand beside it and load in the same step. Collect them all.",
        "size": environment.size,
        "sees_teammate": environment.sees_teammate,
        "actions": [_actions((("wait", "."), *WALKING, ("load", " ")))] * 2,
    }


def _numbered(number: int) -> list[dict[str, str]]:
    return _actions([(f"action {n + 1}", str(n + 1) if n < 9 else "") for n in range(number)])


def _actions(named: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """In the order of their numbers."""
    return [{"name": name, "key": key} for name, key in named]
