"""Pairs that cannot part start anew.

In the Lagrangian of L-BRDiv a pair's self-play never weighs less than its cross-play, however large the multipliers
grow. So a pair that has settled where others already are may stay there for good: its constraints are violated, and
yet leaving does not pay. Such a pair gets fresh networks, one pair at a time and the one that earns least first. This
is not in the paper; without patience, nothing here happens.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.teammates.method import violated
from coverset.teammates.networks import Networks
from coverset.teammates.ppo import Learner, init_learner
from coverset.types import PairMatrix, PyTree


class Verdict(NamedTuple):
    """Who starts anew, and how long each pair has been stuck after that."""

    fresh: Bool[Array, "K"]
    stuck: Int[Array, "K"]
    """Updates in a row in which the pair was not settled; negative in a new pair's time of grace."""


def judge(
    stuck: Int[Array, "K"], pair_values: PairMatrix, updates_left: Int[Array, ""], *, margin: float, patience: int
) -> Verdict:
    """Count on. Of the pairs stuck for `patience` updates the one that earns least starts anew, and all counts do.

    Nobody does who could not become stuck again before the end: what such a pair has is better than a beginning.
    """
    stuck = jnp.where(violated(pair_values, margin), stuck + 1, 0)
    due = (stuck >= patience) & (updates_left >= 2 * patience)
    least = jnp.argmin(jnp.where(due, jnp.diagonal(pair_values), jnp.inf))
    fresh = due & (jnp.arange(stuck.shape[0]) == least)
    return Verdict(fresh, jnp.where(jnp.any(due), jnp.where(fresh, -patience, 0), stuck))


def renew(learner: Learner, drawn: Networks, fresh: Bool[Array, "K"]) -> Learner:
    """Policies of fresh pairs are those just drawn, with nothing in Adam's memory; the critic stays."""
    new = init_learner(drawn)

    def population(role: str) -> tuple[PyTree, PyTree]:
        pieces = [(getattr(side.networks, role), getattr(side.moments, role)) for side in (new, learner)]
        return jax.tree.map(lambda mine, old: _where(fresh, mine, old), *pieces)

    (rows, row_moments), (columns, column_moments) = population("best_responses"), population("teammates")
    return Learner(
        Networks(rows, columns, learner.networks.critic),
        Networks(row_moments, column_moments, learner.moments.critic),
    )


def _where(fresh: Bool[Array, "K"], new: Array, old: Array) -> Array:
    """The new entries of fresh members; what has no axis of members, Adam's count of steps, stays."""
    if old.ndim == 0:
        return old
    return jnp.where(fresh.reshape(-1, *(1,) * (old.ndim - 1)), new, old)
