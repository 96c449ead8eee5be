"""The best expected return with each heuristic, computed rather than trained; docs/oracles.md has the values.

The agent that these are about knows which heuristic it plays with, but is in every other way one of ours: it does not
see the partner's hidden place nor its private draw. What it knows it knows from the first step on, so what an ad hoc
agent spends on finding out is part of the distance between them.
"""

from coverset.envs.base import Environment
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.evaluation.oracles import foraging, matrix, reaching
from coverset.evaluation.oracles.base import Oracle
from coverset.policies.base import Policy
from coverset.policies.scripted import CornerWalker, MixedAction, ObjectCollector, heuristics

__all__ = ["Oracle", "best_response", "oracles"]


def oracles(environment: Environment, seat: int = 0) -> dict[str, Oracle]:
    """An oracle for each of `heuristics(environment)`, for an agent in `seat`; none where there are no heuristics."""
    return {name: best_response(environment, partner, seat) for name, partner in heuristics(environment).items()}


def best_response(environment: Environment, partner: Policy, seat: int = 0) -> Oracle:
    """The oracle for one partner of a scripted kind, with any chances of its own; `seat` is the agent's."""
    if seat not in (0, 1):
        raise ValueError(f"seat must be 0 or 1, got {seat}.")
    match environment, partner:
        case MatrixGame(), MixedAction():
            return matrix.solve(environment, partner, seat)
        case Reaching(), CornerWalker():
            return reaching.solve(environment, partner, seat)
        case Foraging(), ObjectCollector():
            return foraging.solve(environment, partner, seat)
        case _:
            raise TypeError(
                "partner must be a scripted policy of the environment's own kind, "
                f"got {type(partner).__name__} for {type(environment).__name__}."
            )
