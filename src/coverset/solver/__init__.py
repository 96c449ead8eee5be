"""Exact coverage sets and diversity objectives of finite games."""

from coverset.solver.coverage import Member, NonMember, Solution, Teams, Undecided, coverage_set_in_float32, solve
from coverset.solver.diversity import (
    Affine,
    AlphaInterval,
    Preference,
    PurePopulation,
    alpha_intervals,
    brdiv,
    coverage_cross_play,
    lipo,
    preferred_populations,
)
from coverset.solver.games import Game, built_in_games, game_from_players, game_from_table, load
from coverset.solver.zero_sum import UndecidedError

__all__ = [
    "Affine",
    "AlphaInterval",
    "Game",
    "Member",
    "NonMember",
    "Preference",
    "PurePopulation",
    "Solution",
    "Teams",
    "Undecided",
    "UndecidedError",
    "alpha_intervals",
    "brdiv",
    "built_in_games",
    "coverage_cross_play",
    "coverage_set_in_float32",
    "game_from_players",
    "game_from_table",
    "lipo",
    "load",
    "preferred_populations",
    "solve",
]
