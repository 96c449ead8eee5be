"""The layout of a pair grid in plain words, for tests that look into its arrays."""

from coverset.teammates.pair_grid import PairGrid


def pair_of(grid: PairGrid, row: int, place: int) -> tuple[int, int]:
    """Best response and teammate of one environment, as the module says."""
    in_cells = place < grid.columns * grid.per_pair
    return row, place // grid.per_pair if in_cells else row
