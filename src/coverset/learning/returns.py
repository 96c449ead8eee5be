"""Advantages and value targets along one time axis. Arrays in, arrays out."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def advantages(
    rewards: Float[Array, "T *b"],
    values: Float[Array, "T *b"],
    next_values: Float[Array, "T *b"],
    terminated: Bool[Array, "T *b"],
    truncated: Bool[Array, "T *b"],
    *,
    discount: float,
    decay: float,
) -> Float[Array, "T *b"]:
    """Generalised advantage estimation (Schulman et al. 2016) over a rollout that may cross episode ends.

        delta_t = r_t + gamma V(s'_t) [not terminated] - V(s_t)
        A_t     = delta_t + gamma lambda A_{t+1} [episode goes on]

    With `decay` (lambda) 0 this is the one-step advantage of Algorithm 1. `next_values` are values of the states that
    the steps led to, before any reset, so a truncated episode is bootstrapped through its time limit.

    Args:
      rewards: of the steps.
      values: of the states before them.
      next_values: of the states that they led to, before any reset.
      terminated: where the game ended.
      truncated: where the time limit cut an episode.
      discount: gamma.
      decay: lambda.
    """
    deltas = rewards + jnp.where(terminated, 0.0, discount * next_values) - values
    carries_on = jnp.where(terminated | truncated, 0.0, jnp.float32(discount * decay))

    def backwards(following, step):
        delta, carry = step
        advantage = delta + carry * following
        return advantage, advantage

    _, result = jax.lax.scan(backwards, jnp.zeros_like(deltas[0]), (deltas, carries_on), reverse=True)
    return result
