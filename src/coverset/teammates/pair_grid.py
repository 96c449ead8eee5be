"""The pair grid: which best response meets which teammate in which environment.

Cell (i, j) holds the environments in which best response i plays with teammate j. A row's environments share one best
response and a column's one teammate, so all best responses act in one batched matrix product over rows, and all
teammates in one over columns; nothing is gathered per environment. Cells are fixed: a stratified version of the uniform
draw of pairs in Algorithm 1 in which no partner changes in the middle of an episode.

Arrays over environments have leading axes [R, B], best responses first: row i holds C cells of `per_pair` environments,
then, on a square grid, `extra_self_play` further environments of cell (i, i). Methods of the paper use a square grid,
R = C = K.

The *teams* of a row are what its best response meets: here each is one teammate, which plays every seat but the ego's.
`mixed_grid` adds teams of two teammates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped


@dataclass(frozen=True)
class PairGrid:
    """Sizes of the grid, and the ways to look at an array that is laid out on it."""

    rows: int
    """R, the number of best responses."""
    columns: int
    """C, the number of teammates."""
    per_pair: int
    extra_self_play: int = 0

    def __post_init__(self) -> None:
        if self.extra_self_play and self.rows != self.columns:
            raise ValueError(
                "extra_self_play must be 0 where best responses and teammates differ in number, "
                f"got {self.extra_self_play} for {self.rows} and {self.columns}."
            )

    @property
    def row_size(self) -> int:
        """B, the number of environments in which one best response acts."""
        return self.columns * self.per_pair + self.extra_self_play

    @property
    def column_size(self) -> int:
        """The number of environments in which one teammate acts."""
        return self.rows * self.per_pair + self.extra_self_play

    @property
    def num_teams(self) -> int:
        """Columns of a matrix over teams."""
        return self.columns

    @property
    def cells_per_row(self) -> int:
        """Cells that hold environments of one best response."""
        return self.columns

    @property
    def num_envs(self) -> int:
        """Environments of the whole grid."""
        return self.rows * self.row_size

    def best_responses(self) -> Int[Array, "R B"]:
        """Index i of every environment's best response."""
        return jnp.broadcast_to(jnp.arange(self.rows)[:, None], (self.rows, self.row_size))

    def teammates(self) -> Int[Array, "R B"]:
        """Index j of every environment's teammate."""
        indices = jnp.broadcast_to(jnp.arange(self.columns)[:, None], (self.columns, self.column_size))
        return self.by_best_response(indices)

    def teams(self) -> Int[Array, "R B"]:
        """Index of every environment's team."""
        return self.teammates()

    def by_teammate(self, rows: Shaped[Array, "R B ..."]) -> Shaped[Array, "C D ..."]:
        """The same environments grouped by teammate instead of by best response."""
        return self._transpose(rows, self.rows, self.columns)

    def by_best_response(self, columns: Shaped[Array, "C D ..."]) -> Shaped[Array, "R B ..."]:
        """Inverse of `by_teammate`."""
        return self._transpose(columns, self.columns, self.rows)

    def to_seats(self, rows: Shaped[Array, "R B"], for_team: Callable[[Array], Array]) -> Shaped[Array, "C D *s"]:
        """Each environment's entry for every seat of its team, by teammate; `for_team` adds the axis of seats."""
        return for_team(self.by_teammate(rows))

    def _transpose(self, groups: Array, outer: int, inner: int) -> Array:
        size, n = inner * self.per_pair, self.per_pair
        cells = groups[:, :size].reshape(outer, inner, n, *groups.shape[2:])
        swapped = jnp.swapaxes(cells, 0, 1).reshape(inner, outer * n, *groups.shape[2:])
        return jnp.concatenate([swapped, groups[:, size:]], axis=1) if self.extra_self_play else swapped

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of every matched pair."""
        members = np.arange(min(self.rows, self.columns))
        return members, members

    def is_played(self) -> np.ndarray:
        """Which cells have environments, bool [R, C]: all of them here."""
        return np.ones((self.rows, self.columns), bool)

    def in_self_play(self) -> Bool[Array, "R B"]:
        """Whether a matched pair plays."""
        matched = np.zeros((self.rows, self.num_teams), bool)
        matched[self.pairs()] = True
        return self.spread(jnp.asarray(matched))

    def cell_sums(self, rows: Float[Array, "R B"]) -> Float[Array, "R teams"]:
        """Sum over the environments of each cell."""
        size = self.columns * self.per_pair
        grid = rows[:, :size].reshape(self.rows, self.columns, self.per_pair).sum(axis=-1)
        return grid + jnp.diag(rows[:, size:].sum(axis=-1)) if self.extra_self_play else grid

    def cell_shares(self) -> Float[Array, "R B"]:
        """Factor that weights every cell of a row equally, however many environments it holds.

        The mean of `x * cell_shares()` over a row is the mean over its cells of the cells' means.
        """
        cells = self.cell_sums(jnp.ones((self.rows, self.row_size)))
        return self.row_size / self.cells_per_row / cells[self.best_responses(), self.teams()]

    def importance(self, side: int) -> Float[Array, "R B"] | None:
        """Factor of a side's advantages that makes up for what cells count in the mean; None where there is none."""
        del side

    def spread(self, matrix: Shaped[Array, "R teams"]) -> Shaped[Array, "R B"]:
        """Each environment's entry of a matrix over best responses and teams."""
        return matrix[self.best_responses(), self.teams()]

    def teammate_means(self, rows: Float[Array, "R B"]) -> Float[Array, "C"]:
        """Mean over the environments in which each teammate acts."""
        return self.by_teammate(rows).mean(axis=1)

    def split_teams(self, matrix: Shaped[Any, "R teams"]) -> tuple[Shaped[Any, "R C"], Shaped[Any, "S K K"] | None]:
        """The part of a matrix over teams that is about whole teams, and that about mixed ones, if there are any."""
        return matrix, None

    def join_teams(
        self, pair_matrix: Float[Array, "R C"], mixed: Float[Array, "S K K"] | None
    ) -> Float[Array, "R teams"]:
        """Inverse of `split_teams`."""
        assert mixed is None, "this grid has no mixed teams"
        return pair_matrix
