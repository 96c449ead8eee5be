"""Mixed teams of a trained population: each best response with its own team, one seat of which another teammate takes.

Mixed teams exist in games of three or more players. Arrays over them have axes [S, K, K]: the seat s that is taken, the
best response i, the teammate k that takes it. Their diagonals, i = k, mean nothing.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.evaluation.cross_play import limit_trials
from coverset.learning.constraints import mixed_team_slack
from coverset.learning.rollout import Episode, play_trial
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.policy import Policy
from coverset.runs.storage import round_floats
from coverset.types import PRNGKey

TRIALS = 512


def play_mixed_teams(
    key: PRNGKey, environment: Environment, population: Population, *, trials: int, discount: float = 1.0
) -> list[Episode]:
    """Play one episode per trial with every mixed team; one `Episode` for each seat, with axes [K, K, trials, 1].

    Args:
      key: random key.
      environment: a game of three or more players.
      population: K best responses and K teammates.
      trials: episodes of each team.
      discount: gamma of `discounted_returns`.
    """
    seats, size = environment.num_seats - 1, count_members(population.teammates)
    keys = jax.random.split(key, (seats, size, size, trials))
    return [_play_seat(keys[seat], environment, *population, seat, discount) for seat in range(seats)]


@eqx.filter_jit
def _play_seat(
    keys, environment: Environment, best_responses: Policy, teammates: Policy, taken: int, discount: float
) -> Episode:
    """All teams in which one seat of the team, counted from 0, is taken."""
    trial = partial(play_trial, episodes=1, discount=discount)

    def play(key, best_response: Policy, own: Policy, other: Policy) -> Episode:
        team = (other if seat == taken else own for seat in range(environment.num_seats - 1))
        return trial(key, environment, (best_response, *team))

    over_trials = eqx.filter_vmap(play, in_axes=(0, None, None, None))
    over_others = eqx.filter_vmap(over_trials, in_axes=(0, None, None, eqx.if_array(0)))
    over_pairs = eqx.filter_vmap(over_others, in_axes=(0, eqx.if_array(0), eqx.if_array(0), None))
    return over_pairs(keys, best_responses, teammates, teammates)


def measure_mixed_teams(
    key: PRNGKey,
    environment: Environment,
    population: Population,
    pair_returns: Float[np.ndarray, "K K"],
    *,
    margin: float,
    discount: float,
) -> dict[str, Any]:
    """Return `mixed_teams` of a summary: returns, and how far the constraints on them hold.

    Args:
      key: random key.
      environment: a game of three or more players.
      population: K best responses and K teammates.
      pair_returns: discounted returns of whole teams.
      margin: tau of the constraints.
      discount: gamma of the returns in the constraints.
    """
    size, seats = len(pair_returns), environment.num_seats - 1
    trials = limit_trials(TRIALS, environment.horizon, pairs=seats * size * size)
    played = play_mixed_teams(key, environment, population, trials=trials, discount=discount)
    returns = np.stack([np.asarray(episode.returns)[..., 0] for episode in played])
    discounted = np.stack([np.asarray(episode.discounted_returns)[..., 0].mean(axis=-1) for episode in played])
    gaps = mixed_team_gaps(pair_returns, discounted, margin)
    return {
        "episodes_per_team": trials,
        "returns": round_floats(blank_diagonals(returns.mean(axis=-1))),
        "standard_error": round_floats(blank_diagonals(returns.std(axis=-1, ddof=1) / trials**0.5)),
        "discounted_returns": round_floats(blank_diagonals(discounted)),
        "gaps": round_floats(gaps),
        "constraints_violated": int(np.sum(~(gaps[:, ~np.eye(size, dtype=bool)] >= 0))),
    }


def mixed_team_gaps(
    pair_returns: Float[np.ndarray, "K K"], mixed_returns: Float[np.ndarray, "S K K"], margin: float
) -> Float[np.ndarray, "S K K"]:
    """Return the slack of the constraints on mixed teams; NaN on the diagonals."""
    return blank_diagonals(mixed_team_slack(pair_returns, mixed_returns, margin))


def blank_diagonals(mixed: Float[np.ndarray, "S K K"]) -> Float[np.ndarray, "S K K"]:
    """A copy with NaN where no seat is taken."""
    return np.where(np.eye(mixed.shape[-1], dtype=bool)[None], np.nan, mixed)
