"""Repeated Matrix Game: dynamics, heuristics, oracle and board."""

from coverset.envs.matrix.dynamics import (
    MATCHING_PENNIES,
    NOT_PLAYED,
    PAPER_PAYOFFS,
    ROCK_PAPER_SCISSORS,
    MatrixGame,
    MatrixState,
)

__all__ = ["MATCHING_PENNIES", "NOT_PLAYED", "PAPER_PAYOFFS", "ROCK_PAPER_SCISSORS", "MatrixGame", "MatrixState"]
