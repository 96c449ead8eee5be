"""Actors and the centralised critic: multilayer perceptrons written for any leading batch axes.

Acting and valuing are separate networks and separate calls. Initial weights are scaled normals rather than
orthogonal matrices: no linear algebra, so a whole population can be drawn under `vmap`.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.policies.base import Policy
from coverset.types import Percept, PRNGKey

POLICY_HEAD_SCALE = 0.01
"""Near-zero logits: every policy starts close to uniform."""


class MLP(eqx.Module):
    """Affine layers with rectifiers between them; the last layer is linear."""

    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "..."], ...]

    @classmethod
    def create(cls, key: PRNGKey, sizes: Sequence[int], head_scale: float = 1.0) -> "MLP":
        """Draw weights of variance 2 / fan-in (1 / fan-in times `head_scale`^2 for the last layer), biases zero."""
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2.0**0.5] * (len(sizes) - 2) + [head_scale]
        weights = tuple(
            gain * fan_in**-0.5 * jax.random.normal(layer_key, (fan_in, fan_out))
            for layer_key, gain, fan_in, fan_out in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
        )
        return cls(weights=weights, biases=tuple(jnp.zeros(size) for size in sizes[1:]))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Width of the input and of every layer."""
        return (*(weight.shape[-2] for weight in self.weights), self.weights[-1].shape[-1])

    def __call__(
        self, inputs: Float[Array, "*batch d"], first_bias: Float[Array, "..."] | float = 0.0
    ) -> Float[Array, "... out"]:
        """Apply the layers; `first_bias` is added before the first rectifier."""
        hidden = inputs @ self.weights[0] + self.biases[0] + first_bias
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = jax.nn.relu(hidden) @ weight + bias
        return hidden


class PairCritic(eqx.Module):
    """The centralised critic V^{i,-j}: both observations and both identities in, one value out (Algorithm 1).

    A one-hot identity times a weight matrix is a row of that matrix, so identities enter as two embeddings that are
    added to the first layer's input.
    """

    mlp: MLP
    best_response_embedding: Float[Array, "*s K h"]
    teammate_embedding: Float[Array, "*s K h"]

    @classmethod
    def create(
        cls, key: PRNGKey, observation_size: int, population_size: int, hidden_sizes: Sequence[int]
    ) -> "PairCritic":
        """Draw the layers, and unit-scale embeddings that tell pairs apart from the start."""
        mlp_key, row_key, column_key = jax.random.split(key, 3)
        shape = (population_size, hidden_sizes[0])
        return cls(
            mlp=MLP.create(mlp_key, (2 * observation_size, *hidden_sizes, 1)),
            best_response_embedding=jax.random.normal(row_key, shape),
            teammate_embedding=jax.random.normal(column_key, shape),
        )

    def identity(self, best_response: Int[Array, "*b"], teammate: Int[Array, "*b"]) -> Float[Array, "*b h"]:
        """What a pair's identity adds to the first layer."""
        return self.best_response_embedding[best_response] + self.teammate_embedding[teammate]

    def __call__(self, observations: Float[Array, "*batch 2 d"], identity: Float[Array, "..."]) -> Float[Array, "..."]:
        """Expected discounted return of the pair from these observations on."""
        joint = observations.reshape(*observations.shape[:-2], -1)
        return self.mlp(joint, identity)[..., 0]


class NetworkPolicy(Policy):
    """A feed-forward stochastic policy: samples from the softmax of an MLP's logits. Remembers nothing."""

    mlp: MLP

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        return jax.random.categorical(key, self.mlp(percept.observation)), memory
