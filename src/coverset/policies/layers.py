"""How a multilayer perceptron is laid out in a file: `role.0.weight`, `role.0.bias`, `role.1.weight` and so on."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import format_value
from coverset.policies.networks import MLP
from coverset.runs.storage import DamagedFile, check_fields

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


def check_tensors(path: Path, tensors: Mapping[str, np.ndarray], roles: Sequence[str], others: Sequence[str]) -> None:
    """Raise DamagedFile unless a file holds finite float32 numbers, for networks of these roles and other tensors."""
    for name in others:
        if name not in tensors:
            raise DamagedFile(f"{path} lacks the tensor '{name}'.")
    for name, tensor in tensors.items():
        if name not in others and name.partition(".")[0] not in roles:
            raise DamagedFile(f"{path} holds the tensor {format_value(name)}, which belongs to nothing that was saved.")
        if tensor.dtype != np.float32:
            raise DamagedFile(f"{path} holds {format_value(name)} as {tensor.dtype}, where float32 was expected.")
        if not np.isfinite(tensor).all():
            raise DamagedFile(f"{path} holds weights that are not finite in {name}.")


def read_layers(
    path: Path, role: str, tensors: Mapping[str, np.ndarray], *, stacked: bool = False, waves: bool = False
) -> MLP:
    """The network that `named_layers` took apart; raises DamagedFile unless its layers fit together.

    Args:
      stacked: whether tensors have a leading axis of members.
    """
    found = {name for name in tensors if name.startswith(f"{role}.")}
    count = max(1, (len(found) + 1) // 2)
    names = [(f"{role}.{n}.weight", f"{role}.{n}.bias") for n in range(count)]
    for name in (name for layer in names for name in layer):
        if name not in found:
            raise DamagedFile(f"{path} lacks the tensor '{name}'.")
    weights, biases = ([tensors[layer[kind]] for layer in names] for kind in (0, 1))
    if not _chained(weights, biases, rank=2 + stacked):
        raise DamagedFile(f"{path} holds layers of {role} whose shapes do not fit together.")
    return MLP(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)), waves)


def _chained(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], *, rank: int) -> bool:
    """Whether every layer has some inputs and outputs, and reads what the one before it gives."""
    alike = all(
        weight.ndim == rank and weight.size > 0 and bias.shape == (*weight.shape[:-2], weight.shape[-1])
        for weight, bias in zip(weights, biases, strict=True)
    )
    return alike and all((*one.shape[:-2], one.shape[-1]) == other.shape[:-1] for one, other in pairwise(weights))


def read_kind(path: Path, metadata: Mapping[str, Any]) -> bool:
    """Whether the first layer ends in waves, as `kind_of` wrote it."""
    if WAVES in metadata:
        check_fields(path, metadata, **{WAVES: bool})
    return metadata.get(WAVES, False)
