"""Cross-play between any two populations, and the paper's constraints on the returns of pairs."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.envs.seats import has_common_reward
from coverset.learning.constraints import constraint_slack
from coverset.learning.rollout import Episode, play_trial
from coverset.policies.stacked import count_members
from coverset.policy import Policy
from coverset.runs.storage import round_floats
from coverset.types import PRNGKey

MAX_STEPS = 2**25
"""Environment steps of one measurement, beyond which it has fewer trials: a quarter of a minute on one core with
networks of two layers of 64."""
MAX_TRIAL_STEPS = 2**18
"""Steps of one trial, beyond which it has fewer episodes: they are played one after another."""
MIN_TRIALS = 2
"""As many as a standard error needs."""


def limit_trials(wanted: int, steps: int, *, pairs: int = 1) -> int:
    """Limit the trials per pair by the total number of steps, at up to `steps` steps per trial.

    Otherwise a game with 100,000 steps per episode would take longer to measure than to train.
    """
    return min(wanted, max(MIN_TRIALS, MAX_STEPS // (steps * pairs)))


def limit_episodes(wanted: int, horizon: int) -> int:
    """Number of episodes in a trial: as many as wanted, fewer if episodes of `horizon` steps are very long."""
    return min(wanted, max(1, MAX_TRIAL_STEPS // horizon))


def cross_play(
    key: PRNGKey,
    environment: Environment,
    first: Policy,
    second: Policy,
    *,
    trials: int,
    episodes: int = 1,
    discount: float = 1.0,
    ego: int = 0,
) -> Episode:
    """Play every policy of `first` in seat 0 with every policy of `second` in seat 1.

    In games of three or more players, policies of `first` take the ego's seat and those of `second` all others.

    Args:
      key: random key.
      environment: the game.
      first: a policy whose arrays are stacked on a leading axis of P members.
      second: the same with Q members.
      trials: independent trials of each pair.
      episodes: episodes per trial, across which memories are kept.
      discount: gamma of `discounted_returns`.
      ego: the seat whose returns count.
    Returns:
      An `Episode` whose fields have leading axes [P, Q, trials, episodes].
    """
    pairs = (count_members(first), count_members(second))
    keys = jax.random.split(key, (*pairs, trials))
    return _cross_play(keys, environment, first, second, episodes, discount, ego)


@eqx.filter_jit
def _cross_play(
    keys, environment: Environment, first: Policy, second: Policy, episodes: int, discount: float, ego: int
) -> Episode:
    trial = partial(play_trial, episodes=episodes, discount=discount, ego=ego)
    over_trials = eqx.filter_vmap(lambda key, p, q: trial(key, environment, (p, q)), in_axes=(0, None, None))
    over_second = eqx.filter_vmap(over_trials, in_axes=(0, None, eqx.if_array(0)))
    return eqx.filter_vmap(over_second, in_axes=(0, eqx.if_array(0), None))(keys, first, second)


def mean_seat_returns(environment: Environment, played: Episode) -> list | None:
    """Mean return of every seat, [P, Q, seats], for a record; None where all seats share one reward."""
    if has_common_reward(environment):
        return None
    return round_floats(np.asarray(played.seat_returns, np.float64).mean(axis=(2, 3)))


def constraint_gaps(pair_returns: Float[np.ndarray, "K K"], margin: float) -> Float[np.ndarray, "2 K K"]:
    """Return the slack of both sets of constraints for measured returns; NaN on the diagonals."""
    slack = np.stack(constraint_slack(pair_returns, margin))
    slack[:, np.eye(len(pair_returns), dtype=bool)] = np.nan
    return slack


def off_diagonal_gaps(gaps: Float[np.ndarray, "2 K K"]) -> Float[np.ndarray, "n"]:
    """Return the 2 K (K - 1) off-diagonal gaps of `constraint_gaps`; NaN among them comes from a NaN return."""
    return gaps[:, ~np.eye(gaps.shape[1], dtype=bool)].reshape(-1)


def count_violations(gaps: Float[np.ndarray, "2 K K"]) -> int:
    """Count the violated constraints; a NaN gap counts as violated."""
    return int(np.sum(~(off_diagonal_gaps(gaps) >= 0)))


def label_gaps(pair_returns: Float[np.ndarray, "K K"], margin: float) -> dict[str, list]:
    """Return `constraint_gaps` for a log, under the names of their multipliers."""
    first, second = constraint_gaps(pair_returns, margin)
    return {"other_best_response": round_floats(first), "other_teammate": round_floats(second)}
