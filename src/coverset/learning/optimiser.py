"""Adam with gradient clipping that respects stacked networks."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from coverset.types import PyTree, Scalar

ADAM = optax.scale_by_adam()
SMALLEST_NORM = 1e-6


def adam_step(
    rate: Any, network: PyTree, moments: PyTree, gradient: PyTree, *, per_member: bool, max_norm: float
) -> tuple[PyTree, PyTree]:
    """Adam after clipping the gradient's norm, of each member on its own where networks are stacked.

    Args:
      rate: the learning rate.
      network: what learns.
      moments: Adam's, of the same shape.
      gradient: of the loss.
      per_member: whether the leading axis is one of members, each clipped on its own.
      max_norm: bound of the gradient's norm.
    """
    norm = jax.vmap(optax.tree.norm)(gradient) if per_member else optax.tree.norm(gradient)
    factor = jnp.minimum(1.0, max_norm / (norm + SMALLEST_NORM))
    clipped = jax.tree.map(lambda g: g * factor.reshape(factor.shape + (1,) * (g.ndim - factor.ndim)), gradient)
    with jax.numpy_dtype_promotion("standard"):  # optax adds Python numbers to counts
        direction, moments = ADAM.update(clipped, moments)
    return eqx.apply_updates(network, jax.tree.map(lambda d: -rate * d, direction)), moments


def shaping_weight(share: float, progress: Scalar) -> Scalar:
    """The weight of shaped rewards: from 1 at the start of a run linearly to 0 after this share of it."""
    return jnp.maximum(1.0 - progress / share, 0.0)


def explore_then_settle(start: float, final: float | None, progress: Scalar) -> Scalar:
    """`start` through the first half of a run, so that conventions are found; then linearly to `final`, to be firm."""
    end = start if final is None else final
    return start + (end - start) * jnp.clip(2.0 * progress - 1.0, 0.0, 1.0)
