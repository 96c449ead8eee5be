"""Values in units that a run finds itself: their running mean and standard deviation (van Hasselt et al. 2016).

A network that learns (V - mean) / deviation learns equally well whatever the scale of the rewards and whatever constant
is added to them. When the units move, the network's last layer is rescaled so that its values stay the same (PopArt).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

SLOWEST_RATE = 0.03
"""Weight of the newest targets once many have been seen; before that all are weighted equally."""
SMALLEST_DEVIATION = 1e-6
"""Of the mean's magnitude: values that are all the same have no scale of their own."""
TINY = 1e-30


class ValueScale(NamedTuple):
    """Running moments of value targets, for every head of a critic."""

    updates: Float[Array, ""]
    """Number of updates seen."""
    mean: Float[Array, "h"]
    variance: Float[Array, "h"]

    @property
    def deviation(self) -> Float[Array, "h"]:
        """The unit: the standard deviation, 1 before anything was seen."""
        smallest = jnp.maximum(SMALLEST_DEVIATION * jnp.abs(self.mean), jnp.float32(TINY))
        return jnp.maximum(jnp.sqrt(self.variance), smallest)


def start_value_scale(heads: int) -> ValueScale:
    """Units before anything was seen: mean 0, deviation 1."""
    return ValueScale(jnp.float32(0.0), jnp.zeros(heads), jnp.ones(heads))


def follow_targets(scale: ValueScale, targets: Float[Array, "n h"]) -> ValueScale:
    """The moments after an update whose value targets were these."""
    rate = jnp.maximum(1.0 / (scale.updates + 1.0), SLOWEST_RATE)
    mean = (1.0 - rate) * scale.mean + rate * targets.mean(axis=0)
    old = scale.variance + (scale.mean - mean) ** 2
    new = jnp.mean((targets - mean[None]) ** 2, axis=0)
    # Not old + rate (new - old): the first units are replaced by others that may be much smaller.
    return ValueScale(scale.updates + 1.0, mean, (1.0 - rate) * old + rate * new)


def output_correction(before: ValueScale, after: ValueScale) -> tuple[Float[Array, "h"], Float[Array, "h"]]:
    """Gain and offset of a network's outputs with which its values stay the same in new units.

    None is needed before anything was learned: outputs then mean the first units that are known.
    """
    first = before.updates == 0.0
    gain = jnp.where(first, 1.0, before.deviation / after.deviation)
    offset = jnp.where(first, 0.0, (before.mean - after.mean) / after.deviation)
    return gain, offset
