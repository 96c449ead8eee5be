"""Diagonal Gaussians as networks give them: means, then logarithms of the deviations, on the last axis."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.types import PRNGKey

LARGEST_LOG = 4.0
"""Bound on the logarithm of a deviation, either way."""


class Gaussian(NamedTuple):
    """A normal distribution with independent entries."""

    mean: Float[Array, "*b z"]
    log_deviation: Float[Array, "*b z"]

    def sample(self, key: PRNGKey) -> Float[Array, "*b z"]:
        """mean + deviation * noise, with gradients for both."""
        return self.mean + jnp.exp(self.log_deviation) * jax.random.normal(key, self.mean.shape)

    def divergence(self, other: "Gaussian") -> Float[Array, "*b"]:
        """KL(self || other), summed over entries.

        sum_k log(s'_k / s_k) + (s_k^2 + (m_k - m'_k)^2) / (2 s'_k^2) - 1/2
        """
        ratio = jnp.exp(2.0 * (self.log_deviation - other.log_deviation))
        distance = jnp.square(self.mean - other.mean) * jnp.exp(-2.0 * other.log_deviation)
        logs = other.log_deviation - self.log_deviation
        return jnp.sum(logs + 0.5 * (ratio + distance) - 0.5, axis=-1)


def read_gaussian(outputs: Float[Array, "*b y"]) -> Gaussian:
    """The distribution that a network's outputs stand for."""
    mean, log_deviation = jnp.split(outputs, 2, axis=-1)
    return Gaussian(mean, LARGEST_LOG * jnp.tanh(log_deviation / LARGEST_LOG))


def standard_gaussian(like: Gaussian) -> Gaussian:
    """N(0, 1) of the same shape."""
    return Gaussian(jnp.zeros_like(like.mean), jnp.zeros_like(like.log_deviation))
