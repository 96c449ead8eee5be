"""What agents share that choose among generated best responses: checks, networks, and histograms of returns."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from coverset.adhoc.learner import AgentSpec, AgentWorld
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.policies.actor import ActorPolicy
from coverset.policies.team import build_networks
from coverset.types import PRNGKey

EDGE_SLACK = 1e-3
"""By how much the outermost bins reach beyond the returns that were simulated."""


class ReturnModel(NamedTuple):
    """Returns of every best response with every teammate, as simulated; rows best responses."""

    edges: Float[np.ndarray, "b"]
    """Inner edges of the bins."""
    probabilities: Float[np.ndarray, "K K bins"]
    """P(bin of an episode's return | best response, teammate)."""
    means: Float[np.ndarray, "K K"]
    low: float
    high: float


def build_library(key: PRNGKey, spec: AgentSpec) -> ActorPolicy:
    """Best responses of the right shapes, without their numbers."""
    half = spec.best_responses
    assert half is not None, "the learner needs_population, so that its specification has the best responses"
    networks = build_networks(half.kind, jax.random.split(key, half.size), half.network)
    return ActorPolicy(networks, half.kind, half.network)


def count_pairs(name: str, world: AgentWorld) -> int:
    """The number of pairs; raises unless every teammate has a best response that fits the agent's seat."""
    halves = world.spec.best_responses, world.spec.teammates
    rows, columns = (half.size if half else 0 for half in halves)
    if rows != columns:
        raise ValueError(
            f"{name} needs one best response to every teammate, got {rows} best responses and {columns} teammates."
        )
    if world.seat != 0 and not world.environment.seats_alike:
        raise ValueError(
            f"{name} plays best responses, which belong in seat 0, got seat {world.seat} of a game whose seats "
            "are not alike: choose another learner, such as `learner='rl2'`."
        )
    return rows * columns


def simulate_returns(
    key: PRNGKey, world: AgentWorld, *, pairs: int, episodes: int, bins: int, pseudo_count: float
) -> ReturnModel:
    """Play every pair and count its returns.

    Args:
      key: of the random numbers.
      world: the game and the population.
      pairs: their number.
      episodes: of each pair; fewer where episodes are very long.
      bins: of the histograms.
      pseudo_count: added to every bin.
    """
    trials = limit_trials(episodes, world.environment.horizon, pairs=pairs)
    played = cross_play(key, world.environment, *world.population, trials=trials)
    returns = np.asarray(played.returns)[..., 0]
    low, high = float(returns.min()), float(returns.max())
    edges = np.linspace(low - EDGE_SLACK, high + EDGE_SLACK, bins + 1)[1:-1]
    found = np.searchsorted(edges, returns)
    counts = np.stack([[np.bincount(cell, minlength=bins) for cell in row] for row in found]) + pseudo_count
    return ReturnModel(edges, counts / counts.sum(axis=-1, keepdims=True), returns.mean(axis=-1), low, high)
