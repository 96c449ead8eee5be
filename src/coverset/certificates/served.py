"""What a set of best responses leaves uncovered in a small finite game, exactly.

Two statements, each made only where it can be: the coverage regret over all teammates, by the normal form; and the
regret with one given teammate, by solving the decision process that it leaves to seat 0.
"""

from typing import NamedTuple

import numpy as np

from coverset.certificates.blind import blind_value
from coverset.certificates.finite import FiniteGame, action_probabilities, build_response, enumerate_game, evaluate_pair
from coverset.certificates.normal_form import make_normal_form
from coverset.envs.base import Environment
from coverset.policies.actor import ActorPolicy


class ExactRegret(NamedTuple):
    """Bounds of two regrets; None for what is not known exactly."""

    over_all: tuple[float, float] | None
    """The coverage regret: the largest over all teammates without memory."""
    with_teammate: tuple[float, float] | None
    """That of a best response with memory over the best member, with the given teammate."""
    because: str | None
    """Why something is not known."""


def certify_regret(environment: Environment, members: ActorPolicy, teammate: ActorPolicy) -> ExactRegret:
    """Compute what is possible.

    Args:
      environment: the game.
      members: best responses of a set, stacked.
      teammate: one, on a leading axis of 1.
    """
    try:
        game = enumerate_game(environment)
        found = _regret_with(game, members, teammate)
    except ValueError as error:
        return ExactRegret(None, None, str(error))
    try:
        regret = make_normal_form(game).coverage_regret(members)
    except ValueError as error:
        return ExactRegret(None, found, str(error))
    return ExactRegret((max(regret.low, 0.0), max(regret.high, 0.0)), found, None)


def _regret_with(game: FiniteGame, members: ActorPolicy, teammate: ActorPolicy) -> tuple[float, float]:
    rows = action_probabilities(members, game, seat=0)
    column = action_probabilities(teammate, game, seat=1)[0]
    served = max(evaluate_pair(game, row, column, discount=1.0).returns for row in rows)
    best = blind_value(build_response(game, column), np.asarray(rows), discount=1.0)
    return max(best.lower - served, 0.0), max(best.upper - served, 0.0)
