"""A pool of partners of any kinds: stacked populations side by side, each acting in its own block of environments."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from coverset.policies.actor import ActorPolicy
from coverset.policies.stacked import count_members, take_member
from coverset.policy import Policy
from coverset.types import Percept, PyTree


class PartnerPool(NamedTuple):
    """Partners of one or more kinds; within a kind, arrays are stacked over members.

    Arrays over environments have axes [P, n]: partner p plays in all n environments of row p, kind after kind. As on
    the pair grid, this is a stratified draw of partners, and nothing is gathered.
    """

    kinds: tuple[Policy, ...]
    answers: tuple[ActorPolicy | None, ...] = ()
    """Best responses to the members of each kind, stacked alike; None for a kind, or none at all, if not known."""

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

    def answer_memories(self, per_partner: int) -> tuple[PyTree, ...]:
        """Memories of the best responses in every environment, by kind."""
        return tuple(
            () if answer is None else _broadcast(take_member(answer, 0).initial_memory(), (size, per_partner))
            for answer, size in zip(self.answers, self.sizes, strict=False)
        )

    def answer(
        self, percepts: Percept, memories: tuple[PyTree, ...], num_actions: int
    ) -> tuple[Float[Array, "P n a"], tuple[PyTree, ...]]:
        """With which probabilities the best response to each row's partner acts where the agent is, zeros if unknown.

        A best response's memory lasts for an episode and is cleared by itself.
        """
        probabilities, remembered, start = [], [], 0
        for answer, size, memory in zip(self.answers, self.sizes, memories, strict=False):
            block = jax.tree.map(lambda x, s=start, e=start + size: x[s:e], percepts)
            if answer is None:
                probabilities.append(jnp.zeros((*block.first.shape, num_actions)))
            else:
                read = eqx.filter_vmap(_answer_in_row, in_axes=(eqx.if_array(0), 0, 0))
                logits, memory = read(answer, block, memory)
                probabilities.append(jax.nn.softmax(logits))
            remembered.append(memory)
            start += size
        missing = jnp.zeros((len(self) - start, percepts.first.shape[1], num_actions))
        return jnp.concatenate([*probabilities, missing]), tuple(remembered)

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


def _answer_in_row(answer: ActorPolicy, percepts: Percept, memories: PyTree) -> tuple[Float[Array, "n a"], PyTree]:
    return jax.vmap(answer.logits)(percepts, memories)


def _broadcast(memory: PyTree, shape: tuple[int, ...]) -> PyTree:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), memory)


def _like(flags: Array, values: Array) -> Array:
    return flags.reshape(flags.shape + (1,) * (values.ndim - flags.ndim))
