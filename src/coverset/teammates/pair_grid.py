"""The pair grid: which best response meets which teammate in which environment.

Cell (i, j) holds the environments in which best response i plays with teammate j. A row's environments share one best
response and a column's one teammate, so all K best responses act in one batched matrix product over rows, and all K
teammates in one over columns; nothing is gathered per environment. Cells are fixed: a stratified version of the
uniform draw of pairs in Algorithm 1 in which no partner changes in the middle of an episode.

Arrays over environments have leading axes [K, B], best responses first: row i holds K cells of `per_pair`
environments, then `extra_self_play` further environments of cell (i, i).
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from coverset.types import PairMatrix


@dataclass(frozen=True)
class PairGrid:
    """Sizes of the grid, and the ways to look at an array that is laid out on it."""

    population_size: int
    per_pair: int
    extra_self_play: int

    @property
    def row_size(self) -> int:
        """B, the number of environments in which one policy acts."""
        return self.population_size * self.per_pair + self.extra_self_play

    @property
    def num_envs(self) -> int:
        """Environments of the whole grid."""
        return self.population_size * self.row_size

    def best_responses(self) -> Int[Array, "K B"]:
        """Index i of every environment's best response."""
        return jnp.broadcast_to(jnp.arange(self.population_size)[:, None], (self.population_size, self.row_size))

    def teammates(self) -> Int[Array, "K B"]:
        """Index j of every environment's teammate."""
        return self.by_teammate(self.best_responses())

    def by_teammate(self, rows: Shaped[Array, "K B ..."]) -> Shaped[Array, "K B ..."]:
        """The same environments grouped by teammate instead of by best response; its own inverse."""
        k, n = self.population_size, self.per_pair
        cells = rows[:, : k * n].reshape(k, k, n, *rows.shape[2:])
        columns = jnp.swapaxes(cells, 0, 1).reshape(k, k * n, *rows.shape[2:])
        return jnp.concatenate([columns, rows[:, k * n :]], axis=1)

    def cell_sums(self, rows: Float[Array, "K B"]) -> PairMatrix:
        """Sum over the environments of each cell."""
        k, n = self.population_size, self.per_pair
        grid = rows[:, : k * n].reshape(k, k, n).sum(axis=-1)
        return grid + jnp.diag(rows[:, k * n :].sum(axis=-1))

    def cell_shares(self) -> Float[Array, "K B"]:
        """Factor that gives every cell of a row the same say, however many environments it holds.

        The mean of `x * cell_shares()` over a row is the mean over its cells of the cells' means.
        """
        cells = self.cell_sums(jnp.ones((self.population_size, self.row_size)))
        return self.row_size / self.population_size / cells[self.best_responses(), self.teammates()]

    def spread(self, pair_matrix: PairMatrix) -> Float[Array, "K B"]:
        """Each environment's entry of a matrix over pairs."""
        return pair_matrix[self.best_responses(), self.teammates()]
