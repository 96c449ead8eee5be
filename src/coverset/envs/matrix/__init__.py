"""Repeated Matrix Game: everything that belongs to it."""

from coverset.envs.matrix.dynamics import NOT_PLAYED, PAPER_PAYOFFS, MatrixGame, MatrixState

__all__ = ["NOT_PLAYED", "PAPER_PAYOFFS", "MatrixGame", "MatrixState"]
