"""Measurement of a trained population: cross-play in both seats, conventions, coverage, constraints."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.evaluation.behaviour import describe_teammates
from coverset.evaluation.conventions import convention_shares, describe_conventions
from coverset.evaluation.cross_play import (
    constraint_gaps,
    count_violations,
    cross_play,
    label_gaps,
    limit_trials,
    mean_seat_returns,
)
from coverset.evaluation.kinds import assign_kinds, describe_kinds, describe_row, join_kind
from coverset.evaluation.mixed_play import measure_mixed_teams
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.runs.storage import round_floats
from coverset.types import PRNGKey

TRIALS = 512
MIXED_STREAM = 7
"""Folded into the key for mixed teams: all other measurements draw the same numbers with and without them."""
BEHAVIOUR_STREAM = 1
"""Folded into the key, so that describing teammates draws what nothing else draws."""


def measure_population(
    key: PRNGKey,
    environment: Environment,
    population: Population,
    *,
    margin: float,
    discount: float,
    mixed_teams: bool = False,
) -> dict[str, Any]:
    """Play `TRIALS` episodes of every pair, fewer in long games, and return the fields of a summary.

    `cross_play` is undiscounted; the constraints use discounted returns, as in the paper. In every matrix, rows are
    best responses and columns teammates. Returns are those of the best response, in seat 0; `seat_returns` has those of
    all seats, where seats have rewards of their own.

    Args:
      key: random key.
      environment: the game.
      population: K best responses and K teammates.
      margin: tau of the constraints.
      discount: gamma of the returns in the constraints.
      mixed_teams: whether to measure mixed teams too, which a game of three or more players has.
    """
    mixed_key = jax.random.fold_in(key, MIXED_STREAM)
    key, swapped_key = jax.random.split(key)
    pairs = count_members(population.best_responses) * count_members(population.teammates)
    trials = limit_trials(TRIALS, environment.horizon, pairs=pairs)
    played = cross_play(key, environment, *population, trials=trials, discount=discount)
    returns = np.asarray(played.returns)[..., 0]
    pair_returns = np.asarray(played.discounted_returns)[..., 0].mean(axis=-1)
    members = np.arange(min(pair_returns.shape))
    self_play = np.asarray(played.conventions)[members, members, :, 0]
    shares = [convention_shares(self_play[..., seat], len(environment.conventions)) for seat in (0, 1)]
    return {
        **(
            describe_conventions(environment, *shares)
            if environment.conventions
            else _describe_unnamed(swapped_key, environment, population, returns.mean(axis=-1), pair_returns, margin)
        ),
        "episodes_per_pair": trials,
        "return_unit": describe_unit(environment),
        "cross_play": round_floats(returns.mean(axis=-1)),
        "cross_play_standard_error": round_floats(returns.std(axis=-1, ddof=1) / trials**0.5),
        "seat_returns": mean_seat_returns(environment, played),
        "cross_play_seats_swapped": _measure_swapped_seats(swapped_key, environment, population, trials),
        "discounted_cross_play": round_floats(pair_returns),
        "margin": margin,
        **_constraints(pair_returns, margin),
        **(
            {
                "mixed_teams": measure_mixed_teams(
                    mixed_key, environment, population, pair_returns, margin=margin, discount=discount
                )
            }
            if mixed_teams
            else {}
        ),
    }


def _describe_unnamed(
    key: PRNGKey,
    environment: Environment,
    population: Population,
    returns: Float[np.ndarray, "R C"],
    discounted: Float[np.ndarray, "R C"],
    margin: float,
) -> dict[str, Any]:
    """Kinds of teammates, what each teammate does, and what each best response earns."""
    found = describe_kinds(discounted, margin)
    kinds = assign_kinds(discounted, margin)
    words = describe_teammates(jax.random.fold_in(key, BEHAVIOUR_STREAM), environment, population, kinds)
    served = found["best_response_conventions"]
    return found | {
        "conventions": [join_kind(kind, told) for kind, told in zip(found["conventions"], words, strict=True)],
        "best_response_conventions": [f"{serves}; {describe_row(returns[i], i)}" for i, serves in enumerate(served)],
    }


def describe_unit(environment: Environment) -> dict[str, Any] | None:
    """What results also count returns in, for records; None for numbers alone."""
    unit = environment.return_unit
    return None if unit is None else unit._asdict()


def _constraints(pair_returns: Float[np.ndarray, "R C"], margin: float) -> dict[str, Any]:
    """How far the paper's constraints hold; null where best responses and teammates differ in number."""
    if pair_returns.shape[0] != pair_returns.shape[1]:
        return dict.fromkeys(("gaps", "constraints_satisfied", "constraints_violated"))
    count = count_violations(constraint_gaps(pair_returns, margin))
    return {
        "gaps": label_gaps(pair_returns, margin),
        "constraints_satisfied": count == 0,
        "constraints_violated": count,
    }


def _measure_swapped_seats(key: PRNGKey, environment: Environment, population: Population, trials: int) -> list | None:
    """Return the cross-play matrix with teammates in seat 0; None unless two players may change seats."""
    if not environment.seats_alike or environment.num_seats > 2:
        return None
    played = cross_play(key, environment, population.teammates, population.best_responses, trials=trials, ego=1)
    return round_floats(np.asarray(played.returns)[..., 0].mean(axis=-1).T)
