"""Restarts of pairs that cannot separate from others.

In the Lagrangian of L-BRDiv a pair's self-play never weighs less than its cross-play, however large the multipliers
grow. So a pair that has converged to a convention that another pair already follows may stay there for good: its
constraints are violated, and yet leaving does not pay. Such a pair gets fresh networks, one pair at a time and the one
that earns least first. This is not in the paper; without `restart_patience`, nothing here happens.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.teammates.method import violates_constraints
from coverset.teammates.networks import Networks
from coverset.teammates.ppo import Optimised, init_moments, select_members
from coverset.types import PairMatrix, PyTree


class RestartDecision(NamedTuple):
    """Which pairs restart, and how long each pair has been stuck after that."""

    restarted: Bool[Array, "K"]
    stuck: Int[Array, "K"]
    """Updates in a row in which the pair was not settled; negative in a restarted pair's grace period."""


def decide_restarts(
    stuck: Int[Array, "K"],
    pair_values: PairMatrix,
    updates_left: Int[Array, ""],
    *,
    margin: float,
    patience: int,
    mixed_values: Float[Array, "S K K"] | None = None,
) -> RestartDecision:
    """Of the pairs stuck for `patience` updates, restart the one that earns least, and reset all counts.

    No pair restarts that could not become stuck again before the end: what it has is better than a beginning.

    Args:
      stuck: for how many updates each pair has not been settled.
      pair_values: estimated returns of all pairs.
      updates_left: of the run.
      margin: by which a settled pair's self-play exceeds its cross-play.
      patience: updates after which a pair counts as stuck.
      mixed_values: estimated returns of mixed teams, where they play.
    """
    stuck = jnp.where(violates_constraints(pair_values, margin, mixed_values), stuck + 1, 0)
    due = (stuck >= patience) & (updates_left >= 2 * patience)
    least = jnp.argmin(jnp.where(due, jnp.diagonal(pair_values), jnp.inf))
    restarted = due & (jnp.arange(stuck.shape[0]) == least)
    return RestartDecision(restarted, jnp.where(jnp.any(due), jnp.where(restarted, -patience, 0), stuck))


def restart_pairs(optimised: Optimised, drawn: Networks, restarted: Bool[Array, "K"]) -> Optimised:
    """Restarted pairs get the policies just drawn, and empty moments; the critic stays."""
    new = init_moments(drawn)

    def population(role: str) -> tuple[PyTree, PyTree]:
        pieces = [(getattr(side.networks, role), getattr(side.moments, role)) for side in (new, optimised)]
        return jax.tree.map(lambda mine, old: select_members(restarted, mine, old), *pieces)

    (rows, row_moments), (columns, column_moments) = population("best_responses"), population("teammates")
    return Optimised(
        optimised.networks._replace(best_responses=rows, teammates=columns),
        optimised.moments._replace(best_responses=row_moments, teammates=column_moments),
    )
