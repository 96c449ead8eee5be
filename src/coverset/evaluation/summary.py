"""The measurement of a finished population: every pair in both seats, what it does, what it covers."""

from typing import Any

import jax
import numpy as np

from coverset.envs.base import Environment
from coverset.evaluation.conventions import convention_shares, describe
from coverset.evaluation.cross_play import (
    affordable_trials,
    constraint_gaps,
    cross_play,
    member_count,
    named_gaps,
    violated,
)
from coverset.evaluation.kinds import describe_kinds
from coverset.policies.population import Population
from coverset.runs.storage import round_floats
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
    trials = affordable_trials(TRIALS, environment.horizon, pairs=member_count(population.teammates) ** 2)
    played = cross_play(key, environment, *population, trials=trials, discount=discount)
    returns = np.asarray(played.returns)[..., 0]
    pair_returns = np.asarray(played.discounted_returns)[..., 0].mean(axis=-1)
    members = np.arange(len(pair_returns))
    self_play = np.asarray(played.conventions)[members, members, :, 0]
    shares = [convention_shares(self_play[..., seat], len(environment.conventions)) for seat in (0, 1)]
    gaps = constraint_gaps(pair_returns, margin)
    return {
        **(describe(environment, *shares) if environment.conventions else describe_kinds(pair_returns, margin)),
        "episodes_per_pair": trials,
        "cross_play": round_floats(returns.mean(axis=-1)),
        "cross_play_standard_error": round_floats(returns.std(axis=-1, ddof=1) / trials**0.5),
        "cross_play_seats_swapped": _swapped_seats(swapped_key, environment, population, trials),
        "discounted_cross_play": round_floats(pair_returns),
        "margin": margin,
        "gaps": named_gaps(pair_returns, margin),
        "constraints_satisfied": violated(gaps) == 0,
        "constraints_violated": violated(gaps),
    }


def _swapped_seats(key: PRNGKey, environment: Environment, population: Population, trials: int) -> list | None:
    """The same matrix with teammates in seat 0; None where the seats are not alike."""
    if not environment.seats_alike:
        return None
    played = cross_play(key, environment, population.teammates, population.best_responses, trials=trials)
    return round_floats(np.asarray(played.returns)[..., 0].mean(axis=-1).T)
