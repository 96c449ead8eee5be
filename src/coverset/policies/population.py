"""The K matched pairs as one object: stacked parameters, saved and loaded without running anybody's code."""

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coverset.policies.layers import WAVES, kind_of, layer_tensors, named_layers
from coverset.policies.networks import MLP, NetworkPolicy
from coverset.storage import DamagedFile, load_tensors, save_tensors

FORMAT = "coverset population 1"


class Population(NamedTuple):
    """K best responses and K teammates; arrays have a leading axis of members."""

    best_responses: NetworkPolicy
    teammates: NetworkPolicy


def members(policies: NetworkPolicy, *indices: int) -> NetworkPolicy:
    """Some members of a stacked policy, still stacked."""
    chosen = jnp.array(indices, jnp.int32)
    return jax.tree.map(lambda x: x[chosen], policies)


def save_population(path: Path, population: Population, metadata: dict[str, Any]) -> None:
    """Write both stacks; tensors are called `best_responses.0.weight` and so on, with a leading axis of members."""
    tensors = {
        name: np.asarray(tensor)
        for role, policies in population._asdict().items()
        for name, tensor in named_layers(role, policies.mlp).items()
    }
    save_tensors(path, tensors, {"format": FORMAT, **kind_of(population.teammates.mlp), **metadata})


def load_population(path: str | Path) -> tuple[Population, dict[str, Any]]:
    """Read what `save_population` wrote, and its metadata."""
    path = Path(path)
    tensors, metadata = load_tensors(path)
    if metadata.get("format") != FORMAT:
        raise DamagedFile(f"{path} holds '{metadata.get('format')}' where '{FORMAT}' was expected.")
    waves = bool(metadata.get(WAVES))
    roles = [_checked_layers(path, role, tensors, waves=waves) for role in Population._fields]
    population = Population(*(NetworkPolicy(layers) for layers in roles))
    if len({policies.mlp.weights[0].shape[0] for policies in population}) > 1:
        raise DamagedFile(f"{path} holds populations of different sizes.")
    return population, metadata


def _checked_layers(path: Path, role: str, tensors: dict[str, np.ndarray], *, waves: bool) -> MLP:
    try:
        weights, biases = layer_tensors(role, tensors)
    except KeyError as error:
        raise DamagedFile(f"{path} lacks the tensor {error}.") from error
    shapes_fit = len(weights) > 0 and all(
        w.ndim == 3 and b.shape == (w.shape[0], w.shape[2]) and w.dtype == b.dtype == jnp.float32
        for w, b in zip(weights, biases, strict=True)
    )
    chained = shapes_fit and all((a.shape[0], a.shape[2]) == b.shape[:2] for a, b in pairwise(weights))
    if not chained:
        raise DamagedFile(f"{path} holds layers of {role} whose shapes do not fit together.")
    return MLP(weights, biases, waves)
