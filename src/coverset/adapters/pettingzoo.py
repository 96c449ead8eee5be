"""PettingZoo both ways: our environments as parallel environments, and parallel environments of two agents as ours.

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

from coverset.adapters.replay import Moment, Replays, check_reproducible
from coverset.checks import check_at_least, check_one_of, describe_exception
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
from coverset.policies.host_calls import call_host
from coverset.types import Actions, Observations, Outcome, PRNGKey

SEATS = ("seat_0", "seat_1")
ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
LARGEST_SEED = 2**31 - 1
PROBE_STEPS = 20
"""Steps of the episode that is played twice before an environment is used."""


class CoversetParallel(ParallelEnv[str, np.ndarray, Any]):
    """An environment of coverset as a PettingZoo parallel environment; its agents are `seat_0` and `seat_1`."""

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
        """The same object for an agent at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """The same object for an agent at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, np.ndarray], dict]:
        """Start an episode; `seed` decides it and those after it."""
        del options
        if seed is not None:
            self._key = jax.random.key(seed)
        self._key, key = jax.random.split(self._key)
        self._state, observations = _compiled(self.environment)[0](key)
        self.agents = list(SEATS)
        return self._by_seat(observations), {seat: {} for seat in SEATS}

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Play one joint action; both agents leave when the episode ends."""
        if not self.agents:
            raise ValueError("step needs an episode under way: call reset first.")
        joint = self._joint(actions)
        self._key, key = jax.random.split(self._key)
        outcome, observations = _compiled(self.environment)[1](key, self._state, joint)
        self._state = outcome.state
        terminated, truncated = bool(outcome.terminated), bool(outcome.truncated)
        if terminated or truncated:
            self.agents = []
        common = (float(outcome.reward), terminated, truncated)
        shared = [dict.fromkeys(SEATS, value) for value in common]
        return self._by_seat(observations), *shared, {seat: {} for seat in SEATS}  # pyright: ignore

    def _joint(self, actions: dict[str, Any]) -> Actions:
        """Actions in the order of the seats, or a ValueError if they are none."""
        if set(actions) != set(SEATS):
            got = ", ".join(map(str, actions)) or "none"
            raise ValueError(f"actions must hold one for each of {', '.join(SEATS)}, got {got}.")
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
        """Nothing is held that needs closing."""


@lru_cache(maxsize=64)
def _compiled(environment: Environment) -> tuple[Any, Any]:
    """Reset and step with the observations that follow, traced once per environment."""

    def reset(key):
        state = environment.reset(key)
        return state, environment.observe(state)

    def step(key, state, actions):
        outcome = environment.step(key, state, actions)
        return outcome, environment.observe(outcome.state)

    return jax.jit(reset), jax.jit(step)


def to_parallel(environment: Environment, render_mode: str | None = None) -> CoversetParallel:
    """An environment of coverset as a PettingZoo parallel environment."""
    return CoversetParallel(environment, render_mode)


class ReplayState(NamedTuple):
    """What decides the state of an environment on the host."""

    seed: UInt[Array, ""]
    actions: Int[Array, "h 2"]
    """Joint actions so far, zeros behind them."""
    time: Int[Array, ""]
    over: Bool[Array, ""]


@dataclass(frozen=True)
class FromParallel(Environment):
    """A PettingZoo parallel environment of two agents with discrete actions and array observations.

    Steps are taken in Python, one environment after the other, so training takes as long as they take. Seat 0 is the
    first of `possible_agents`. Observations are flattened; the shorter one is padded with zeros. The episode ends when
    either agent is done.
    """

    environment: str
    """`module:function` that makes the environment; one is made for every episode."""
    horizon: int
    """Steps until truncation, if the environment does not end before."""
    reward: str = "mean"
    """How the common reward is made of the agents' two: their `mean` or their `sum`."""
    seats_swap: bool = False
    """Whether the two agents may be swapped: same actions, same rules, same starts."""
    arguments: tuple[tuple[str, Any], ...] = ()
    """Names and values for `function`."""

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
        _replays(self)

    @property
    def observation_size(self) -> int:
        return max(flatdim(space) for space in _seats(self).observations)

    @property
    def num_actions(self) -> tuple[int, int]:
        first, second = _seats(self).actions
        return int(first.n), int(second.n)

    @property
    def seats_alike(self) -> bool:
        return self.seats_swap and self.num_actions[0] == self.num_actions[1]

    def make(self) -> Any:
        """A fresh environment on the host; `_seats` checks that it is a ParallelEnv."""
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
        reward, terminated, ended = call_host(self._ends, wanted, state.seed, history, time, state.over)
        truncated = (ended | (time >= self.horizon)) & ~terminated
        return Outcome(ReplayState(state.seed, history, time, terminated | truncated), reward, terminated, truncated)

    def _ends(self, seed: Any, actions: np.ndarray, time: Any, over: Any) -> tuple[float, bool, bool]:
        """What the last of `time` actions earned, and whether it ended the episode, on the host."""
        if over:  # a batch goes on until its longest episode ends
            return 0.0, False, True
        moment = _replays(self).moment(int(seed), actions[: int(time)])
        return moment.reward, moment.terminated, moment.truncated

    def observe(self, state: ReplayState) -> Observations:
        wanted = jax.ShapeDtypeStruct((2, self.observation_size), jnp.float32)
        return call_host(self._sees, wanted, state.seed, state.actions, state.time)

    def _sees(self, seed: Any, actions: np.ndarray, time: Any) -> np.ndarray:
        return _replays(self).moment(int(seed), actions[: int(time)]).observations

    def render(self, state: ReplayState) -> str:
        """Time and observations: how an environment draws itself is its own affair."""
        observations = np.array2string(np.asarray(self.observe(state)), precision=3, suppress_small=True)
        return f"step {int(state.time)}\n{observations}"


def from_parallel(
    environment: str, horizon: int, reward: str = "mean", seats_swap: bool = False, **arguments: Any
) -> FromParallel:
    """A PettingZoo parallel environment of two agents as one of coverset's; see `FromParallel`.

    Args:
      environment: `module:function` that makes it, such as `mpe2.simple_speaker_listener_v4:parallel_env`.
      horizon: steps until truncation, if it does not end before.
      reward: `mean` or `sum` of the two agents' rewards.
      seats_swap: whether the two agents may be swapped.
      **arguments: for the function that makes it.
    """
    return FromParallel(environment, horizon, reward, seats_swap, tuple(sorted(arguments.items())))


class _Seats(NamedTuple):
    agents: tuple[str, str]
    actions: tuple[spaces.Discrete, spaces.Discrete]
    observations: tuple[spaces.Space, spaces.Space]


@lru_cache(maxsize=64)
def _seats(adapter: FromParallel) -> _Seats:
    """Agents and spaces, or a ValueError that says what kind of environment this is not."""
    made, name = adapter.make(), adapter.environment
    if not isinstance(made, ParallelEnv):
        raise ValueError(f"'{name}' must make a PettingZoo ParallelEnv, got {type(made).__name__}.")
    agents = list(getattr(made, "possible_agents", ()))
    if len(agents) != 2:
        listed = ", ".join(map(str, agents)) or "no possible_agents"
        raise ValueError(f"'{name}' must have two agents, got {len(agents)}: {listed}.")
    first, second = agents
    actions = (_ask(name, made, "action_space", first), _ask(name, made, "action_space", second))
    observations = (_ask(name, made, "observation_space", first), _ask(name, made, "observation_space", second))
    for agent, acts, sees in zip(agents, actions, observations, strict=True):
        if not isinstance(acts, spaces.Discrete):
            raise ValueError(f"Actions of '{agent}' must be Discrete, got {acts}.")
        if not isinstance(sees, ARRAY_SPACES):
            raise ValueError(f"Observations of '{agent}' must be arrays, got {sees}.")
    _ask(name, made, "close")
    return _Seats((first, second), actions, observations)


def _ask(name: str, made: Any, method: str, *arguments: Any, **named: Any) -> Any:
    """What a method of somebody's environment gives; where it fails, a ValueError names both."""
    try:
        return getattr(made, method)(*arguments, **named)
    except Exception as error:
        raise ValueError(f"environment '{name}' failed in {method}: {describe_exception(error)}.") from error


@lru_cache(maxsize=64)
def _replays(adapter: FromParallel) -> Replays:
    """Episodes under way. A cache: what it holds decides how long a step takes, never what it gives."""
    check_reproducible(adapter.environment, lambda: _ParallelPlayer(adapter), adapter.num_actions, PROBE_STEPS)
    return Replays(lambda: _ParallelPlayer(adapter))


class _ParallelPlayer:
    """One episode of a parallel environment, told in terms of seats; what breaks its own spaces is refused."""

    def __init__(self, adapter: FromParallel) -> None:
        self.name = adapter.environment
        self.seats = _seats(adapter)
        self.size = adapter.observation_size
        self.share = 0.5 if adapter.reward == "mean" else 1.0
        self.played = adapter.make()

    def reset(self, seed: int) -> Moment:
        observations, _ = self._values("reset", 2, _ask(self.name, self.played, "reset", seed=seed))
        return Moment(self._vectors("reset", observations))

    def step(self, actions: np.ndarray) -> Moment:
        numbered = zip(self.seats.agents, self.seats.actions, actions, strict=True)
        joint = {agent: int(space.start) + int(action) for agent, space, action in numbered}
        given = self._values("step", 5, _ask(self.name, self.played, "step", joint))
        terminated = any(self._by_seat("step", "a termination", given[2]))
        truncated = any(self._by_seat("step", "a truncation", given[3]))
        moment = Moment(
            observations=self._vectors("step", given[0]),
            reward=self.share * sum(self._rewards(given[1])),
            terminated=terminated,
            truncated=truncated and not terminated,
        )
        if moment.over:
            _ask(self.name, self.played, "close")
        return moment

    def _fault(self, method: str, wanted: str, got: str) -> ValueError:
        sentence = f"environment '{self.name}' must return {wanted} from {method}, {got}."
        return ValueError(" ".join(sentence.split()))

    def _values(self, method: str, number: int, given: Any) -> tuple[Any, ...]:
        if not isinstance(given, tuple | list) or len(given) != number:
            got = len(given) if isinstance(given, tuple | list) else type(given).__name__
            raise self._fault(method, f"{number} values", f"got {got}")
        return tuple(given)

    def _by_seat(self, method: str, what: str, given: Any) -> list[Any]:
        """What a dictionary holds for the two agents."""
        for agent in self.seats.agents:
            if not isinstance(given, Mapping):
                raise self._fault(method, f"{what} for agent '{agent}'", f"got {type(given).__name__} for a dict")
            if agent not in given:
                listed = ", ".join(map(str, given)) or "nobody"
                raise self._fault(method, f"{what} for agent '{agent}'", f"got one for {listed}")
        return [given[agent] for agent in self.seats.agents]

    def _rewards(self, given: Any) -> list[float]:
        rewards = []
        for agent, reward in zip(self.seats.agents, self._by_seat("step", "a reward", given), strict=True):
            try:
                rewards.append(float(reward))
            except (TypeError, ValueError):
                rewards.append(math.nan)
            if not math.isfinite(rewards[-1]):
                raise self._fault("step", f"a finite reward for agent '{agent}'", f"got {reward!r}")
        return rewards

    def _vectors(self, method: str, given: Any) -> np.ndarray:
        vectors = np.zeros((2, self.size), np.float32)
        for seat, observation in enumerate(self._by_seat(method, "an observation", given)):
            vector = self._vector(method, seat, observation)
            vectors[seat, : len(vector)] = vector
        return vectors

    def _vector(self, method: str, seat: int, observation: Any) -> np.ndarray:
        """One agent's observation, flattened."""
        space, whose = self.seats.observations[seat], f"for agent '{self.seats.agents[seat]}'"
        numbered = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
        if numbered and not space.contains(observation):  # `flatten` counts from behind where it is negative
            raise self._fault(method, f"an observation {whose} in {space}", f"got {observation!r}")
        try:
            with np.errstate(invalid="raise", over="raise"):
                vector = np.asarray(flatten(space, observation), np.float32)
        except Exception as error:  # whatever numpy may say of what is no array of numbers
            raise self._fault(
                method, f"an observation {whose} in {space}", f"but {describe_exception(error)}"
            ) from error
        if len(vector) != flatdim(space):
            wanted = f"an observation of {flatdim(space)} numbers, as its space says, {whose}"
            raise self._fault(method, wanted, f"got {len(vector)}")
        if not np.isfinite(vector).all():
            got = vector[~np.isfinite(vector)][0]
            raise self._fault(method, f"an observation of finite numbers {whose}", f"got {got}")
        return vector
