"""Describe environments to the browser as JSON: a fixed board, and a scene for each state.

A game without its own drawing is shown as the text of its `render`; see `coverset.envs.drawing`.
"""

from dataclasses import asdict, replace
from typing import Any

from coverset.envs.base import Environment, render_for
from coverset.envs.drawing import Board, Scene, number_actions
from coverset.envs.extensions import draw_board, draw_scene, draws_by_seat, is_shown_by_seat
from coverset.envs.seats import has_common_reward
from coverset.evaluation.conventions import coverage_set
from coverset.types import PyTree

LONGEST_TEXT = 10_000
AS_TEXT = "This environment has no drawing of its own and is shown as text."


def describe_board(environment: Environment) -> dict[str, Any]:
    """Describe what does not depend on the state: rules, actions with their keys, places."""
    drawn = draw_board(environment) or _text_board(environment)
    return {
        **asdict(drawn),
        "kind": _find_kind(drawn),
        "horizon": environment.horizon,
        "conventions": list(environment.conventions),
        "members": [environment.conventions[index] for index in coverage_set(environment)],
        "payoffs": [list(row) for row in environment.convention_payoffs],
        "num_seats": environment.num_seats,
        "seats_alike": environment.seats_alike,
        "common_reward": has_common_reward(environment),
        "shown_by_seat": is_shown_by_seat(environment),
    }


def describe_scene(environment: Environment, state: PyTree, seat: int | None = None) -> dict[str, Any]:
    """Describe one state, whose arrays are on the host: all of it, or what the player in `seat` may know."""
    by_seat = draws_by_seat(environment)
    drawn = draw_scene(environment, state, *((seat,) if by_seat else ()))
    if drawn is None:
        return {"text": str(render_for(environment, state, seat))[:LONGEST_TEXT]}
    if seat is not None and not by_seat and is_shown_by_seat(environment):
        drawn = _hide_others(drawn, seat)
    return asdict(drawn)


def _hide_others(scene: Scene, seat: int) -> Scene:
    """The part of a drawing for everybody that one player may know, if players do not observe each other."""
    own = tuple(cell if number == seat else None for number, cell in enumerate(scene.positions))
    return replace(scene, positions=own, played=None, words="")


def _find_kind(board: Board) -> str:
    return "grid" if board.grid else "table" if board.table else "text"


def _text_board(environment: Environment) -> Board:
    return Board(AS_TEXT, tuple(number_actions(count) for count in environment.num_actions))
