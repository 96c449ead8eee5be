"""Multi-agent Gymnasium environments, such as those of `lbforaging`, as PettingZoo parallel environments.

Their action and observation spaces are tuples with one element per agent. Needs the extra `coverset[pettingzoo]`.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from coverset.checks import describe_exception


class TupleParallel(ParallelEnv[str, Any, Any]):
    """A Gymnasium environment with tuple spaces as a parallel environment with agents `agent_0`, `agent_1`, ..."""

    metadata = {"name": "gymnasium", "render_modes": []}  # noqa: RUF012

    def __init__(self, environment: gymnasium.Env) -> None:
        for name, space in (("action", environment.action_space), ("observation", environment.observation_space)):
            if not isinstance(space, spaces.Tuple):
                raise ValueError(f"The {name} space must be a Tuple with one space per agent, got {space}.")
        self.environment = environment
        self.possible_agents = [f"agent_{number}" for number in range(len(environment.action_space))]  # pyright: ignore[reportArgumentType]
        self.agents: list[str] = []

    def action_space(self, agent: str) -> spaces.Space:
        """The agent's element of the action tuple."""
        return self.environment.action_space[self.possible_agents.index(agent)]

    def observation_space(self, agent: str) -> spaces.Space:
        """The agent's element of the observation tuple."""
        return self.environment.observation_space[self.possible_agents.index(agent)]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, Any], dict]:
        """Start an episode."""
        observations, _ = self.environment.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._by_agent(observations), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Play one joint action; the environment may return a common reward or one per agent."""
        agents = list(self.possible_agents)
        joint = tuple(actions[agent] for agent in agents)
        observations, reward, terminated, truncated, _ = self.environment.step(joint)
        rewards = dict(zip(agents, np.broadcast_to(np.asarray(reward, float), len(agents)).tolist(), strict=True))
        terminations, truncations = (dict.fromkeys(agents, bool(np.all(flag))) for flag in (terminated, truncated))
        if any(terminations.values()) or any(truncations.values()):
            self.agents = []
        return self._by_agent(observations), rewards, terminations, truncations, {agent: {} for agent in agents}

    def _by_agent(self, observations: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, observations, strict=True))

    def render(self) -> Any:
        """Render the wrapped environment."""
        return self.environment.render()

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()


def parallel_env(id: str, **arguments: Any) -> TupleParallel:
    """Make the Gymnasium environment with this id, such as `lbforaging:Foraging-8x8-2p-2f-coop-v3`."""
    try:
        made = gymnasium.make(id, disable_env_checker=True, **arguments)
    except Exception as error:  # third-party code may raise anything
        raise ValueError(
            f"id '{id}' must name an environment that Gymnasium can make, but {describe_exception(error)}."
        ) from error
    # The wrappers that `make` adds support single-agent spaces only; the inner environment has its own time limit.
    return TupleParallel(made.unwrapped)
