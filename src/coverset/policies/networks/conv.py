"""Convolutional networks for observations that are images."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.policies.network import Network, NetworkSpec, check_observation_shape
from coverset.policies.networks.dense import MLP, add_broadcast
from coverset.types import PRNGKey, PyTree

CHANNELS = (16, 16)
KERNEL = 3


class Conv(Network):
    """Two 3 x 3 convolutions with ReLU that keep the image's size, then dense layers."""

    kernels: tuple[Float[Array, "..."], ...]
    """[3, 3, channels in, channels out]."""
    biases: tuple[Float[Array, "..."], ...]
    mlp: MLP
    input_shape: tuple[int, int, int] = eqx.field(static=True)

    @classmethod
    def build(cls, key: PRNGKey, spec: NetworkSpec) -> "Conv":
        check_observation_shape("conv", spec.input_shape)
        rows, columns, channels = spec.input_shape
        *kernel_keys, mlp_key = jax.random.split(key, len(CHANNELS) + 1)
        flat = (rows * columns * CHANNELS[-1], *spec.hidden_sizes, spec.num_outputs)
        return cls(
            kernels=tuple(
                (2.0 / (KERNEL * KERNEL * before)) ** 0.5 * jax.random.normal(k, (KERNEL, KERNEL, before, after))
                for k, before, after in zip(kernel_keys, (channels, *CHANNELS[:-1]), CHANNELS, strict=True)
            ),
            biases=tuple(jnp.zeros(size) for size in CHANNELS),
            mlp=MLP.create(mlp_key, flat, spec.head_scale, spec.fourier_bandwidth),
            input_shape=(rows, columns, channels),
        )

    def step(
        self, inputs: Float[Array, "*b d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        return self._apply(inputs, context), memory

    def _apply(self, inputs: Float[Array, "*b d"], context: Float[Array, "..."] | float) -> Float[Array, "... o"]:
        image = inputs.reshape(-1, *self.input_shape)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            image = jax.nn.relu(add_broadcast(convolve(image, kernel), bias))
        return self.mlp(image.reshape(*inputs.shape[:-1], -1), context)

    def rescale_outputs(self, gain: Float[Array, "o"], offset: Float[Array, "o"]) -> "Conv":
        return eqx.tree_at(lambda network: network.mlp, self, self.mlp.rescale_outputs(gain, offset))


def convolve(images: Float[Array, "n r c i"], kernel: Float[Array, "k k i o"]) -> Float[Array, "n r c o"]:
    """Convolution with zero padding, as one product over shifted images: under `vmap` over members on a CPU, XLA's own
    convolution becomes a grouped one, which is many times slower."""
    return _patches(images, kernel.shape[:2]) @ kernel.reshape(-1, kernel.shape[-1])


def _patches(images: Float[Array, "n r c i"], size: Sequence[int]) -> Float[Array, "n r c p"]:
    rows, columns = images.shape[1:3]
    above, left = size[0] // 2, size[1] // 2
    padded = jnp.pad(images, ((0, 0), (above, size[0] - 1 - above), (left, size[1] - 1 - left), (0, 0)))
    shifted = [padded[:, r : r + rows, c : c + columns] for r in range(size[0]) for c in range(size[1])]
    return jnp.concatenate(shifted, axis=-1)
