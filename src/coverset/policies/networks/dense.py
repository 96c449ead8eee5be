"""Multilayer perceptrons.

Initial weights are scaled normals rather than orthogonal matrices: no linear algebra, so that a whole population can be
drawn under `vmap`.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.policies.network import Network, NetworkSpec
from coverset.types import PRNGKey, PyTree


class MLP(Network):
    """Affine layers with ReLU between them; the last layer is linear.

    With Fourier features the first layer's activation is a sine wave. ReLU networks see two observations that differ in
    one of many bits as nearly the same, and what is learned for one spills over to the other; Fourier features of a
    sufficient bandwidth separate them.
    """

    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "..."], ...]
    fourier: bool = eqx.field(static=True, default=False)

    @classmethod
    def build(cls, key: PRNGKey, spec: NetworkSpec) -> "MLP":
        sizes = (math.prod(spec.input_shape), *spec.hidden_sizes, spec.num_outputs)
        return cls.create(key, sizes, spec.head_scale, spec.fourier_bandwidth)

    @classmethod
    def create(
        cls, key: PRNGKey, sizes: Sequence[int], head_scale: float = 1.0, fourier_bandwidth: float = 0.0
    ) -> "MLP":
        """Draw weights of variance 2 / fan-in (1 / fan-in times `head_scale`^2 for the last layer), biases zero.

        With `fourier_bandwidth` above 0, the first layer is drawn as random Fourier features (Rahimi and Recht 2007):
        at initialisation, the features of two inputs at distance r correlate by exp(-(fourier_bandwidth r)^2 / 2).
        """
        if fourier_bandwidth > 0.0:
            return cls._with_fourier_features(key, sizes, head_scale, fourier_bandwidth)
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2.0**0.5] * (len(sizes) - 2) + [head_scale]
        weights = tuple(
            gain * fan_in**-0.5 * jax.random.normal(layer_key, (fan_in, fan_out))
            for layer_key, gain, fan_in, fan_out in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
        )
        return cls(weights=weights, biases=tuple(jnp.zeros(size) for size in sizes[1:]))

    @classmethod
    def _with_fourier_features(cls, key: PRNGKey, sizes: Sequence[int], head_scale: float, bandwidth: float) -> "MLP":
        key, weight_key, phase_key = jax.random.split(key, 3)
        rest = cls.create(key, sizes[1:], head_scale)
        weight = bandwidth / (2.0 * math.pi) * jax.random.normal(weight_key, tuple(sizes[:2]))
        phase = jax.random.uniform(phase_key, (sizes[1],))
        return cls((weight, *rest.weights), (phase, *rest.biases), fourier=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Width of the input and of every layer."""
        return (*(weight.shape[-2] for weight in self.weights), self.weights[-1].shape[-1])

    def __call__(
        self, inputs: Float[Array, "*batch d"], context: Float[Array, "..."] | float = 0.0
    ) -> Float[Array, "... out"]:
        """Apply the layers; `context` is added before the first activation.

        Products see one batch axis, whatever leads: on a CPU, gradients over two or more take up to twice the time.
        """
        hidden = add_broadcast(add_broadcast(flat_product(inputs, self.weights[0]), self.biases[0]), context)
        for number, (weight, bias) in enumerate(zip(self.weights[1:], self.biases[1:], strict=True)):
            activation = sine_wave if self.fourier and number == 0 else jax.nn.relu
            hidden = add_broadcast(flat_product(activation(hidden), weight), bias)
        return hidden

    def step(
        self, inputs: Float[Array, "*b d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        return self(inputs, context), memory

    def rescale_outputs(self, gain: Float[Array, "o"], offset: Float[Array, "o"]) -> "MLP":
        weights = (*self.weights[:-1], self.weights[-1] * gain[None])
        biases = (*self.biases[:-1], self.biases[-1] * gain + offset)
        return MLP(weights, biases, self.fourier)


def flat_product(inputs: Float[Array, "*batch d"], weight: Float[Array, "d h"]) -> Float[Array, "*batch h"]:
    """`inputs @ weight`, with all leading axes as one."""
    return (inputs.reshape(-1, inputs.shape[-1]) @ weight).reshape(*inputs.shape[:-1], -1)


def add_broadcast(first: Array, second: Array | float) -> Array:
    """The sum of arrays whose leading axes broadcast, whichever has more of them."""
    rank = max(jnp.ndim(first), jnp.ndim(second))
    aligned = [jnp.reshape(x, (1,) * (rank - jnp.ndim(x)) + jnp.shape(x)) for x in (first, second)]
    return aligned[0] + aligned[1]


def sine_wave(turns: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """sqrt(2) sin(2 pi turns), approximated by parabolas: on a CPU as cheap as ReLU; a sine costs 18 times as much."""
    phase = turns - jnp.round(turns)
    return 2.0**0.5 * (8.0 * phase - 16.0 * phase * jnp.abs(phase))
