"""Adapters in both directions between coverset environments and PettingZoo environments of two or more agents.

Needs the extra `coverset[pettingzoo]`.
"""

import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int, UInt
from pettingzoo import ParallelEnv

from coverset.adapters.conversion import BY_AGENT, REWARDS, combine_rewards, describe_observations
from coverset.adapters.parallel_episode import MASK, ParallelEpisode, Seats, as_parallel, inspect_seats
from coverset.adapters.replay import EpisodeCache, check_reproducible
from coverset.checks import check_at_least, check_one_of
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
from coverset.envs.seats import action_mask, rewards_by_seat
from coverset.policies.host_calls import call_host
from coverset.types import Actions, Observations, Outcome, PRNGKey, PyTree

LARGEST_SEED = 2**31 - 1
PROBE_STEPS = 20
"""Steps of the episode that is played twice to check that an environment is reproducible."""


class CoversetParallel(ParallelEnv[str, np.ndarray, Any]):
    """A coverset environment as a PettingZoo parallel environment; its agents are `seat_0`, `seat_1`, ...

    In games with illegal actions, `action_mask` of an agent's info holds 1 for each legal one.
    """

    metadata = {"name": "coverset", "render_modes": ["ansi"]}  # noqa: RUF012

    def __init__(self, environment: Environment, render_mode: str | None = None) -> None:
        if render_mode is not None:
            check_one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.environment = environment
        self.render_mode = render_mode
        self.possible_agents = [f"seat_{number}" for number in range(environment.num_seats)]
        self.agents: list[str] = []
        boxes = [spaces.Box(-np.inf, np.inf, (size,), np.float32) for size in _sizes(environment)]
        self.observation_spaces = dict(zip(self.possible_agents, boxes, strict=True))
        actions = zip(self.possible_agents, environment.num_actions, strict=True)
        self.action_spaces = {seat: spaces.Discrete(number) for seat, number in actions}
        self._key = jax.random.key(np.random.SeedSequence().generate_state(1)[0])
        self._state: Any = None
        self._masks: dict[str, np.ndarray] = {}

    def observation_space(self, agent: str) -> spaces.Space:
        """The agent's observation space, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """The agent's action space, the same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, np.ndarray], dict]:
        """Start an episode; `seed` determines this episode and the following ones."""
        del options
        if seed is not None:
            self._key = jax.random.key(seed)
        self._key, key = jax.random.split(self._key)
        self._state, view = _compile(self.environment)[0](key)
        self.agents = list(self.possible_agents)
        return self._observe(view), self._inform(view)

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Play one joint action; all agents leave when the episode ends."""
        if not self.agents:
            raise ValueError("step needs a running episode: call reset first.")
        joint = self._check_actions(actions)
        self._key, key = jax.random.split(self._key)
        outcome, view = _compile(self.environment)[1](key, self._state, joint)
        self._state = outcome.state
        terminated, truncated = bool(outcome.terminated), bool(outcome.truncated)
        if terminated or truncated:
            self.agents = []
        earned = np.asarray(rewards_by_seat(self.environment, outcome.reward)).tolist()
        rewards = dict(zip(self.possible_agents, earned, strict=True))
        terminations, truncations = (dict.fromkeys(self.possible_agents, flag) for flag in (terminated, truncated))
        return self._observe(view), rewards, terminations, truncations, self._inform(view)

    def _check_actions(self, actions: dict[str, Any]) -> Actions:
        """The actions in seat order; raises ValueError if they are invalid."""
        if set(actions) != set(self.possible_agents):
            got = ", ".join(map(str, actions)) or "none"
            raise ValueError(f"actions must hold one action for each of {', '.join(self.possible_agents)}, got {got}.")
        counts = zip(self.possible_agents, self.environment.num_actions, strict=True)
        return jnp.array([self._check_action(seat, actions[seat], count) for seat, count in counts], jnp.int32)

    def _check_action(self, seat: str, action: Any, count: int) -> int:
        try:
            number = operator.index(action)
        except TypeError:
            number = -1
        if not 0 <= number < count:
            raise ValueError(f"Action of '{seat}' must be a whole number from 0 to {count - 1}, got {action!r}.")
        if seat in self._masks and not self._masks[seat][number]:
            legal = ", ".join(map(str, np.flatnonzero(self._masks[seat])))
            raise ValueError(f"Action of '{seat}' must be legal, one of {legal}, got {number}.")
        return number

    def _observe(self, view: "_View") -> dict[str, np.ndarray]:
        rows = zip(self.possible_agents, np.asarray(view.observations), _sizes(self.environment), strict=True)
        return {seat: row[:size] for seat, row, size in rows}

    def _inform(self, view: "_View") -> dict[str, dict[str, np.ndarray]]:
        """The infos, and keep the masks that they hold."""
        if view.mask is None:
            return {seat: {} for seat in self.possible_agents}
        rows = zip(self.possible_agents, np.asarray(view.mask), self.environment.num_actions, strict=True)
        self._masks = {seat: row[:number].astype(np.int8) for seat, row, number in rows}
        return {seat: {MASK: mask.copy()} for seat, mask in self._masks.items()}

    def render(self) -> str:
        """The state as text."""
        if self._state is None:
            raise ValueError("render needs an episode: call reset first.")
        return self.environment.render(self._state)

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""


def _sizes(environment: Environment) -> list[int]:
    """Lengths of the seats' observations without padding."""
    return [int(np.prod(shape)) for shape in environment.observation_shapes]


class _View(NamedTuple):
    """What the seats are told about a state."""

    observations: Observations
    mask: Bool[Array, "seats a"] | None


@lru_cache(maxsize=64)
def _compile(environment: Environment) -> tuple[Any, Any]:
    """Compiled reset and step that also return the seats' view, once per environment."""

    def view(state: PyTree) -> _View:
        mask = None if environment.legal_actions(state) is None else action_mask(environment, state)
        return _View(environment.observe(state), mask)

    def reset(key):
        state = environment.reset(key)
        return state, view(state)

    def step(key, state, actions):
        outcome = environment.step(key, state, actions)
        return outcome, view(outcome.state)

    return jax.jit(reset), jax.jit(step)


def to_parallel(environment: Environment, render_mode: str | None = None) -> CoversetParallel:
    """Wrap a coverset environment as a PettingZoo parallel environment."""
    return CoversetParallel(environment, render_mode)


class ReplayState(NamedTuple):
    """What determines the state of a host environment."""

    seed: UInt[Array, ""]
    actions: Int[Array, "h seats"]
    """Joint actions so far, padded with zeros."""
    time: Int[Array, ""]
    over: Bool[Array, ""]


@dataclass(frozen=True)
class FromParallel(Environment):
    """A PettingZoo environment of two or more agents with discrete actions and array observations.

    Environments step sequentially in Python, which limits the speed of training. Seat n is the n-th of
    `possible_agents`. Observations are flattened; shorter ones are padded with zeros. Agents may leave before the end:
    their seats then observe zeros, earn nothing and pass. The episode ends when all agents are done.

    Parallel environments are played as they are. Environments whose agents act in turn (AEC) make one move per step,
    and whoever waits has no legal action.
    """

    environment: str
    """`module:function` that makes the environment; it is called for every episode."""
    horizon: int
    """Steps until truncation, if the episode does not end earlier."""
    reward: str = BY_AGENT
    """`by-agent` for each agent's own reward, `mean` or `sum` for one that is common to all."""
    seats_swap: bool = False
    """Whether the agents are interchangeable: same actions, same rules, same initial states."""
    arguments: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments of the function, as pairs."""

    def __post_init__(self) -> None:
        check_at_least("horizon", self.horizon, 1)
        check_one_of("reward", self.reward, REWARDS)
        if not isinstance(self.environment, str):
            got = type(self.environment).__name__
            raise ValueError(f"environment must be text, module:function that makes it, got an object of type {got}.")
        for name, value in self.arguments:
            try:
                hash(value)
            except TypeError:
                raise ValueError(f"{name} must be hashable, as tuples are and lists are not, got {value!r}.") from None
        _episode_cache(self)

    @property
    def observation_size(self) -> int:
        return max(_inspect(self).sizes)

    @property
    def observation_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple((size,) for size in _inspect(self).sizes)

    @property
    def num_actions(self) -> tuple[int, ...]:
        return _inspect(self).num_actions

    @property
    def seats_alike(self) -> bool:
        return self.seats_swap and len(set(self.num_actions)) == 1

    def make(self) -> ParallelEnv:
        """Make a new host environment."""
        maker = import_named("environment", self.environment)
        made = call_named("environment", self.environment, maker, **dict(self.arguments))
        return as_parallel(self.environment, made)

    def reset(self, key: PRNGKey) -> ReplayState:
        seed = jax.random.bits(key, (), jnp.uint32) & jnp.uint32(LARGEST_SEED)
        history = jnp.zeros((self.horizon, self.num_seats), jnp.int32)
        return ReplayState(seed, history, jnp.int32(0), jnp.bool_(False))

    def step(self, key: PRNGKey, state: ReplayState, actions: Actions) -> Outcome:
        del key
        history = state.actions.at[state.time].set(actions.astype(jnp.int32), mode="drop")
        time = jnp.minimum(state.time + 1, self.horizon)
        flag = jax.ShapeDtypeStruct((), jnp.bool_)
        shape = (self.num_seats,) if self.reward == BY_AGENT else ()
        wanted = (jax.ShapeDtypeStruct(shape, jnp.float32), flag, flag)
        reward, terminated, ended = call_host(self._step_on_host, wanted, state.seed, history, time, state.over)
        truncated = (ended | (time >= self.horizon)) & ~terminated
        return Outcome(ReplayState(state.seed, history, time, terminated | truncated), reward, terminated, truncated)

    def _step_on_host(
        self, seed: Any, actions: np.ndarray, time: Any, over: Any
    ) -> tuple[Float[np.ndarray | np.floating, "..."], bool, bool]:
        """Reward of the last of `time` actions, and whether it terminated or truncated the episode."""
        if over:  # a batch continues until its longest episode ends
            return combine_rewards(self.reward, np.zeros(self.num_seats)), False, True
        step = _episode_cache(self).find_step(int(seed), actions[: int(time)])
        return combine_rewards(self.reward, step.rewards), step.terminated, step.truncated

    def observe(self, state: ReplayState) -> Observations:
        wanted = jax.ShapeDtypeStruct((self.num_seats, self.observation_size), jnp.float32)
        return call_host(self._observe_on_host, wanted, state.seed, state.actions, state.time)

    def _observe_on_host(self, seed: Any, actions: np.ndarray, time: Any) -> np.ndarray:
        return _episode_cache(self).find_step(int(seed), actions[: int(time)]).observations

    def legal_actions(self, state: ReplayState) -> Bool[Array, "seats a"] | None:
        if not _inspect(self).masked:
            return None
        wanted = jax.ShapeDtypeStruct((self.num_seats, max(self.num_actions)), jnp.bool_)
        return call_host(self._mask_on_host, wanted, state.seed, state.actions, state.time)

    def _mask_on_host(self, seed: Any, actions: np.ndarray, time: Any) -> np.ndarray:
        return _episode_cache(self).find_step(int(seed), actions[: int(time)]).legal

    def render(self, state: ReplayState, seat: int | None = None) -> str:
        """The step and what the seats observe, as numbers."""
        return describe_observations(int(state.time), np.asarray(self.observe(state)), _inspect(self).sizes, seat)


def from_parallel(
    environment: str, horizon: int, reward: str = BY_AGENT, seats_swap: bool = False, **arguments: Any
) -> FromParallel:
    """Wrap a PettingZoo environment of two or more agents as a coverset environment; see `FromParallel`.

    Args:
      environment: `module:function` that makes it, such as `mpe2.simple_spread_v3:parallel_env`.
      horizon: steps until truncation, if the episode does not end earlier.
      reward: `by-agent` for each agent's own reward, `mean` or `sum` for one that is common to all.
      seats_swap: whether the agents are interchangeable.
      **arguments: keyword arguments of the function.
    """
    return FromParallel(environment, horizon, reward, seats_swap, tuple(sorted(arguments.items())))


@lru_cache(maxsize=64)
def _inspect(adapter: FromParallel) -> Seats:
    """Agents and spaces of the environment; raises ValueError if it is unsupported."""
    return inspect_seats(adapter.environment, adapter.make())


@lru_cache(maxsize=64)
def _episode_cache(adapter: FromParallel) -> EpisodeCache:
    """The adapter's cache of running episodes, which affects speed but never results."""
    seats = _inspect(adapter)
    check_reproducible(adapter.environment, lambda: ParallelEpisode(seats, adapter.make()), PROBE_STEPS)
    return EpisodeCache(lambda: ParallelEpisode(seats, adapter.make()))
