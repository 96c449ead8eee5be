"""The K matched pairs as one object: stacked parameters, saved and loaded without running anybody's code."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import format_value
from coverset.policies.layers import check_tensors, kind_of, named_layers, read_kind, read_layers
from coverset.policies.networks import NetworkPolicy
from coverset.runs.storage import DamagedFile, check_fields, load_tensors, save_tensors

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
    check_format(path, metadata, FORMAT)
    check_tensors(path, tensors, Population._fields, ())
    waves = read_kind(path, metadata)
    roles = (read_layers(path, role, tensors, stacked=True, waves=waves) for role in Population._fields)
    population = Population(*map(NetworkPolicy, roles))
    if len({policies.mlp.weights[0].shape[0] for policies in population}) > 1:
        raise DamagedFile(f"{path} holds populations of different sizes.")
    return population, metadata


def check_format(path: Path, metadata: dict[str, Any], wanted: str) -> None:
    """Raise DamagedFile unless a file's metadata are of this format, and say for which environment it was made."""
    if metadata.get("format") != wanted:
        raise DamagedFile(f"{path} holds {format_value(metadata.get('format'))} where '{wanted}' was expected.")
    check_fields(path, metadata, env=str, env_parameters=dict)
