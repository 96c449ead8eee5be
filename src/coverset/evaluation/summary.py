"""The measurement of a finished population: every pair in both seats, what it does, what it covers."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.evaluation.conventions import convention_shares, describe
from coverset.evaluation.cross_play import (
    affordable_trials,
    constraint_gaps,
    cross_play,
    named_gaps,
    violated,
)
from coverset.evaluation.kinds import describe_kinds
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.runs.storage import rounded
from coverset.types import PRNGKey

TRIALS = 512


def measure_population(
    key: PRNGKey, environment: Environment, population: Population, *, margin: float, discount: float
) -> dict[str, Any]:
    """Play `TRIALS` episodes of every pair, fewer of a long game. `cross_play` is undiscounted; the constraints are the
    paper's, discounted.

    Rows are best responses, columns teammates, in every matrix.
    """
    key, swapped_key = jax.random.split(key)
    pairs = count_members(population.best_responses) * count_members(population.teammates)
    trials = affordable_trials(TRIALS, environment.horizon, pairs=pairs)
    played = cross_play(key, environment, *population, trials=trials, discount=discount)
    returns = np.asarray(played.returns)[..., 0]
    pair_returns = np.asarray(played.discounted_returns)[..., 0].mean(axis=-1)
    members = np.arange(min(pair_returns.shape))
    self_play = np.asarray(played.conventions)[members, members, :, 0]
    shares = [convention_shares(self_play[..., seat], len(environment.conventions)) for seat in (0, 1)]
    return {
        **(describe(environment, *shares) if environment.conventions else describe_kinds(pair_returns, margin)),
        "episodes_per_pair": trials,
        "cross_play": rounded(returns.mean(axis=-1)),
        "cross_play_standard_error": rounded(returns.std(axis=-1, ddof=1) / trials**0.5),
        "cross_play_seats_swapped": _swapped_seats(swapped_key, environment, population, trials),
        "discounted_cross_play": rounded(pair_returns),
        "margin": margin,
        **_constraints(pair_returns, margin),
    }


def _constraints(pair_returns: Float[np.ndarray, "R C"], margin: float) -> dict[str, Any]:
    """How far the paper's constraints hold; null where best responses and teammates differ in number."""
    if pair_returns.shape[0] != pair_returns.shape[1]:
        return dict.fromkeys(("gaps", "constraints_satisfied", "constraints_violated"))
    count = violated(constraint_gaps(pair_returns, margin))
    return {
        "gaps": named_gaps(pair_returns, margin),
        "constraints_satisfied": count == 0,
        "constraints_violated": count,
    }


def _swapped_seats(key: PRNGKey, environment: Environment, population: Population, trials: int) -> list | None:
    """The same matrix with teammates in seat 0; None where the seats are not alike."""
    if not environment.seats_alike:
        return None
    played = cross_play(key, environment, population.teammates, population.best_responses, trials=trials)
    return rounded(np.asarray(played.returns)[..., 0].mean(axis=-1).T)
