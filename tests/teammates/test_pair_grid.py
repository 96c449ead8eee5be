"""The pair grid against loops over its environments."""

import jax.numpy as jnp
import numpy as np
import pytest

from coverset.teammates.pair_grid import PairGrid
from grids import pair_of

GRIDS = [PairGrid(3, 3, 2), PairGrid(3, 3, 2, 4), PairGrid(2, 2, 1, 1), PairGrid(3, 2, 2), PairGrid(1, 4, 3)]


def cell_means(grid: PairGrid, rows: np.ndarray) -> np.ndarray:
    cells: dict[tuple[int, int], list[float]] = {}
    for place in np.ndindex(*rows.shape):
        cells.setdefault(pair_of(grid, *place), []).append(float(rows[place]))
    return np.array([[np.mean(cells[i, j]) for j in range(grid.columns)] for i in range(grid.rows)])


@pytest.fixture(params=GRIDS, ids=str)
def grid(request) -> PairGrid:
    return request.param


@pytest.fixture
def rows(grid: PairGrid) -> np.ndarray:
    shape = (grid.rows, grid.row_size)
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_every_environment_knows_its_pair(grid: PairGrid) -> None:
    best_responses, teammates = np.asarray(grid.best_responses()), np.asarray(grid.teammates())
    for place in np.ndindex(grid.rows, grid.row_size):
        assert (best_responses[place], teammates[place]) == pair_of(grid, *place)
    assert grid.num_envs == grid.rows * (grid.columns * grid.per_pair + grid.extra_self_play)


def test_grouping_by_best_response_undoes_grouping_by_teammate(grid: PairGrid, rows: np.ndarray) -> None:
    wide = jnp.stack([jnp.asarray(rows), -jnp.asarray(rows)], axis=-1)
    grouped = grid.by_teammate(wide)
    assert grouped.shape == (grid.columns, grid.column_size, 2)
    np.testing.assert_array_equal(grid.by_best_response(grouped), wide)


def test_grouping_by_teammate_puts_each_environment_in_its_teammates_row(grid: PairGrid) -> None:
    shape = (grid.rows, grid.row_size)
    names = np.arange(np.prod(shape)).reshape(shape)
    grouped = np.asarray(grid.by_teammate(jnp.asarray(names)))
    for teammate in range(grid.columns):
        own = [names[place] for place in np.ndindex(*shape) if pair_of(grid, *place)[1] == teammate]
        assert sorted(grouped[teammate]) == sorted(own)


def test_cell_sums_equal_a_loop(grid: PairGrid, rows: np.ndarray) -> None:
    wanted = np.zeros((grid.rows, grid.columns))
    for place in np.ndindex(*rows.shape):
        wanted[pair_of(grid, *place)] += rows[place]
    np.testing.assert_allclose(grid.cell_sums(jnp.asarray(rows)), wanted, atol=1e-5)


def test_shares_weight_every_cell_equally_in_rows_and_in_columns(grid: PairGrid, rows: np.ndarray) -> None:
    shared = rows * np.asarray(grid.cell_shares())
    means = cell_means(grid, rows)
    np.testing.assert_allclose(shared.mean(axis=1), means.mean(axis=1), atol=1e-5)
    by_teammate = np.asarray(grid.by_teammate(jnp.asarray(shared)))
    np.testing.assert_allclose(by_teammate.mean(axis=1), means.mean(axis=0), atol=1e-5)


def test_spread_gives_each_environment_its_pairs_entry(grid: PairGrid) -> None:
    size = (grid.rows, grid.columns)
    spread = np.asarray(grid.spread(jnp.arange(np.prod(size), dtype=jnp.float32).reshape(size)))
    for place in np.ndindex(grid.rows, grid.row_size):
        i, j = pair_of(grid, *place)
        assert spread[place] == i * grid.columns + j


def test_a_grid_that_is_not_square_has_no_extra_self_play() -> None:
    with pytest.raises(ValueError, match=r"extra_self_play must be 0 where .* differ in number, got 4 for 3 and 2\.$"):
        PairGrid(3, 2, 1, 4)
