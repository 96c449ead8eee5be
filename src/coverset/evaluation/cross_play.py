"""Any population crossed with any other, and what the pairs' returns say about the paper's constraints."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.learning.rollout import Episode, play_trial
from coverset.policies.base import Policy
from coverset.storage import rounded
from coverset.types import PRNGKey

MOST_STEPS = 2**25
"""Environment steps of one measurement, beyond which it has fewer trials: a quarter of a minute on one core with
networks of two layers of 64."""
LONGEST_TRIAL = 2**18
"""Steps of one trial, beyond which it has fewer episodes: they are played one after another, however few trials."""
FEWEST_TRIALS = 2
"""As many as a standard error needs."""


def affordable_trials(wanted: int, steps: int, *, pairs: int = 1) -> int:
    """How many trials of each pair to play where one takes up to `steps` steps: as many as wanted, unless that is long.

    A game of 100,000 steps an episode would otherwise be measured for longer than it was trained.
    """
    return min(wanted, max(FEWEST_TRIALS, MOST_STEPS // (steps * pairs)))


def affordable_episodes(wanted: int, horizon: int) -> int:
    """How many episodes of up to `horizon` steps a trial has: as many as wanted, unless that is long."""
    return min(wanted, max(1, LONGEST_TRIAL // horizon))


def cross_play(
    key: PRNGKey,
    environment: Environment,
    first: Policy,
    second: Policy,
    *,
    trials: int,
    episodes: int = 1,
    discount: float = 1.0,
) -> Episode:
    """Play every policy of `first` in seat 0 with every policy of `second` in seat 1.

    Args:
      first: a policy whose arrays are stacked on a leading axis of P members.
      second: the same with Q members.
      trials: independent trials of each pair.
      episodes: episodes in a trial, over which memories are kept.
    Returns:
      An `Episode` whose fields have leading axes [P, Q, trials, episodes].
    """
    pairs = (member_count(first), member_count(second))
    keys = jax.random.split(key, (*pairs, trials))
    return _cross_play(keys, environment, first, second, episodes, discount)


def member_count(stacked: Policy) -> int:
    """Length of the leading axis of a stacked policy."""
    return jax.tree.leaves(eqx.filter(stacked, eqx.is_array))[0].shape[0]


@eqx.filter_jit
def _cross_play(keys, environment: Environment, first: Policy, second: Policy, episodes: int, discount: float):
    trial = partial(play_trial, episodes=episodes, discount=discount)
    over_trials = eqx.filter_vmap(lambda key, p, q: trial(key, environment, (p, q)), in_axes=(0, None, None))
    over_second = eqx.filter_vmap(over_trials, in_axes=(0, None, eqx.if_array(0)))
    return eqx.filter_vmap(over_second, in_axes=(0, eqx.if_array(0), None))(keys, first, second)


def constraint_gaps(pair_returns: Float[np.ndarray, "K K"], margin: float) -> Float[np.ndarray, "2 K K"]:
    """Slack of the paper's two sets of constraints, by the measured returns; NaN on the diagonals.

    [0]_ij = R_ii - R_ji - margin  (another best response)      [1]_ij = R_ii - R_ij - margin  (another teammate)
    """
    own = np.diagonal(pair_returns)[:, None]
    slack = np.stack([own - pair_returns.T - margin, own - pair_returns - margin])
    slack[:, np.eye(len(pair_returns), dtype=bool)] = np.nan
    return slack


def between_pairs(gaps: Float[np.ndarray, "2 K K"]) -> Float[np.ndarray, "n"]:
    """The 2 K (K - 1) gaps of `constraint_gaps` off the diagonals; NaN among them is a return that is none."""
    return gaps[:, ~np.eye(gaps.shape[1], dtype=bool)].reshape(-1)


def violated(gaps: Float[np.ndarray, "2 K K"]) -> int:
    """How many constraints do not hold; one whose gap is NaN does not."""
    return int(np.sum(~(between_pairs(gaps) >= 0)))


def named_gaps(pair_returns: Float[np.ndarray, "K K"], margin: float) -> dict[str, list]:
    """`constraint_gaps` for a log, under the names of the multipliers that guard them."""
    first, second = constraint_gaps(pair_returns, margin)
    return {"other_best_response": rounded(first), "other_teammate": rounded(second)}
