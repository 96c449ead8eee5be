"""Calls per second of `Agent.act`: agents in a program of one's own, one observation at a time."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jax
import numpy as np

from coverset.adhoc.learner import agent_spec
from coverset.bench.settings import BenchSettings
from coverset.bench.timing import time_interleaved
from coverset.envs import registry
from coverset.policies.agent import Agent
from coverset.presets import resolve_training

LEARNERS = ("rl2", "feedforward")


def make_agent(name: str, learner: str) -> Agent:
    """An untrained agent of the size that the preset `fast` trains: its numbers do not matter for its speed."""
    environment = registry.make(name)
    settings, chosen = resolve_training(name, learner, "fast")
    spec = agent_spec(chosen, environment, settings, 0, None)
    return Agent(chosen.build_policy(jax.random.key(0), spec), {})


def measure_acting(
    environments: Sequence[str], settings: BenchSettings, clock: Callable[[], float]
) -> list[dict[str, Any]]:
    """A row for every environment and learner."""
    agents = {(name, learner): make_agent(name, learner) for name in environments for learner in LEARNERS}
    seen = {name: np.zeros(registry.make(name).observation_size, np.float32) for name in environments}
    work = {
        f"{name} {learner}": _make_calls(agent, seen[name], settings.acting_calls)
        for (name, learner), agent in agents.items()
    }
    seconds = time_interleaved(work, repeats=settings.repeats, clock=clock)
    return [
        {
            "env": name,
            "learner": learner,
            "calls_per_second": settings.acting_calls / median(seconds[f"{name} {learner}"]),
        }
        for name, learner in agents
    ]


def _make_calls(agent: Agent, observation: np.ndarray, calls: int) -> Callable[[], int]:
    def act() -> int:
        return sum(agent.act(observation, 0.5) for _ in range(calls))

    return act
