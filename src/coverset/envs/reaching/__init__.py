"""Cooperative Reaching and Weighted Cooperative Reaching: dynamics, heuristics, oracles and board."""

from coverset.envs.reaching.dynamics import CORNERS, MOVES, SAME_CORNER, WEIGHTED, Reaching, ReachingState

__all__ = ["CORNERS", "MOVES", "SAME_CORNER", "WEIGHTED", "Reaching", "ReachingState"]
