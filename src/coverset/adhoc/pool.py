"""A pool of partners of any kinds: stacked populations side by side, each acting in its own block of environments."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from coverset.policies.stacked import count_members
from coverset.policy import Policy
from coverset.types import Percept, PyTree


class PartnerPool(NamedTuple):
    """Partners of one or more kinds; within a kind, arrays are stacked over members.

    Arrays over environments have axes [P, n]: partner p plays in all n environments of row p, kind after kind. As on
    the pair grid, this is a stratified draw of partners, and nothing is gathered.
    """

    kinds: tuple[Policy, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of members of each kind."""
        return tuple(count_members(kind) for kind in self.kinds)

    def __len__(self) -> int:
        return sum(self.sizes)

    def initial_memories(self, per_partner: int) -> tuple[PyTree, ...]:
        """Memories of a fresh trial in every environment, by kind."""
        return tuple(_broadcast(kind.initial_memory(), (size, per_partner)) for kind, size in self._members())

    def act(
        self, keys: Key[Array, "P n"], percepts: Percept, memories: tuple[PyTree, ...]
    ) -> tuple[Int[Array, "P n"], tuple[PyTree, ...]]:
        """Every partner acts in its own row."""
        actions, remembered, start = [], [], 0
        for kind, size, memory in zip(self.kinds, self.sizes, memories, strict=True):
            block = jax.tree.map(lambda x, s=start, e=start + size: x[s:e], (keys, percepts))
            act = eqx.filter_vmap(_act_in_row, in_axes=(eqx.if_array(0), 0, 0, 0))
            action, memory = act(kind, *block, memory)
            actions.append(action.astype(jnp.int32))
            remembered.append(memory)
            start += size
        return jnp.concatenate(actions), tuple(remembered)

    def renew(self, memories: tuple[PyTree, ...], fresh: Array) -> tuple[PyTree, ...]:
        """Clear the memories of environments [P, n] in which a new trial starts."""
        renewed, start = [], 0
        for (kind, size), memory in zip(self._members(), memories, strict=True):
            block = fresh[start : start + size]
            initial = _broadcast(kind.initial_memory(), block.shape)
            renewed.append(jax.tree.map(lambda new, old, b=block: jnp.where(_like(b, old), new, old), initial, memory))
            start += size
        return tuple(renewed)

    def _members(self) -> list[tuple[Policy, int]]:
        return [
            (jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, kind), size)
            for kind, size in zip(self.kinds, self.sizes, strict=True)
        ]


def _act_in_row(policy: Policy, keys, percepts: Percept, memories: PyTree) -> tuple[Int[Array, "n"], PyTree]:
    return jax.vmap(policy.act)(keys, percepts, memories)


def _broadcast(memory: PyTree, shape: tuple[int, ...]) -> PyTree:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), memory)


def _like(flags: Array, values: Array) -> Array:
    return flags.reshape(flags.shape + (1,) * (values.ndim - flags.ndim))
