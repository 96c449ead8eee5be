"""Random bimatrix games with exact coverage sets, to compare learned sets with."""

import numpy as np

from coverset.solver import Game, game_from_players, solve


def random_bimatrix(seed: int, rows: int, columns: int) -> Game:
    """A general-sum game of two players with integer payoffs from -9 to 9, which float32 represents exactly."""
    tables = np.random.default_rng(seed).integers(-9, 10, (2, rows, columns))
    return game_from_players(list(tables), name=f"bimatrix {seed}")


def exact_conventions(game: Game) -> tuple[int, ...]:
    """Ego actions of the minimum coverage set."""
    return solve(game).coverage_set
