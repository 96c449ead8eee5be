"""Policies of one class as one policy whose arrays have a leading axis of members."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from coverset.policy import Policy

P = TypeVar("P", bound=Policy)


def stack(policies: Sequence[Policy]) -> Policy:
    """Stack policies that differ in arrays alone."""
    for other in policies[1:]:
        if jax.tree.structure(other) != jax.tree.structure(policies[0]):
            raise ValueError(
                "heuristics that are played with together must be of one class and differ in arrays alone, "
                f"got {_class_name(policies[0])} and {_class_name(other)}: name them one by one."
            )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies)


def _class_name(policy: Policy) -> str:
    """The class of a policy, or of the one that it wraps in order to check it."""
    return type(getattr(policy, "policy", policy)).__name__


def group_alike(policies: Mapping[str, Policy | tuple[Policy, ...]]) -> list[list[str]]:
    """Names of policies, or of teams, in groups whose members differ in arrays alone, so that each can be stacked."""
    groups: list[tuple[Any, list[str]]] = []
    for name, policy in policies.items():
        arrays, rest = eqx.partition(policy, eqx.is_array)
        kind = (rest, jax.tree.structure(arrays), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays)])
        for known, names in groups:
            if eqx.tree_equal(kind[0], known[0]) is True and kind[1:] == known[1:]:
                names.append(name)
                break
        else:
            groups.append((kind, [name]))
    return [names for _, names in groups]


def take_member(policies: P, index: int) -> P:
    """One member of a stacked policy."""
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, policies)


def count_members(policies: Policy) -> int:
    """How many members a stacked policy has."""
    return next(x for x in jax.tree.leaves(policies) if eqx.is_array(x)).shape[0]
