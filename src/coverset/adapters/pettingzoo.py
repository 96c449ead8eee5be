"""Adapters in both directions between coverset environments and PettingZoo parallel environments of two agents.

Needs the extra `coverset[pettingzoo]`.
"""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim, flatten
from jaxtyping import Array, Bool, Int, UInt
from pettingzoo import ParallelEnv

from coverset.adapters.replay import EpisodeCache, EpisodeStep, check_reproducible
from coverset.checks import check_at_least, check_one_of, describe_exception
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
from coverset.policies.host_calls import call_host
from coverset.types import Actions, Observations, Outcome, PRNGKey

SEATS = ("seat_0", "seat_1")
ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
LARGEST_SEED = 2**31 - 1
PROBE_STEPS = 20
"""Steps of the episode that is played twice to check that an environment is reproducible."""


class CoversetParallel(ParallelEnv[str, np.ndarray, Any]):
    """A coverset environment as a PettingZoo parallel environment; its agents are `seat_0` and `seat_1`."""

    metadata = {"name": "coverset", "render_modes": ["ansi"]}  # noqa: RUF012

    def __init__(self, environment: Environment, render_mode: str | None = None) -> None:
        if render_mode is not None:
            check_one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.environment = environment
        self.render_mode = render_mode
        self.possible_agents = list(SEATS)
        self.agents: list[str] = []
        box = (-np.inf, np.inf, (environment.observation_size,), np.float32)
        self.observation_spaces = {seat: spaces.Box(*box) for seat in SEATS}
        actions = zip(SEATS, environment.num_actions, strict=True)
        self.action_spaces = {seat: spaces.Discrete(number) for seat, number in actions}
        self._key = jax.random.key(np.random.SeedSequence().generate_state(1)[0])
        self._state: Any = None

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
        self._state, observations = _compile(self.environment)[0](key)
        self.agents = list(SEATS)
        return self._by_seat(observations), {seat: {} for seat in SEATS}

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Play one joint action; both agents leave when the episode ends."""
        if not self.agents:
            raise ValueError("step needs a running episode: call reset first.")
        joint = self._check_actions(actions)
        self._key, key = jax.random.split(self._key)
        outcome, observations = _compile(self.environment)[1](key, self._state, joint)
        self._state = outcome.state
        terminated, truncated = bool(outcome.terminated), bool(outcome.truncated)
        if terminated or truncated:
            self.agents = []
        common = (float(outcome.reward), terminated, truncated)
        rewards, terminations, truncations = (dict.fromkeys(SEATS, value) for value in common)
        return self._by_seat(observations), rewards, terminations, truncations, {seat: {} for seat in SEATS}

    def _check_actions(self, actions: dict[str, Any]) -> Actions:
        """The actions in seat order; raises ValueError if they are invalid."""
        if set(actions) != set(SEATS):
            got = ", ".join(map(str, actions)) or "none"
            raise ValueError(f"actions must hold one action for each of {', '.join(SEATS)}, got {got}.")
        numbers = []
        for seat, count in zip(SEATS, self.environment.num_actions, strict=True):
            try:
                number = operator.index(actions[seat])
            except TypeError:
                number = -1
            if not 0 <= number < count:
                last = count - 1
                raise ValueError(f"Action of '{seat}' must be a whole number from 0 to {last}, got {actions[seat]!r}.")
            numbers.append(number)
        return jnp.array(numbers, jnp.int32)

    def _by_seat(self, observations: Observations) -> dict[str, np.ndarray]:
        return dict(zip(SEATS, np.asarray(observations), strict=True))

    def render(self) -> str:
        """The state as text."""
        if self._state is None:
            raise ValueError("render needs an episode: call reset first.")
        return self.environment.render(self._state)

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""


@lru_cache(maxsize=64)
def _compile(environment: Environment) -> tuple[Any, Any]:
    """Compiled reset and step that also return observations, once per environment."""

    def reset(key):
        state = environment.reset(key)
        return state, environment.observe(state)

    def step(key, state, actions):
        outcome = environment.step(key, state, actions)
        return outcome, environment.observe(outcome.state)

    return jax.jit(reset), jax.jit(step)


def to_parallel(environment: Environment, render_mode: str | None = None) -> CoversetParallel:
    """Wrap a coverset environment as a PettingZoo parallel environment."""
    return CoversetParallel(environment, render_mode)


class ReplayState(NamedTuple):
    """What determines the state of a host environment."""

    seed: UInt[Array, ""]
    actions: Int[Array, "h 2"]
    """Joint actions so far, padded with zeros."""
    time: Int[Array, ""]
    over: Bool[Array, ""]


@dataclass(frozen=True)
class FromParallel(Environment):
    """A PettingZoo parallel environment of two agents with discrete actions and array observations.

    Environments step sequentially in Python, which limits the speed of training. Seat 0 is the first of
    `possible_agents`. Observations are flattened; the shorter one is padded with zeros. The episode ends when either
    agent is done.
    """

    environment: str
    """`module:function` that makes the environment; it is called for every episode."""
    horizon: int
    """Steps until truncation, if the episode does not end earlier."""
    reward: str = "mean"
    """The common reward: `mean` or `sum` of the two agents' rewards."""
    seats_swap: bool = False
    """Whether the two agents are interchangeable: same actions, same rules, same initial states."""
    arguments: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments of the function, as pairs."""

    def __post_init__(self) -> None:
        check_at_least("horizon", self.horizon, 1)
        check_one_of("reward", self.reward, ("mean", "sum"))
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
        return max(flatdim(space) for space in _inspect_seats(self).observations)

    @property
    def num_actions(self) -> tuple[int, int]:
        first, second = _inspect_seats(self).actions
        return int(first.n), int(second.n)

    @property
    def seats_alike(self) -> bool:
        return self.seats_swap and self.num_actions[0] == self.num_actions[1]

    def make(self) -> Any:
        """Make a new host environment; `_inspect_seats` checks that it is a ParallelEnv."""
        maker = import_named("environment", self.environment)
        return call_named("environment", self.environment, maker, **dict(self.arguments))

    def reset(self, key: PRNGKey) -> ReplayState:
        seed = jax.random.bits(key, (), jnp.uint32) & jnp.uint32(LARGEST_SEED)
        return ReplayState(seed, jnp.zeros((self.horizon, 2), jnp.int32), jnp.int32(0), jnp.bool_(False))

    def step(self, key: PRNGKey, state: ReplayState, actions: Actions) -> Outcome:
        del key
        history = state.actions.at[state.time].set(actions.astype(jnp.int32), mode="drop")
        time = jnp.minimum(state.time + 1, self.horizon)
        flag = jax.ShapeDtypeStruct((), jnp.bool_)
        wanted = (jax.ShapeDtypeStruct((), jnp.float32), flag, flag)
        reward, terminated, ended = call_host(self._step_on_host, wanted, state.seed, history, time, state.over)
        truncated = (ended | (time >= self.horizon)) & ~terminated
        return Outcome(ReplayState(state.seed, history, time, terminated | truncated), reward, terminated, truncated)

    def _step_on_host(self, seed: Any, actions: np.ndarray, time: Any, over: Any) -> tuple[float, bool, bool]:
        """Reward of the last of `time` actions, and whether it terminated or truncated the episode."""
        if over:  # a batch continues until its longest episode ends
            return 0.0, False, True
        step = _episode_cache(self).find_step(int(seed), actions[: int(time)])
        return step.reward, step.terminated, step.truncated

    def observe(self, state: ReplayState) -> Observations:
        wanted = jax.ShapeDtypeStruct((2, self.observation_size), jnp.float32)
        return call_host(self._observe_on_host, wanted, state.seed, state.actions, state.time)

    def _observe_on_host(self, seed: Any, actions: np.ndarray, time: Any) -> np.ndarray:
        return _episode_cache(self).find_step(int(seed), actions[: int(time)]).observations

    def render(self, state: ReplayState) -> str:
        """The step and the observations."""
        observations = np.array2string(np.asarray(self.observe(state)), precision=3, suppress_small=True)
        return f"step {int(state.time)}\n{observations}"


def from_parallel(
    environment: str, horizon: int, reward: str = "mean", seats_swap: bool = False, **arguments: Any
) -> FromParallel:
    """Wrap a PettingZoo parallel environment of two agents as a coverset environment; see `FromParallel`.

    Args:
      environment: `module:function` that makes it, such as `mpe2.simple_speaker_listener_v4:parallel_env`.
      horizon: steps until truncation, if the episode does not end earlier.
      reward: `mean` or `sum` of the two agents' rewards.
      seats_swap: whether the two agents are interchangeable.
      **arguments: keyword arguments of the function.
    """
    return FromParallel(environment, horizon, reward, seats_swap, tuple(sorted(arguments.items())))


class _SeatSpaces(NamedTuple):
    agents: tuple[str, str]
    actions: tuple[spaces.Discrete, spaces.Discrete]
    observations: tuple[spaces.Space, spaces.Space]


@lru_cache(maxsize=64)
def _inspect_seats(adapter: FromParallel) -> _SeatSpaces:
    """Agents and spaces of the environment; raises ValueError if it is unsupported."""
    made, name = adapter.make(), adapter.environment
    if not isinstance(made, ParallelEnv):
        raise ValueError(f"'{name}' must make a PettingZoo ParallelEnv, got {type(made).__name__}.")
    agents = list(getattr(made, "possible_agents", ()))
    if len(agents) != 2:
        listed = ", ".join(map(str, agents)) or "no possible_agents"
        raise ValueError(f"'{name}' must have two agents, got {len(agents)}: {listed}.")
    actions = tuple(_call_method(name, made, "action_space", agent) for agent in agents)
    observations = tuple(_call_method(name, made, "observation_space", agent) for agent in agents)
    for agent, acts, sees in zip(agents, actions, observations, strict=True):
        if not isinstance(acts, spaces.Discrete):
            raise ValueError(f"Actions of '{agent}' must be Discrete, got {acts}.")
        if not isinstance(sees, ARRAY_SPACES):
            raise ValueError(f"Observations of '{agent}' must be arrays, got {sees}.")
    _call_method(name, made, "close")
    return _SeatSpaces((agents[0], agents[1]), actions, observations)


def _call_method(name: str, made: Any, method: str, *arguments: Any, **named: Any) -> Any:
    """Call a method of a third-party environment; raises ValueError that names both if it fails."""
    try:
        return getattr(made, method)(*arguments, **named)
    except Exception as error:
        raise ValueError(f"environment '{name}' failed in {method}: {describe_exception(error)}.") from error


@lru_cache(maxsize=64)
def _episode_cache(adapter: FromParallel) -> EpisodeCache:
    """The adapter's cache of running episodes, which affects speed but never results."""
    check_reproducible(adapter.environment, lambda: _ParallelEpisode(adapter), adapter.num_actions, PROBE_STEPS)
    return EpisodeCache(lambda: _ParallelEpisode(adapter))


class _ParallelEpisode:
    """One episode of a parallel environment by seats; raises ValueError on values outside its spaces."""

    def __init__(self, adapter: FromParallel) -> None:
        self.name = adapter.environment
        self.seats = _inspect_seats(adapter)
        self.size = adapter.observation_size
        self.share = 0.5 if adapter.reward == "mean" else 1.0
        self.environment = adapter.make()

    def reset(self, seed: int) -> EpisodeStep:
        observations, _ = self._check_count("reset", 2, _call_method(self.name, self.environment, "reset", seed=seed))
        return EpisodeStep(self._flatten_observations("reset", observations))

    def step(self, actions: np.ndarray) -> EpisodeStep:
        numbered = zip(self.seats.agents, self.seats.actions, actions, strict=True)
        joint = {agent: int(space.start) + int(action) for agent, space, action in numbered}
        given = self._check_count("step", 5, _call_method(self.name, self.environment, "step", joint))
        terminated = any(self._by_seat("step", "a termination", given[2]))
        truncated = any(self._by_seat("step", "a truncation", given[3]))
        step = EpisodeStep(
            observations=self._flatten_observations("step", given[0]),
            reward=self.share * sum(self._check_rewards(given[1])),
            terminated=terminated,
            truncated=truncated and not terminated,
        )
        if step.over:
            _call_method(self.name, self.environment, "close")
        return step

    def _make_error(self, method: str, wanted: str, got: str) -> ValueError:
        sentence = f"environment '{self.name}' must return {wanted} from {method}, {got}."
        return ValueError(" ".join(sentence.split()))

    def _check_count(self, method: str, number: int, given: Any) -> tuple[Any, ...]:
        if not isinstance(given, tuple | list) or len(given) != number:
            got = len(given) if isinstance(given, tuple | list) else type(given).__name__
            raise self._make_error(method, f"{number} values", f"got {got}")
        return tuple(given)

    def _by_seat(self, method: str, what: str, given: Any) -> list[Any]:
        """The values of the two agents in a dictionary."""
        for agent in self.seats.agents:
            if not isinstance(given, Mapping):
                raise self._make_error(method, f"{what} for agent '{agent}'", f"got {type(given).__name__} for a dict")
            if agent not in given:
                listed = ", ".join(map(str, given)) or "no agent"
                raise self._make_error(method, f"{what} for agent '{agent}'", f"got one for {listed}")
        return [given[agent] for agent in self.seats.agents]

    def _check_rewards(self, given: Any) -> list[float]:
        rewards = []
        for agent, reward in zip(self.seats.agents, self._by_seat("step", "a reward", given), strict=True):
            try:
                rewards.append(float(reward))
            except (TypeError, ValueError):
                rewards.append(math.nan)
            if not math.isfinite(rewards[-1]):
                raise self._make_error("step", f"a finite reward for agent '{agent}'", f"got {reward!r}")
        return rewards

    def _flatten_observations(self, method: str, given: Any) -> np.ndarray:
        vectors = np.zeros((2, self.size), np.float32)
        for seat, observation in enumerate(self._by_seat(method, "an observation", given)):
            vector = self._flatten_observation(method, seat, observation)
            vectors[seat, : len(vector)] = vector
        return vectors

    def _flatten_observation(self, method: str, seat: int, observation: Any) -> np.ndarray:
        """One agent's observation, flattened."""
        space, whose = self.seats.observations[seat], f"for agent '{self.seats.agents[seat]}'"
        numbered = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
        if numbered and not space.contains(observation):  # `flatten` accepts negative indices
            raise self._make_error(method, f"an observation {whose} in {space}", f"got {observation!r}")
        try:
            with np.errstate(invalid="raise", over="raise"):
                vector = np.asarray(flatten(space, observation), np.float32)
        except Exception as error:  # numpy may raise anything here
            raise self._make_error(
                method, f"an observation {whose} in {space}", f"but {describe_exception(error)}"
            ) from error
        if len(vector) != flatdim(space):
            wanted = f"an observation of {flatdim(space)} numbers, as in its space, {whose}"
            raise self._make_error(method, wanted, f"got {len(vector)}")
        if not np.isfinite(vector).all():
            got = vector[~np.isfinite(vector)][0]
            raise self._make_error(method, f"an observation of finite numbers {whose}", f"got {got}")
        return vector
