"""Teams of partners in games of three or more players: whole teams of one partner, and mixed ones.

Partner p plays in all environments of row p. With several seats it plays all of them there, except in the last
environments of the row, where every seat after the first is taken by another partner: in seat k of environment e by
partner p + (e + 1) k, counted on from the last to the first. For each seat and environment this only shifts the rows,
so every partner still acts in one block.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from coverset.adhoc.pool import PartnerPool
from coverset.types import Percept, PyTree


class Teams(NamedTuple):
    """Who plays which seat of which environment. Arrays have axes [P, n], and a third of seats if there are several."""

    num_partners: int
    num_envs: int
    """Environments of each row."""
    num_seats: int
    num_mixed: int
    """How many of them, the last, have mixed teams."""

    @property
    def is_whole(self) -> np.ndarray:
        """Which environments of a row have a team of one partner, [n]."""
        return np.arange(self.num_envs) < self.num_envs - self.num_mixed

    def initial_memories(self, pool: PartnerPool) -> tuple[PyTree, ...]:
        """Memories of a fresh trial, as `act` keeps them: by partner."""
        return pool.initial_memories(self.num_envs * self.num_seats)

    def act(
        self, pool: PartnerPool, keys: Array, percepts: Percept, memories: tuple[PyTree, ...]
    ) -> tuple[Int[Array, "P n *s"], tuple[PyTree, ...]]:
        """What the partners do in every seat."""
        if self.num_seats == 1:
            return pool.act(keys, percepts, memories)
        keys, percepts = jax.tree.map(self._by_partner, (keys, percepts))
        actions, memories = pool.act(keys, percepts, memories)
        return self._by_environment(actions), memories

    def renew(self, pool: PartnerPool, memories: tuple[PyTree, ...], fresh: Array) -> tuple[PyTree, ...]:
        """Clear the memories of environments [P, n] in which a new trial starts."""
        if self.num_seats == 1:
            return pool.renew(memories, fresh)
        return pool.renew(memories, self._by_partner(jnp.broadcast_to(fresh[..., None], self._shape)))

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.num_partners, self.num_envs, self.num_seats

    def _rows(self, sign: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The index of every entry after shifting rows, forwards or backwards."""
        row, env, seat = np.indices(self._shape)
        shift = np.where(self.is_whole[env], 0, (env + 1) * seat)
        return (row + sign * shift) % self.num_partners, env, seat

    def _by_partner(self, values: Array) -> Array:
        """[P, n, S, ...] by environment -> [P, n S, ...] by the partner that plays."""
        shifted = values[self._rows(-1)] if self.num_mixed else values
        return shifted.reshape(self.num_partners, -1, *values.shape[3:])

    def _by_environment(self, values: Array) -> Array:
        """Inverse of `_by_partner`."""
        apart = values.reshape(*self._shape, *values.shape[2:])
        return apart[self._rows(1)] if self.num_mixed else apart


def make_teams(num_partners: int, num_envs: int, num_seats: int, mixed_share: float) -> Teams:
    """Teams for a game with so many seats for partners; mixed ones need two seats and two partners."""
    several = num_seats > 1 and num_partners > 1
    return Teams(num_partners, num_envs, num_seats, round(mixed_share * num_envs) if several else 0)
