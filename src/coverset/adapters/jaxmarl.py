"""Two-agent JaxMARL environments (Rutherford et al. 2024) with discrete actions, fully in JAX.

Needs the extra `coverset[jaxmarl]`. `overcooked` makes the layouts of Overcooked, by name.
"""

import sys
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.checks import check_at_least, check_finite, check_one_of
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
from coverset.types import Actions, Observations, Outcome, PRNGKey, PyTree

with redirect_stdout(sys.stderr):  # it prints when imported, and standard output may have to be JSON
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

REWARDS = ("mean", "sum")


class JaxMarlState(NamedTuple):
    """JaxMARL's own state, the observations of both agents, and the number of steps."""

    inner: PyTree
    views: Float[Array, "2 d"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class JaxMarl(Environment):
    """A JaxMARL environment. Seat 0 is its first agent. Observations are flattened; the shorter is padded with zeros.

    JaxMARL does not report why an episode ends: an end at `horizon` counts as truncated, an earlier one as terminated.
    """

    environment: str
    """Import path of the function that makes the environment."""
    horizon: int
    """Maximum number of steps; the environment's own time limit must not be longer."""
    reward: str = "mean"
    """The common reward: `mean` or `sum` of the two agents' rewards."""
    shaping: float = 0.0
    """Weight of the shaped reward that some environments report; combined like the reward."""
    seats_swap: bool = False
    """Whether the two agents are interchangeable: same actions, same rules, same initial states."""
    arguments: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments of the function, as pairs."""

    def __post_init__(self) -> None:
        check_at_least("horizon", self.horizon, 1)
        check_finite("shaping", self.shaping)
        check_one_of("reward", self.reward, REWARDS)
        _make_game(self)

    @property
    def observation_size(self) -> int:
        spaces: list[Any] = [_make_game(self).observation_space(agent) for agent in _agents(self)]
        return max(int(np.prod(space.shape)) for space in spaces)

    @property
    def num_actions(self) -> tuple[int, int]:
        spaces: list[Any] = [_make_game(self).action_space(agent) for agent in _agents(self)]
        return int(spaces[0].n), int(spaces[1].n)

    @property
    def seats_alike(self) -> bool:
        return self.seats_swap and self.num_actions[0] == self.num_actions[1]

    def reset(self, key: PRNGKey) -> JaxMarlState:
        observations, inner = _make_game(self).reset(key)
        return JaxMarlState(inner, self._flatten_observations(observations), jnp.int32(0))

    def step(self, key: PRNGKey, state: JaxMarlState, actions: Actions) -> Outcome:
        joint = dict(zip(_agents(self), actions, strict=True))
        observations, inner, rewards, dones, infos = _make_game(self).step_env(key, state.inner, joint)
        # A step may change dtypes, which a scan cannot carry.
        inner = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), inner, state.inner)
        time = state.time + 1
        reward = self._common_reward(rewards)
        if self.shaping:
            reward += self.shaping * self._common_reward(infos["shaped_reward"])
        at_limit = time >= self.horizon
        done = jnp.asarray(dones["__all__"], bool)
        after = JaxMarlState(inner, self._flatten_observations(observations), time)
        return Outcome(after, reward, done & ~at_limit, at_limit)

    def _common_reward(self, rewards: dict[str, Array]) -> Float[Array, ""]:
        total = sum(jnp.asarray(rewards[agent], jnp.float32) for agent in _agents(self))
        return jnp.asarray(total) * (0.5 if self.reward == "mean" else 1.0)

    def _flatten_observations(self, observations: dict[str, Array]) -> Float[Array, "2 d"]:
        vectors = [jnp.asarray(observations[agent], jnp.float32).reshape(-1) for agent in _agents(self)]
        size = self.observation_size
        return jnp.stack([jnp.pad(vector, (0, size - len(vector))) for vector in vectors])

    def observe(self, state: JaxMarlState) -> Observations:
        return state.views

    def render(self, state: JaxMarlState) -> str:
        """The step, and how many entries of each observation are non-zero: JaxMARL renders images only."""
        return f"step {int(state.time)}, non-zero observations: {np.count_nonzero(state.views, axis=1).tolist()}"


def overcooked(layout: str = "cramped_room", horizon: int = 400, shaping: float = 0.0) -> JaxMarl:
    """Overcooked, version 1, on one of JaxMARL's layouts.

    Args:
      layout: such as `cramped_room`, `asymm_advantages`, `coord_ring`, `forced_coord` or `counter_circuit`.
      horizon: steps of an episode.
      shaping: weight of the shaped reward for steps towards a soup, without which random pairs rarely earn a reward.
    """
    arguments = (("layout", layout), ("max_steps", horizon))
    return JaxMarl(f"{__name__}:make_overcooked", horizon, shaping=shaping, arguments=arguments)


def make_overcooked(layout: str, max_steps: int) -> MultiAgentEnv:
    """Make JaxMARL's environment for a named layout."""
    from jaxmarl.environments.overcooked import Overcooked, overcooked_layouts

    check_one_of("layout", layout, overcooked_layouts)
    with warnings.catch_warnings():
        # It recommends version 2, which is a different game.
        warnings.filterwarnings("ignore", "OvercookedV2 is now released", DeprecationWarning)
        return Overcooked(layout=overcooked_layouts[layout], max_steps=max_steps)


@lru_cache(maxsize=64)
def _make_game(adapter: JaxMarl) -> MultiAgentEnv:
    """Make the environment, once per adapter; raises ValueError if it is unsupported."""
    maker = import_named("environment", adapter.environment)
    made = call_named("environment", adapter.environment, maker, **dict(adapter.arguments))
    if not isinstance(made, MultiAgentEnv):
        raise ValueError(f"'{adapter.environment}' must make a JaxMARL environment, got {type(made).__name__}.")
    if len(made.agents) != 2:
        raise ValueError(f"'{adapter.environment}' must have two agents, got {len(made.agents)}.")
    for agent in made.agents:
        if not hasattr(made.action_space(agent), "n"):
            raise ValueError(f"Actions of '{agent}' must be Discrete, got {type(made.action_space(agent)).__name__}.")
    return made


def _agents(adapter: JaxMarl) -> tuple[str, str]:
    first, second = _make_game(adapter).agents
    return first, second
