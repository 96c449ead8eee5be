"""Actors and the centralised critic: multilayer perceptrons written for any leading batch axes.

Acting and valuing are separate networks and separate calls. Initial weights are scaled normals rather than
orthogonal matrices: no linear algebra, so a whole population can be drawn under `vmap`.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

TURN = 2.0 * math.pi
POLICY_HEAD_SCALE = 0.01
"""Near-zero logits: every policy starts close to uniform."""


class MLP(eqx.Module):
    """Affine layers with rectifiers between them; the last layer is linear.

    The first layer may end in waves instead. Rectifiers see two observations that differ in one of many bits as nearly
    the same, and what is learned for one spills over to the other; to waves of some bandwidth they are strangers.
    """

    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "..."], ...]
    waves: bool = eqx.field(static=True, default=False)

    @classmethod
    def create(cls, key: PRNGKey, sizes: Sequence[int], head_scale: float = 1.0, waves: float = 0.0) -> "MLP":
        """Draw weights of variance 2 / fan-in (1 / fan-in times `head_scale`^2 for the last layer), biases zero.

        With `waves` above 0, the first layer is drawn as random Fourier features (Rahimi and Recht 2007): at the start
        two inputs at distance r look alike by exp(-(waves r)^2 / 2).
        """
        if waves > 0.0:
            return cls._with_waves(key, sizes, head_scale, waves)
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2.0**0.5] * (len(sizes) - 2) + [head_scale]
        weights = tuple(
            gain * fan_in**-0.5 * jax.random.normal(layer_key, (fan_in, fan_out))
            for layer_key, gain, fan_in, fan_out in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
        )
        return cls(weights=weights, biases=tuple(jnp.zeros(size) for size in sizes[1:]))

    @classmethod
    def _with_waves(cls, key: PRNGKey, sizes: Sequence[int], head_scale: float, waves: float) -> "MLP":
        key, weight_key, phase_key = jax.random.split(key, 3)
        rest = cls.create(key, sizes[1:], head_scale)
        weight = waves / TURN * jax.random.normal(weight_key, tuple(sizes[:2]))
        phase = jax.random.uniform(phase_key, (sizes[1],))
        return cls((weight, *rest.weights), (phase, *rest.biases), waves=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Width of the input and of every layer."""
        return (*(weight.shape[-2] for weight in self.weights), self.weights[-1].shape[-1])

    def __call__(
        self, inputs: Float[Array, "*batch d"], first_bias: Float[Array, "..."] | float = 0.0
    ) -> Float[Array, "... out"]:
        """Apply the layers; `first_bias` is added before the first rectifier or wave.

        Products see one batch axis, whatever leads: on a CPU, gradients over two or more take up to twice the time.
        """
        hidden = flat_product(inputs, self.weights[0]) + self.biases[0] + first_bias
        for number, (weight, bias) in enumerate(zip(self.weights[1:], self.biases[1:], strict=True)):
            bend = wave if self.waves and number == 0 else jax.nn.relu
            hidden = flat_product(bend(hidden), weight) + bias
        return hidden


def flat_product(inputs: Float[Array, "*batch d"], weight: Float[Array, "d h"]) -> Float[Array, "*batch h"]:
    """`inputs @ weight`, with all leading axes as one."""
    return (inputs.reshape(-1, inputs.shape[-1]) @ weight).reshape(*inputs.shape[:-1], -1)


def wave(turns: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """sqrt(2) sin(2 pi turns) drawn with parabolas: on a CPU as cheap as a rectifier; a sine costs 18 times as much."""
    phase = turns - jnp.round(turns)
    return 2.0**0.5 * (8.0 * phase - 16.0 * phase * jnp.abs(phase))


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
        cls,
        key: PRNGKey,
        observation_size: int,
        population_size: int,
        hidden_sizes: Sequence[int],
        waves: float = 0.0,
    ) -> "PairCritic":
        """Draw the layers, and unit-scale embeddings that tell pairs apart from the start."""
        mlp_key, row_key, column_key = jax.random.split(key, 3)
        shape = (population_size, hidden_sizes[0])
        return cls(
            mlp=MLP.create(mlp_key, (2 * observation_size, *hidden_sizes, 1), waves=waves),
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
