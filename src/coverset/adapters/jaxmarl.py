"""JaxMARL environments (Rutherford et al. 2024) with discrete actions, fully in JAX.

Needs the extra `coverset[jaxmarl]`. `from_jaxmarl` makes any of them by its name, `overcooked` the layouts of
Overcooked; Hanabi is in `coverset.adapters.hanabi`.
"""

import abc
import inspect
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.adapters.conversion import (
    BY_AGENT,
    REWARDS,
    combine_rewards,
    describe_observations,
    implicit_promotion,
    stack_masks,
)
from coverset.checks import check_at_least, check_finite, check_one_of, describe_exception
from coverset.envs.base import Environment, pad_observations
from coverset.envs.registry import call_named, import_named
from coverset.types import Actions, Flag, Observations, Outcome, PRNGKey, PyTree

with redirect_stdout(sys.stderr):  # it prints when imported, and standard output may have to be JSON
    from jaxmarl import make, registered_envs
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

NAMES = tuple(name for name in registered_envs if name != "jaxnav")
"""JaxMARL's names that a file may hold. JaxNav can be told to unpickle a file: only its import path, which has to be
trusted, makes it."""
MaskMethod = Callable[[PyTree], dict[str, Array]]
MASK_METHODS = ("get_avail_actions", "get_legal_moves")
"""Methods that give the legal actions of every agent; Hanabi has the second, other games the first or none."""


class JaxMarlState(NamedTuple):
    """JaxMARL's own state, the observations of all agents, and the number of steps."""

    inner: PyTree
    views: Float[Array, "seats d"]
    time: Int[Array, ""]


class JaxMarlGame(Environment):
    """A JaxMARL environment as a coverset environment; subclasses say which one, in `make_game`.

    Seat n is its n-th agent. Observations are flattened; shorter ones are padded with zeros. It is stepped without
    JaxMARL's own reset at the end of an episode.
    """

    reward: str = BY_AGENT

    @abc.abstractmethod
    def make_game(self) -> Any:
        """Make JaxMARL's environment; called once for equal adapters, and checked."""

    @property
    def observation_size(self) -> int:
        return max(_inspect(self).sizes)

    @property
    def observation_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple((size,) for size in _inspect(self).sizes)

    @property
    def num_actions(self) -> tuple[int, ...]:
        return _inspect(self).num_actions

    def reset(self, key: PRNGKey) -> JaxMarlState:
        with implicit_promotion():
            observations, inner = self._game.reset(key)
        return JaxMarlState(jax.tree.map(jnp.asarray, inner), self._stack(observations), jnp.int32(0))

    def step(self, key: PRNGKey, state: JaxMarlState, actions: Actions) -> Outcome:
        joint = dict(zip(self._game.agents, actions, strict=True))
        with implicit_promotion():
            observations, inner, rewards, dones, infos = self._game.step_env(key, state.inner, joint)
        # A step may change dtypes, which a scan cannot carry.
        inner = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), inner, state.inner)
        after = JaxMarlState(inner, self._stack(observations), state.time + 1)
        terminated, truncated = self._judge_end(jnp.asarray(dones["__all__"], bool), after.time)
        return Outcome(after, combine_rewards(self.reward, self._rewards(rewards, infos)), terminated, truncated)

    @property
    def _game(self) -> MultiAgentEnv:
        return _inspect(self).game

    def _judge_end(self, done: Flag, time: Int[Array, ""]) -> tuple[Flag, Flag]:
        """Whether the episode is terminated, and whether it is truncated.

        JaxMARL does not report why an episode ends: an end at the horizon is taken for a time limit.
        """
        at_limit = time >= self.horizon
        return done & ~at_limit, at_limit

    def _rewards(self, rewards: dict[str, Array], infos: dict[str, Any]) -> Float[Array, "seats"]:
        """Every seat's reward for a step, from what JaxMARL returns."""
        del infos
        return jnp.stack([jnp.asarray(rewards[agent], jnp.float32) for agent in self._game.agents])

    def _stack(self, observations: dict[str, Array]) -> Observations:
        return pad_observations(*(observations[agent] for agent in self._game.agents))

    def observe(self, state: JaxMarlState) -> Observations:
        return state.views

    def legal_actions(self, state: JaxMarlState) -> Bool[Array, "seats a"] | None:
        find_masks = _inspect(self).find_masks
        if find_masks is None:
            return None
        with implicit_promotion():
            masks = find_masks(state.inner)
        return stack_masks([masks[agent] for agent in self._game.agents], max(self.num_actions))

    def render(self, state: JaxMarlState, seat: int | None = None) -> str:
        """The step and what the seats observe, as numbers: JaxMARL renders images only."""
        return describe_observations(int(state.time), np.asarray(state.views), _inspect(self).sizes, seat)


@dataclass(frozen=True)
class JaxMarl(JaxMarlGame):
    """A JaxMARL environment by its name. Seat n is its n-th agent; shorter observations are padded with zeros.

    JaxMARL does not report why an episode ends: an end at `horizon` counts as truncated, an earlier one as terminated.
    """

    environment: str
    """JaxMARL's name, such as `MPE_simple_spread_v3`, or import path of a function that makes the environment."""
    horizon: int
    """Maximum number of steps; the environment's own time limit must not be shorter."""
    reward: str = BY_AGENT
    """`by-agent` for each agent's own reward, `mean` or `sum` for one that is common to all."""
    shaping: float = 0.0
    """Weight of the shaped reward that some environments report; combined like the reward."""
    seats_swap: bool = False
    """Whether the agents are interchangeable: same actions, same rules, same initial states."""
    arguments: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments of the environment, as pairs."""

    def __post_init__(self) -> None:
        check_at_least("horizon", self.horizon, 1)
        check_finite("shaping", self.shaping)
        check_one_of("reward", self.reward, REWARDS)
        _check_time_limit(self.environment, _inspect(self).game, self.horizon)

    @property
    def seats_alike(self) -> bool:
        return self.seats_swap and len(set(self.num_actions)) == 1

    def make_game(self) -> Any:
        return _make_named(self.environment, dict(self.arguments))

    def _rewards(self, rewards: dict[str, Array], infos: dict[str, Any]) -> Float[Array, "seats"]:
        earned = super()._rewards(rewards, infos)
        return earned + self.shaping * super()._rewards(infos["shaped_reward"], {}) if self.shaping else earned


def from_jaxmarl(
    environment: str,
    horizon: int | None = None,
    reward: str = BY_AGENT,
    shaping: float = 0.0,
    seats_swap: bool = False,
    **arguments: Any,
) -> JaxMarl:
    """Wrap a JaxMARL environment as a coverset environment; see `JaxMarl`.

    Args:
      environment: JaxMARL's name, such as `MPE_simple_spread_v3`, or `module:function` that makes it.
      horizon: steps until truncation; the environment's own time limit by default.
      reward: `by-agent` for each agent's own reward, `mean` or `sum` for one that is common to all.
      shaping: weight of the shaped reward that some environments report.
      seats_swap: whether the agents are interchangeable.
      **arguments: keyword arguments of the environment.
    """
    pairs = tuple(sorted(arguments.items()))
    if horizon is None:
        horizon = _find_time_limit(environment, _make_named(environment, arguments))
    return JaxMarl(environment, horizon, reward, shaping, seats_swap, pairs)


def overcooked(layout: str = "cramped_room", horizon: int = 400, shaping: float = 0.0) -> JaxMarl:
    """Overcooked, version 1, on one of JaxMARL's layouts. Both players share one reward.

    Args:
      layout: such as `cramped_room`, `asymm_advantages`, `coord_ring`, `forced_coord` or `counter_circuit`.
      horizon: steps of an episode.
      shaping: weight of the shaped reward for steps towards a soup, without which random pairs rarely earn a reward.
    """
    arguments = (("layout", layout), ("max_steps", horizon))
    return JaxMarl(f"{__name__}:make_overcooked", horizon, "mean", shaping, arguments=arguments)


def make_overcooked(layout: str, max_steps: int) -> MultiAgentEnv:
    """Make JaxMARL's environment for a named layout."""
    from jaxmarl.environments.overcooked import Overcooked, overcooked_layouts

    check_one_of("layout", layout, overcooked_layouts)
    with warnings.catch_warnings():
        # It recommends version 2, which is a different game.
        warnings.filterwarnings("ignore", "OvercookedV2 is now released", DeprecationWarning)
        return Overcooked(layout=overcooked_layouts[layout], max_steps=max_steps)


def _make_named(name: str, arguments: dict[str, Any]) -> Any:
    """Make the environment that JaxMARL, or an import path, calls `name`."""
    if ":" in name:
        maker = import_named("environment", name)
        return call_named("environment", name, maker, **arguments)
    check_one_of("environment", name, NAMES)
    return call_named("environment", name, make, name, **arguments)


def _find_time_limit(name: str, game: Any) -> int:
    limit = getattr(game, "max_steps", None)
    if limit is None:
        raise ValueError(f"horizon must be given for '{name}', which has no time limit of its own.")
    return int(limit)


def _check_time_limit(name: str, game: MultiAgentEnv, horizon: int) -> None:
    """Raise if the environment stops before the horizon, where its time limit would count as the end of the game."""
    limit = int(getattr(game, "max_steps", horizon))
    if limit < horizon:
        raise ValueError(f"horizon must be at most {limit}, the time limit with which '{name}' is made, got {horizon}.")


class _Inspected(NamedTuple):
    """JaxMARL's environment, and what it tells about its agents, in their order."""

    game: MultiAgentEnv
    num_actions: tuple[int, ...]
    sizes: tuple[int, ...]
    """Lengths of the flat observations."""
    find_masks: MaskMethod | None


@lru_cache(maxsize=64)
def _inspect(adapter: JaxMarlGame) -> _Inspected:
    """Make and inspect the environment, once for equal adapters; raises ValueError if it is unsupported."""
    # Environments make arrays when they are made, which must not become part of a program that is being traced.
    with jax.ensure_compile_time_eval(), implicit_promotion():
        game = adapter.make_game()
        name = getattr(adapter, "environment", type(adapter).__name__)
        _check_game(name, game)
        try:
            return _inspect_agents(name, game)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                f"'{name}' must have an action space and an array as observation for each of its agents, "
                f"but {describe_exception(error)}."
            ) from error


def _inspect_agents(name: str, game: MultiAgentEnv) -> _Inspected:
    spaces: dict[str, Any] = {agent: game.action_space(agent) for agent in game.agents}
    for agent, space in spaces.items():
        if not hasattr(space, "n"):
            raise ValueError(f"Actions of '{agent}' in '{name}' must be Discrete, got {type(space).__name__}.")
    num_actions = {agent: int(space.n) for agent, space in spaces.items()}
    observations, state = jax.eval_shape(game.reset, jax.random.key(0))
    sizes = tuple(int(np.prod(observations[agent].shape)) for agent in game.agents)
    find_masks = _find_mask_method(game)
    if find_masks is not None:
        _check_masks(jax.eval_shape(find_masks, state), num_actions)
    return _Inspected(game, tuple(num_actions.values()), sizes, find_masks)


def _check_game(name: str, game: Any) -> None:
    if not isinstance(game, MultiAgentEnv):
        raise ValueError(f"'{name}' must make a JaxMARL environment, got {type(game).__name__}.")
    if len(game.agents) < 2:
        raise ValueError(f"'{name}' must have two or more agents, got {len(game.agents)}.")


def _find_mask_method(game: MultiAgentEnv) -> MaskMethod | None:
    """The method that gives legal actions, if the environment has one; that of the base class raises."""
    for name in MASK_METHODS:
        found = inspect.getattr_static(type(game), name, None)
        if found is not None and found is not inspect.getattr_static(MultiAgentEnv, name, None):
            return getattr(game, name)
    return None


def _check_masks(masks: dict[str, Any], num_actions: dict[str, int]) -> None:
    for agent, number in num_actions.items():
        if masks[agent].shape != (number,):
            got = list(masks[agent].shape)
            raise ValueError(f"Legal actions of '{agent}' must be a vector of its {number} actions, got shape {got}.")
