"""The grid of a growing set: its members, who are frozen, and probes, which look for what the set does not cover.

Rows are the best responses of all members, then those of the probes; columns are the teammates of the probes. A
member plays with every probe's teammate, in `per_pair` environments each. A probe's best response plays with its own
teammate alone, in all environments of its row. So every row has as many environments, and every column has one large
cell of self-play and a small one for each member; cells of two different probes do not exist.
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
        assert not self.extra_self_play, "probes play mostly with themselves"

    @property
    def members(self) -> int:
        """Rows that belong to the set."""
        return self.rows - self.columns

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        probes = np.arange(self.columns)
        return self.members + probes, probes

    def is_played(self) -> np.ndarray:
        return np.concatenate([np.ones((self.members, self.columns), bool), np.eye(self.columns, dtype=bool)])

    def by_teammate(self, rows: Shaped[Array, "R B ..."]) -> Shaped[Array, "C D ..."]:
        by_member = rows[: self.members].reshape(self.members, self.columns, self.per_pair, *rows.shape[2:])
        by_probe = jnp.swapaxes(by_member, 0, 1).reshape(self.columns, -1, *rows.shape[2:])
        return jnp.concatenate([by_probe, rows[self.members :]], axis=1)

    def by_best_response(self, columns: Shaped[Array, "C D ..."]) -> Shaped[Array, "R B ..."]:
        size = self.members * self.per_pair
        by_probe = columns[:, :size].reshape(self.columns, self.members, self.per_pair, *columns.shape[2:])
        by_member = jnp.swapaxes(by_probe, 0, 1).reshape(self.members, -1, *columns.shape[2:])
        return jnp.concatenate([by_member, columns[:, size:]])

    def cell_sums(self, rows: Float[Array, "R B"]) -> Float[Array, "R C"]:
        by_member = rows[: self.members].reshape(self.members, self.columns, self.per_pair).sum(axis=-1)
        return jnp.concatenate([by_member, jnp.diag(rows[self.members :].sum(axis=-1))])

    def cell_shares(self) -> Float[Array, "R B"]:
        """All environments count alike: a probe has as many in self-play whatever the size of the set."""
        return jnp.ones((self.rows, self.row_size))

    def importance(self, side: int) -> Float[Array, "R B"] | None:
        """In a column, a member's cell has one environment where self-play has as many as there are probes."""
        if side == 0:
            return None
        is_member = np.arange(self.rows) < self.members
        return jnp.broadcast_to(jnp.where(is_member, float(self.columns), 1.0)[:, None], (self.rows, self.row_size))
