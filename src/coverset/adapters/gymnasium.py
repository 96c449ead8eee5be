"""Gymnasium environments of several agents, as `lbforaging` has them, as PettingZoo parallel environments.

Their action and observation spaces are tuples with a place for each agent. Needs the extra `coverset[pettingzoo]`.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from coverset.checks import describe_exception


class TupleParallel(ParallelEnv[str, Any, Any]):
    """A Gymnasium environment with tuple spaces as a parallel environment of agents `agent_0`, `agent_1`, ..."""

    metadata = {"name": "gymnasium", "render_modes": []}  # noqa: RUF012

    def __init__(self, environment: gymnasium.Env) -> None:
        for name, space in (("action", environment.action_space), ("observation", environment.observation_space)):
            if not isinstance(space, spaces.Tuple):
                raise ValueError(f"The {name} space must be a Tuple with a place for each agent, got {space}.")
        self.environment = environment
        self.possible_agents = [f"agent_{number}" for number in range(len(environment.action_space))]  # pyright: ignore
        self.agents: list[str] = []

    def action_space(self, agent: str) -> spaces.Space:
        """An agent's place in the tuple."""
        return self.environment.action_space[self.possible_agents.index(agent)]  # pyright: ignore

    def observation_space(self, agent: str) -> spaces.Space:
        """An agent's place in the tuple."""
        return self.environment.observation_space[self.possible_agents.index(agent)]  # pyright: ignore

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, Any], dict]:
        """Start an episode."""
        observations, _ = self.environment.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._by_agent(observations), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Play one joint action; rewards may be one for all or one for each."""
        agents = list(self.possible_agents)
        joint = tuple(actions[agent] for agent in agents)
        observations, reward, terminated, truncated, _ = self.environment.step(joint)
        rewards = np.broadcast_to(np.asarray(reward, float), len(agents)).tolist()
        ends = [dict.fromkeys(agents, bool(np.all(flag))) for flag in (terminated, truncated)]
        if any(ends[0].values()) or any(ends[1].values()):
            self.agents = []
        infos = {agent: {} for agent in agents}
        return self._by_agent(observations), dict(zip(agents, rewards, strict=True)), *ends, infos  # pyright: ignore

    def _by_agent(self, observations: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, observations, strict=True))

    def render(self) -> Any:
        """Whatever the environment renders."""
        return self.environment.render()

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()


def parallel_env(id: str, **arguments: Any) -> TupleParallel:
    """The Gymnasium environment called `id`, such as `lbforaging:Foraging-8x8-2p-2f-coop-v3`."""
    try:
        made = gymnasium.make(id, disable_env_checker=True, **arguments)
    except Exception as error:  # the packages of others are imported and called here
        raise ValueError(
            f"id '{id}' must name an environment that Gymnasium can make, but {describe_exception(error)}."
        ) from error
    # Wrappers of `make` look at one agent's spaces alone; the environment within keeps time by itself.
    return TupleParallel(made.unwrapped)
