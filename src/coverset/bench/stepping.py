"""Throughput of environments alone: random actions, observations and auto-reset.

If Jumanji is installed, its Level-based Foraging, with as many objects and its own auto-reset, is measured too; if
JaxMARL is, its Overcooked on the same layout, with its own auto-reset.
"""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.adapters.promotion import implicit_promotion
from coverset.bench.settings import BenchSettings
from coverset.bench.timing import median_ratio, time_interleaved
from coverset.envs import registry
from coverset.envs.base import Environment, autoreset
from coverset.envs.foraging import Foraging
from coverset.envs.overcooked import Overcooked
from coverset.types import PRNGKey, PyTree

JUMANJI = "jumanji foraging"
JAXMARL = "jaxmarl overcooked"
JUMANJI_SIZE = 7
"""The smallest grid on which Jumanji accepts three objects."""


class RolloutState(NamedTuple):
    """States of a batch of environments; carrying the observations keeps the compiler from removing them."""

    states: PyTree
    observations: PyTree
    rewards: Float[Array, "n"]


class RandomRollout:
    """A random rollout in progress. Each call steps every environment `length` times, in one dispatch."""

    def __init__(self, state: PyTree, advance: Callable[[PRNGKey, PyTree], PyTree]) -> None:
        self.state = state
        self.key = jax.random.key(1)
        self.advance = jax.jit(advance)

    def __call__(self) -> PyTree:
        self.key, key = jax.random.split(self.key)
        self.state = self.advance(key, self.state)
        return self.state


def make_rollout(environment: Environment, count: int, length: int) -> RandomRollout:
    """A random rollout of `count` environments."""
    states = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), count))
    start = RolloutState(states, jax.vmap(environment.observe)(states), jnp.zeros(count))

    def advance(key: PRNGKey, state: RolloutState) -> RolloutState:
        action_key, reset_key, step_key = jax.random.split(key, 3)
        draws = (
            jax.random.randint(action_key, (length, count, 2), 0, jnp.array(environment.num_actions)[None, None]),
            jax.vmap(jax.vmap(environment.reset))(jax.random.split(reset_key, (length, count))),
            jax.random.split(step_key, (length, count)),
        )
        return jax.lax.scan(lambda at, draw: (_step(environment, at, *draw), None), state, draws)[0]

    return RandomRollout(start, advance)


def _step(environment: Environment, state: RolloutState, actions: Array, fresh: PyTree, keys: Array) -> RolloutState:
    outcome = jax.vmap(environment.step)(keys, state.states, actions)
    states = jax.vmap(autoreset)(outcome, fresh)
    return RolloutState(states, jax.vmap(environment.observe)(states), state.rewards + outcome.reward)


def make_jumanji_rollout(count: int, length: int) -> RandomRollout:
    """A random rollout of Jumanji's game, with the number of objects and the horizon of `foraging`."""
    from jumanji.environments.routing.lbf.env import LevelBasedForaging
    from jumanji.environments.routing.lbf.generator import RandomGenerator
    from jumanji.wrappers import VmapAutoResetWrapper

    ours = Foraging()
    generator = RandomGenerator(
        grid_size=JUMANJI_SIZE, fov=JUMANJI_SIZE, num_agents=2, num_food=ours.num_objects, force_coop=True
    )
    game = VmapAutoResetWrapper(LevelBasedForaging(generator, time_limit=ours.horizon))
    with implicit_promotion():
        states, shown = game.reset(jax.random.split(jax.random.PRNGKey(0), count))
    start = RolloutState(states, shown.observation, jnp.zeros(count))

    def advance(key: PRNGKey, state: RolloutState) -> RolloutState:
        def step(at: RolloutState, actions: Array) -> tuple[RolloutState, None]:
            with implicit_promotion():
                states, reached = game.step(at.states, actions)
            return RolloutState(states, reached.observation, at.rewards + reached.reward.sum(axis=-1)), None

        actions = jax.random.randint(key, (length, count, 2), 0, ours.num_actions[0])
        return jax.lax.scan(step, state, actions)[0]

    return RandomRollout(start, advance)


def make_jaxmarl_rollout(count: int, length: int) -> RandomRollout:
    """A random rollout of JaxMARL's Overcooked, with the layout and the horizon of `overcooked`."""
    from jaxmarl.environments.overcooked import Overcooked as JaxMarlOvercooked
    from jaxmarl.environments.overcooked import overcooked_layouts

    ours = Overcooked()
    with warnings.catch_warnings(), implicit_promotion():
        warnings.filterwarnings("ignore", "OvercookedV2 is now released", DeprecationWarning)
        game = JaxMarlOvercooked(layout=overcooked_layouts[ours.layout], max_steps=ours.horizon)
        observations, states = jax.vmap(game.reset)(jax.random.split(jax.random.key(0), count))
    start = RolloutState(states, observations, jnp.zeros(count))

    def advance(key: PRNGKey, state: RolloutState) -> RolloutState:
        def step(at: RolloutState, draw: tuple[Array, Array]) -> tuple[RolloutState, None]:
            keys, actions = draw
            with implicit_promotion():
                joint = dict(zip(game.agents, actions.T, strict=True))
                observations, states, rewards, _, _ = jax.vmap(game.step)(keys, at.states, joint)
            return RolloutState(states, observations, at.rewards + rewards[game.agents[0]]), None

        step_key, action_key = jax.random.split(key)
        actions = jax.random.randint(action_key, (length, count, 2), 0, ours.num_actions[0])
        return jax.lax.scan(step, state, (jax.random.split(step_key, (length, count)), actions))[0]

    return RandomRollout(start, advance)


class Rival(NamedTuple):
    """The same game in another package."""

    name: str
    package: str
    make: Callable[[int, int], RandomRollout]


def list_rivals() -> dict[str, Rival]:
    """By the name of our game."""
    return {
        "foraging": Rival(JUMANJI, "jumanji", make_jumanji_rollout),
        "overcooked": Rival(JAXMARL, "jaxmarl", make_jaxmarl_rollout),
    }


def measure_stepping(
    environments: Sequence[str], settings: BenchSettings, clock: Callable[[], float]
) -> list[dict[str, Any]]:
    """A row for every environment, then one for each of the same games in other packages that are installed."""
    count, length = settings.stepping_envs, settings.stepping_length
    work = {name: make_rollout(registry.make(name), count, length) for name in environments}
    rivals = {ours: rival for ours, rival in list_rivals().items() if ours in work and find_spec(rival.package)}
    work |= {rival.name: rival.make(count, length) for rival in rivals.values()}
    seconds = time_interleaved(work, repeats=settings.repeats, clock=clock)
    rows = {
        name: {"env": name, "num_envs": count, "steps_per_second": count * length / median(seconds[name])}
        for name in work
    }
    for ours, rival in rivals.items():
        rows[rival.name][f"{ours}_is_times_as_fast"] = median_ratio(seconds[rival.name], seconds[ours])
    return list(rows.values())
