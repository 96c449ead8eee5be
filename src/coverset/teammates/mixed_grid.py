"""The pair grid with mixed teams: best responses also meet their own team with one seat taken by another teammate.

Row i of the pair grid is followed by its mixed cells. In cell (i, s, k), k != i, teammate k takes seat s of the team
and teammate i all other seats, in `per_mixed_team` environments. Environments are ordered by the step from i to k,
1 to K - 1, counted on from the last teammate to the first, then by seat. For each seat and step this only shifts rows,
so that every teammate still acts in one block: in every seat it takes part in as many mixed environments as a row has.

A matrix over teams has K columns of whole teams, then K for each seat: column K + s K + k of row i is cell (i, s, k).
No environment belongs to k = i.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from coverset.teammates.pair_grid import PairGrid


@dataclass(frozen=True, kw_only=True)
class MixedGrid(PairGrid):
    """Arrays that `by_teammate` regroups have a third axis, of the team's seats."""

    num_seats: int
    """S, seats of the team."""
    per_mixed_team: int

    def __post_init__(self) -> None:
        if self.num_seats < 2:
            raise ValueError(
                "envs_per_mixed_team must be 0 in games of two players, where a team has one seat, "
                f"got {self.per_mixed_team}."
            )
        if self.rows != self.columns:
            raise ValueError(
                "envs_per_mixed_team must be 0 where best responses and teammates differ in number, "
                f"got {self.per_mixed_team} for {self.rows} and {self.columns}."
            )

    @property
    def whole_size(self) -> int:
        """Environments of a row with whole teams."""
        return super().row_size

    @property
    def mixed_size(self) -> int:
        """Environments of a row with mixed teams."""
        return (self.rows - 1) * self.num_seats * self.per_mixed_team

    @property
    def row_size(self) -> int:
        return self.whole_size + self.mixed_size

    @property
    def column_size(self) -> int:
        return super().column_size + self.mixed_size

    @property
    def num_teams(self) -> int:
        return self.columns * (1 + self.num_seats)

    @property
    def cells_per_row(self) -> int:
        return self.columns + (self.columns - 1) * self.num_seats

    def teammates(self) -> Int[Array, "R B"]:
        """Index of every environment's teammate; in mixed teams, of the one that has all seats but one."""
        own = jnp.broadcast_to(jnp.arange(self.rows)[:, None], (self.rows, self.mixed_size))
        return jnp.concatenate([self._whole().teammates(), own], axis=1)

    def teams(self) -> Int[Array, "R B"]:
        steps, seats = self._substitutes()
        substitutes = (np.arange(self.rows)[:, None] + steps[None]) % self.rows
        mixed = self.columns * (1 + seats[None]) + substitutes
        return jnp.concatenate([self._whole().teammates(), jnp.asarray(mixed, jnp.int32)], axis=1)

    def by_teammate(self, rows: Shaped[Array, "K B S ..."]) -> Shaped[Array, "K D S ..."]:
        """The same seats of the same environments grouped by the teammate that plays."""
        whole, mixed = rows[:, : self.whole_size], rows[:, self.whole_size :]
        return jnp.concatenate([self._whole().by_teammate(whole), mixed[self._shifted_rows(-1)]], axis=1)

    def by_best_response(self, columns: Shaped[Array, "K D S ..."]) -> Shaped[Array, "K B S ..."]:
        whole, mixed = columns[:, : self.whole_size], columns[:, self.whole_size :]
        return jnp.concatenate([self._whole().by_best_response(whole), mixed[self._shifted_rows(1)]], axis=1)

    def to_seats(self, rows: Shaped[Array, "R B"], for_team: Callable[[Array], Array]) -> Shaped[Array, "K D S"]:
        return self.by_teammate(for_team(rows))

    def cell_sums(self, rows: Float[Array, "R B"]) -> Float[Array, "R teams"]:
        shape = (self.rows, self.rows - 1, self.num_seats, self.per_mixed_team)
        by_step = rows[:, self.whole_size :].reshape(shape).sum(axis=-1)
        by_step = jnp.concatenate([jnp.zeros_like(by_step[:, :1]), by_step], axis=1)
        row, seat, substitute = np.indices((self.rows, self.num_seats, self.rows))
        mixed = by_step[row, (substitute - row) % self.rows, seat]
        whole = self._whole().cell_sums(rows[:, : self.whole_size])
        return jnp.concatenate([whole, mixed.reshape(self.rows, -1)], axis=1)

    def importance(self, side: int) -> Float[Array, "R B"]:
        """Mixed teams are further terms of the objective: they do not make self-play count less."""
        del side
        return jnp.full((self.rows, self.row_size), self.cells_per_row / self.columns)

    def teammate_means(self, rows: Float[Array, "R B"]) -> Float[Array, "C"]:
        by_seat = jnp.broadcast_to(rows[..., None], (*rows.shape, self.num_seats))
        return self.by_teammate(by_seat).mean(axis=(1, 2))

    def split_teams(self, matrix: Shaped[Any, "R teams"]) -> tuple[Shaped[Any, "R C"], Shaped[Any, "S K K"]]:
        mixed = matrix[:, self.columns :].reshape(self.rows, self.num_seats, self.columns)
        return matrix[:, : self.columns], mixed.swapaxes(0, 1)

    def join_teams(
        self, pair_matrix: Float[Array, "R C"], mixed: Float[Array, "S K K"] | None
    ) -> Float[Array, "R teams"]:
        if mixed is None:
            mixed = jnp.zeros((self.num_seats, *pair_matrix.shape))
        return jnp.concatenate([pair_matrix, mixed.swapaxes(0, 1).reshape(self.rows, -1)], axis=1)

    def _whole(self) -> PairGrid:
        """The part of the grid in which whole teams play."""
        return PairGrid(self.rows, self.columns, self.per_pair, self.extra_self_play)

    def _substitutes(self) -> tuple[np.ndarray, np.ndarray]:
        """Step from its teammate to the other one, and the seat that is taken, of every mixed environment of a row."""
        step, seat, _ = np.indices((self.rows - 1, self.num_seats, self.per_mixed_team))
        return 1 + step.reshape(-1), seat.reshape(-1)

    def _shifted_rows(self, sign: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The index of every entry [K, M, S] after shifting rows, from best responses to teammates or back."""
        steps, seats = self._substitutes()
        row, env, seat = np.indices((self.rows, self.mixed_size, self.num_seats))
        shift = np.where(seats[env] == seat, steps[env], 0)
        return (row + sign * shift) % self.rows, env, seat


def add_mixed_teams(grid: PairGrid, num_seats: int, per_mixed_team: int) -> MixedGrid:
    """The same grid with mixed teams of so many seats."""
    size = (grid.rows, grid.columns, grid.per_pair, grid.extra_self_play)
    return MixedGrid(*size, num_seats=num_seats, per_mixed_team=per_mixed_team)
