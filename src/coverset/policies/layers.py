"""How a multilayer perceptron is laid out in a file: `role.0.weight`, `role.0.bias`, `role.1.weight` and so on."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from coverset.policies.networks import MLP

WAVES = "waves"


def kind_of(mlp: MLP) -> dict[str, bool]:
    """What a file's metadata must say of a network beside its tensors: whether its first layer ends in waves."""
    return {WAVES: True} if mlp.waves else {}


def named_layers(role: str, mlp: MLP) -> dict[str, jax.Array | np.ndarray]:
    """The tensors of a network by their names."""
    layers = enumerate(zip(mlp.weights, mlp.biases, strict=True))
    return {
        f"{role}.{number}.{kind}": tensor
        for number, layer in layers
        for kind, tensor in zip(("weight", "bias"), layer, strict=True)
    }


def read_layers(role: str, tensors: Mapping[str, jax.typing.ArrayLike], *, waves: bool = False) -> MLP:
    """The network that `named_layers` took apart; KeyError if a tensor is missing."""
    return MLP(*layer_tensors(role, tensors), waves)


def layer_tensors(
    role: str, tensors: Mapping[str, jax.typing.ArrayLike]
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Weights and biases as they stand in a file, whatever they are."""
    count = sum(name.startswith(f"{role}.") and name.endswith(".weight") for name in tensors)
    weights, biases = (
        [jnp.asarray(tensors[f"{role}.{n}.{kind}"]) for n in range(count)] for kind in ("weight", "bias")
    )
    return tuple(weights), tuple(biases)
