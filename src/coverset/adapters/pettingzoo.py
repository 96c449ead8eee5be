"""PettingZoo both ways: our environments as parallel environments, and parallel environments of two agents as ours.

Needs the extra `coverset[pettingzoo]`.
"""

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

from coverset.adapters.host import call_host
from coverset.adapters.replay import Moment, Replays, check_reproducible
from coverset.checks import at_least, one_of
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
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
        self._key, key = jax.random.split(self._key)
        joint = jnp.array([actions[seat] for seat in SEATS], jnp.int32)
        outcome, observations = _compiled(self.environment)[1](key, self._state, joint)
        self._state = outcome.state
        terminated, truncated = bool(outcome.terminated), bool(outcome.truncated)
        if terminated or truncated:
            self.agents = []
        common = (float(outcome.reward), terminated, truncated)
        shared = [dict.fromkeys(SEATS, value) for value in common]
        return self._by_seat(observations), *shared, {seat: {} for seat in SEATS}  # pyright: ignore

    def _by_seat(self, observations: Observations) -> dict[str, np.ndarray]:
        return dict(zip(SEATS, np.asarray(observations), strict=True))

    def render(self) -> str:
        """The state as text."""
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
        at_least("horizon", self.horizon, 1)
        one_of("reward", self.reward, ("mean", "sum"))
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
    made = adapter.make()
    if not isinstance(made, ParallelEnv):
        raise ValueError(f"'{adapter.environment}' must make a PettingZoo ParallelEnv, got {type(made).__name__}.")
    agents = tuple(made.possible_agents)
    if len(agents) != 2:
        raise ValueError(f"'{adapter.environment}' must have two agents, got {len(agents)}: {', '.join(agents)}.")
    for agent in agents:
        if not isinstance(made.action_space(agent), spaces.Discrete):
            raise ValueError(f"Actions of '{agent}' must be Discrete, got {made.action_space(agent)}.")
        if not isinstance(made.observation_space(agent), ARRAY_SPACES):
            raise ValueError(f"Observations of '{agent}' must be arrays, got {made.observation_space(agent)}.")
    actions, observations = zip(*((made.action_space(a), made.observation_space(a)) for a in agents), strict=True)
    made.close()
    return _Seats(agents, actions, observations)


@lru_cache(maxsize=64)
def _replays(adapter: FromParallel) -> Replays:
    """Episodes under way. A cache: what it holds decides how long a step takes, never what it gives."""
    check_reproducible(adapter.environment, lambda: _ParallelPlayer(adapter), adapter.num_actions, PROBE_STEPS)
    return Replays(lambda: _ParallelPlayer(adapter))


class _ParallelPlayer:
    """One episode of a parallel environment, told in terms of seats."""

    def __init__(self, adapter: FromParallel) -> None:
        self.seats = _seats(adapter)
        self.size = adapter.observation_size
        self.share = 0.5 if adapter.reward == "mean" else 1.0
        self.played = adapter.make()

    def reset(self, seed: int) -> Moment:
        observations, _ = self.played.reset(seed=seed)
        return Moment(self._vectors(observations))

    def step(self, actions: np.ndarray) -> Moment:
        numbered = zip(self.seats.agents, self.seats.actions, actions, strict=True)
        joint = {agent: int(space.start) + int(action) for agent, space, action in numbered}
        observations, rewards, terminations, truncations, _ = self.played.step(joint)
        moment = Moment(
            observations=self._vectors(observations),
            reward=self.share * sum(float(reward) for reward in rewards.values()),
            terminated=any(terminations.values()),
            truncated=any(truncations.values()) and not any(terminations.values()),
        )
        if moment.over:
            self.played.close()
        return moment

    def _vectors(self, observations: dict[str, Any]) -> np.ndarray:
        vectors = np.zeros((2, self.size), np.float32)
        for seat, (agent, space) in enumerate(zip(self.seats.agents, self.seats.observations, strict=True)):
            vector = np.asarray(flatten(space, observations[agent]), np.float32)
            vectors[seat, : len(vector)] = vector
        return vectors
