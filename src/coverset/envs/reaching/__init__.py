"""Cooperative Reaching and Weighted Cooperative Reaching: everything that belongs to them."""

from coverset.envs.reaching.dynamics import CORNERS, MOVES, SAME_CORNER, WEIGHTED, Reaching, ReachingState

__all__ = ["CORNERS", "MOVES", "SAME_CORNER", "WEIGHTED", "Reaching", "ReachingState"]
