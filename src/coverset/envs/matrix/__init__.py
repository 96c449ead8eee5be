"""Repeated Matrix Game: dynamics, heuristics, oracle and board."""

from coverset.envs.matrix.dynamics import NOT_PLAYED, PAPER_PAYOFFS, MatrixGame, MatrixState

__all__ = ["NOT_PLAYED", "PAPER_PAYOFFS", "MatrixGame", "MatrixState"]
