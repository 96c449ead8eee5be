"""The grid of a growing set: its members, who are frozen, and probes, which look for what the set does not cover.

Rows are the best responses of all members, then those of the probes; columns are the teammates of the probes. All rows
have as many environments: a probe's row has `per_pair` with every probe's teammate and `extra_self_play` further ones
with its own, and a member's row is divided evenly among the probes' teammates.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from coverset.teammates.pair_grid import PairGrid


@dataclass(frozen=True)
class ProbeGrid(PairGrid):
    """`rows` = members + probes, `columns` = probes."""

    def __post_init__(self) -> None:
        assert self.rows > self.columns, "a growing set needs room for members"
        assert self.extra_self_play % self.columns == 0, "a member's environments are divided among the probes"

    @property
    def members(self) -> int:
        """Rows that belong to the set."""
        return self.rows - self.columns

    @property
    def per_member(self) -> int:
        """Environments in which a member plays with each probe's teammate."""
        return self.row_size // self.columns

    @property
    def column_size(self) -> int:
        return self.members * self.per_member + self.row_size

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        probes = np.arange(self.columns)
        return self.members + probes, probes

    def by_teammate(self, rows: Shaped[Array, "R B ..."]) -> Shaped[Array, "C D ..."]:
        with_members = _swap_cells(rows[: self.members], self.columns, self.per_member)
        with_probes = rows[self.members :]
        size = self.columns * self.per_pair
        swapped = _swap_cells(with_probes[:, :size], self.columns, self.per_pair)
        return jnp.concatenate([with_members, swapped, with_probes[:, size:]], axis=1)

    def by_best_response(self, columns: Shaped[Array, "C D ..."]) -> Shaped[Array, "R B ..."]:
        first, second = self.members * self.per_member, self.members * self.per_member + self.columns * self.per_pair
        of_members = _swap_cells(columns[:, :first], self.members, self.per_member)
        swapped = _swap_cells(columns[:, first:second], self.columns, self.per_pair)
        return jnp.concatenate([of_members, jnp.concatenate([swapped, columns[:, second:]], axis=1)])

    def cell_sums(self, rows: Float[Array, "R B"]) -> Float[Array, "R C"]:
        size = self.columns * self.per_pair
        of_members = rows[: self.members].reshape(self.members, self.columns, self.per_member).sum(axis=-1)
        of_probes = rows[self.members :, :size].reshape(self.columns, self.columns, self.per_pair).sum(axis=-1)
        return jnp.concatenate([of_members, of_probes + jnp.diag(rows[self.members :, size:].sum(axis=-1))])

    def cell_shares(self) -> Float[Array, "R B"]:
        """All environments count alike: a probe has as many in self-play whatever the size of the set."""
        return jnp.ones((self.rows, self.row_size))

    def importance(self, side: int) -> Float[Array, "R B"] | None:
        """In a column, self-play has more environments than every other cell by this factor."""
        if side == 0:
            return None
        own = float(self.per_pair + self.extra_self_play)
        factors = np.full((self.rows, self.columns), own / self.per_pair, np.float32)
        factors[: self.members] = own / self.per_member
        factors[self.pairs()] = 1.0
        return self.spread(jnp.asarray(factors))


def _swap_cells(groups: Shaped[Array, "n B ..."], cells: int, size: int) -> Shaped[Array, "cells D ..."]:
    """Groups of `cells` cells of `size` environments each, regrouped by cell."""
    outer, rest = groups.shape[0], groups.shape[2:]
    return jnp.swapaxes(groups.reshape(outer, cells, size, *rest), 0, 1).reshape(cells, outer * size, *rest)
