"""Partners that mix others: in every episode of a trial one of them plays, drawn with the trial's own weights.

    w ~ Dirichlet(c, ..., c) at the start of a trial,    k ~ w at the start of every episode

A pool of pure partners is told apart by one episode with each; a partner whose habit is a distribution is not.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.pool import PartnerPool
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree

LEAST_WEIGHT = 1e-6


class MixtureMemory(NamedTuple):
    """What a mixture carries through a trial."""

    started: Bool[Array, ""]
    log_weights: Float[Array, "K"]
    member: Int[Array, ""]
    """Who plays this episode."""
    memories: tuple[PyTree, ...]
    """What the members remember, all of whom watch."""


class MixturePolicy(Policy):
    """A partner that is somebody else in every episode."""

    pool: PartnerPool
    concentration: Float[Array, "*s"]
    """c: small for partners who are nearly always the same member, 1 for weights uniform on the simplex."""

    def initial_memory(self) -> MixtureMemory:
        size = len(self.pool)
        return MixtureMemory(jnp.bool_(False), jnp.zeros(size), jnp.int32(0), self.pool.initial_memories(1))

    def act(self, key: PRNGKey, percept: Percept, memory: MixtureMemory) -> tuple[Int[Array, ""], MixtureMemory]:
        size = len(self.pool)
        weight_key, member_key, act_key = jax.random.split(key, 3)
        drawn = jax.random.dirichlet(weight_key, jnp.broadcast_to(self.concentration, (size,)))
        log_weights = jnp.where(memory.started, memory.log_weights, jnp.log(drawn + LEAST_WEIGHT))
        chosen = jax.random.categorical(member_key, log_weights).astype(jnp.int32)
        member = jnp.where(percept.first, chosen, memory.member)
        percepts = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, 1, *jnp.shape(x))), percept)
        actions, memories = self.pool.act(jax.random.split(act_key, (size, 1)), percepts, memory.memories)
        return actions[member, 0], MixtureMemory(jnp.bool_(True), log_weights, member, memories)


def add_mixtures(pool: PartnerPool, rows: int, concentration: float) -> PartnerPool:
    """The pool with some rows of mixtures of all its partners behind the others."""
    if not rows:
        return pool
    copies = jax.tree.map(lambda x: jnp.broadcast_to(x, (rows, *x.shape)), PartnerPool(pool.kinds))
    return PartnerPool((*pool.kinds, MixturePolicy(copies, jnp.full(rows, concentration))), pool.answers)
