"""Policies as named tensors: one way to save every network and every policy.

A tensor is called by its place in the tree, `teammates.weights.0`. Loading builds the tree without its numbers (a
template), from what the file's metadata say of it, and fills in the tensors; a file whose tensors do not fit its
template is damaged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import describe_exception, format_value
from coverset.policies.network import NETWORKS, Network, NetworkSpec
from coverset.policies.team import build_network
from coverset.runs.storage import DamagedFile, check_fields
from coverset.runs.trust import check_trusted
from coverset.settings import build_checked
from coverset.types import PyTree

LARGEST_SIZE = 2**24
MOST_LAYERS = 64


def named_tensors(role: str, tree: PyTree) -> dict[str, np.ndarray]:
    """Every array of a tree under its name."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(role, path): np.asarray(leaf) for path, leaf in leaves}


def fill_template(path: Path, role: str, tensors: Mapping[str, np.ndarray], template: PyTree) -> PyTree:
    """The tree that `named_tensors` took apart; `template` holds the shapes and types of its arrays."""
    places, structure = jax.tree_util.tree_flatten_with_path(template)
    wanted = {_name(role, place): leaf for place, leaf in places}
    for name in tensors:
        if name.partition(".")[0] == role and name not in wanted:
            raise DamagedFile(
                f"{path} holds the tensor {format_value(name)}, which the network that it describes does not have."
            )
    return jax.tree.unflatten(structure, [_fitting_tensor(path, name, tensors, leaf) for name, leaf in wanted.items()])


def fill_stacked(path: Path, role: str, tensors: Mapping[str, np.ndarray], template: PyTree) -> PyTree:
    """The same where every tensor has a leading axis of members, whose number the file decides."""
    first = _name(role, jax.tree_util.tree_leaves_with_path(template)[0][0])
    if first not in tensors:
        raise DamagedFile(f"{path} lacks the tensor '{first}'.")
    members = tensors[first].shape[:1]
    if members == () or members[0] < 1:
        raise DamagedFile(f"{path} holds no members of {role}.")
    stacked = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*members, *leaf.shape), leaf.dtype), template)
    return fill_template(path, role, tensors, stacked)


def check_roles(path: Path, tensors: Mapping[str, np.ndarray], roles: Sequence[str]) -> None:
    """Raise DamagedFile unless every tensor of a file belongs to one of the roles and is finite."""
    for name, tensor in tensors.items():
        if name.partition(".")[0] not in roles:
            raise DamagedFile(f"{path} holds the tensor {format_value(name)}, which belongs to nothing that was saved.")
        if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
            raise DamagedFile(f"{path} holds weights that are not finite in {name}.")


def _name(role: str, path: Sequence[Any]) -> str:
    place = jax.tree_util.keystr(tuple(path), simple=True, separator=".")
    return f"{role}.{place}" if place else role


def _fitting_tensor(path: Path, name: str, tensors: Mapping[str, np.ndarray], wanted: Any) -> jax.Array:
    if name not in tensors:
        raise DamagedFile(f"{path} lacks the tensor '{name}'.")
    found = tensors[name]
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        raise DamagedFile(
            f"{path} holds {name} as {found.dtype}{list(found.shape)}, where {wanted.dtype}{list(wanted.shape)} "
            "was expected."
        )
    return jnp.asarray(found)


def read_seats(path: Path, metadata: Mapping[str, Any]) -> tuple[int, bool]:
    """How many seats the game of a file has, and whether it has illegal actions: what `describe_seats` gave.

    Files from before games of more players and legal actions say neither.
    """
    known = {"num_seats": 2, "masked": False, **metadata}
    check_fields(path, known, num_seats=int, masked=bool)
    if known["num_seats"] < 2:
        raise DamagedFile(f"{path} is damaged: num_seats must be at least 2, got {known['num_seats']}.")
    return known["num_seats"], known["masked"]


def network_record(kind: str, spec: NetworkSpec) -> dict[str, Any]:
    """What a file's metadata say of a network."""
    return {"kind": kind, **asdict(spec)}


def read_network_template(path: Path, metadata: Mapping[str, Any], record: Any) -> tuple[Network, NetworkSpec]:
    """A network without its numbers, and its specification, from what `network_record` gave.

    Args:
      path: the file, for messages.
      metadata: all of the file's metadata, which decide whether a class that is not built in may be imported.
      record: the network's part of them.

    Raises:
      ValueError: the class is not built in, and the user does not trust it.
    """
    if not isinstance(record, Mapping):
        raise DamagedFile(f"{path} is damaged: a network must be described by an object, got {format_value(record)}.")
    check_fields(
        path,
        dict(record),
        kind=str,
        input_shape=tuple[int, ...],
        num_outputs=int,
        hidden_sizes=tuple[int, ...],
        memory_size=int,
        fourier_bandwidth=float,
        head_scale=float,
        num_seats=int,
        separate_seats=bool,
    )
    values: dict[str, Any] = {name: record[name] for name in NetworkSpec.__dataclass_fields__}
    spec = build_checked(NetworkSpec, values)
    sizes = (*spec.input_shape, spec.num_outputs, *spec.hidden_sizes, spec.memory_size, spec.num_seats)
    if len(sizes) > MOST_LAYERS or min(sizes) < 1 or max(sizes) > LARGEST_SIZE:
        raise DamagedFile(f"{path} describes a network of sizes {format_value(sizes)}.")
    kind: str = record["kind"]
    if kind not in NETWORKS:
        check_trusted(str(path), metadata)
    return build_template(path, lambda: build_network(kind, jax.random.key(0), spec)), spec


def build_template(path: Path, build: Callable[[], Any]) -> Any:
    """What `build` returns, with the shapes and types of its arrays only; nothing is computed."""
    try:
        return jax.eval_shape(build)
    except DamagedFile:
        raise
    except Exception as error:  # sizes that make no network, or the fault of a class from outside
        raise DamagedFile(f"{path} describes a policy that cannot be built ({describe_exception(error)}).") from error
