"""Untrained agents of any shape, in files."""

from pathlib import Path
from typing import Any

import jax

from coverset.adhoc.learner import AgentSpec, Learner, OnPolicyLearner
from coverset.adhoc.registry import make_learner
from coverset.adhoc.saved import save_agent
from coverset.policy import Policy


def make_spec(observation_size: int = 1, num_actions: int = 3, **changes: Any) -> AgentSpec:
    """A small agent's specification."""
    fields = {
        "observation_shape": (observation_size,),
        "num_actions": num_actions,
        "partner_observation_size": observation_size,
        "partner_num_actions": num_actions,
        "hidden_sizes": (4,),
        "memory_size": 4,
        "fourier_bandwidth": 0.0,
        "reward_scale": 1.0,
    }
    return AgentSpec(**{**fields, **changes})


def untrained_policy(spec: AgentSpec, learner: Learner | str = "rl2") -> Policy:
    """An agent that has learned nothing."""
    learner = make_learner(learner, {}) if isinstance(learner, str) else learner
    assert isinstance(learner, OnPolicyLearner)
    return learner.build_policy(jax.random.key(0), spec)


def write_untrained(path: Path, about: dict[str, Any], spec: AgentSpec, learner: str = "rl2") -> None:
    """Save an agent that has learned nothing."""
    save_agent(path, untrained_policy(spec, learner), make_learner(learner, {}), spec, {"seat": 0, **about})
