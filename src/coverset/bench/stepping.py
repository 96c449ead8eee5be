"""Environments alone: random actions, observations, and a fresh episode wherever one ends.

Jumanji's Level-based Foraging, with as many objects and its own auto-reset, steps in the same run if it is installed.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.bench.effort import Effort
from coverset.bench.timing import median_ratio, take_turns
from coverset.envs import registry
from coverset.envs.base import Environment, autoreset
from coverset.envs.foraging import Foraging
from coverset.types import PRNGKey, PyTree

JUMANJI = "jumanji foraging"
COMPARED = "foraging"
JUMANJI_SIZE = 7
"""The smallest grid on which Jumanji accepts three objects."""


class Walk(NamedTuple):
    """Environments under way; what they show is carried along, so that no step can leave it out."""

    states: PyTree
    observations: PyTree
    rewards: Float[Array, "n"]


class Walks:
    """Random play under way. Each call steps `length` times in all environments, in one dispatch."""

    def __init__(self, walk: PyTree, advance: Callable[[PRNGKey, PyTree], PyTree]) -> None:
        self.walk = walk
        self.key = jax.random.key(1)
        self.advance = jax.jit(advance)

    def __call__(self) -> PyTree:
        self.key, key = jax.random.split(self.key)
        self.walk = self.advance(key, self.walk)
        return self.walk


def random_walks(environment: Environment, count: int, length: int) -> Walks:
    """`count` environments of ours."""
    states = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), count))
    start = Walk(states, jax.vmap(environment.observe)(states), jnp.zeros(count))

    def advance(key: PRNGKey, walk: Walk) -> Walk:
        action_key, reset_key, step_key = jax.random.split(key, 3)
        draws = (
            jax.random.randint(action_key, (length, count, 2), 0, jnp.array(environment.num_actions)),
            jax.vmap(jax.vmap(environment.reset))(jax.random.split(reset_key, (length, count))),
            jax.random.split(step_key, (length, count)),
        )
        return jax.lax.scan(lambda at, draw: (_step(environment, at, *draw), None), walk, draws)[0]

    return Walks(start, advance)


def _step(environment: Environment, walk: Walk, actions: Array, fresh: PyTree, keys: Array) -> Walk:
    outcome = jax.vmap(environment.step)(keys, walk.states, actions)
    states = jax.vmap(autoreset)(outcome, fresh)
    return Walk(states, jax.vmap(environment.observe)(states), walk.rewards + outcome.reward)


def jumanji_walks(count: int, length: int) -> Walks:
    """The same of Jumanji's game, with the objects and the horizon of our `foraging`."""
    from jumanji.environments.routing.lbf.env import LevelBasedForaging
    from jumanji.environments.routing.lbf.generator import RandomGenerator
    from jumanji.wrappers import VmapAutoResetWrapper

    ours = Foraging()
    generator = RandomGenerator(
        grid_size=JUMANJI_SIZE, fov=JUMANJI_SIZE, num_agents=2, num_food=ours.num_objects, force_coop=True
    )
    game = VmapAutoResetWrapper(LevelBasedForaging(generator, time_limit=ours.horizon))
    states, shown = game.reset(jax.random.split(jax.random.PRNGKey(0), count))
    start = Walk(states, shown.observation, jnp.zeros(count))

    def advance(key: PRNGKey, walk: Walk) -> Walk:
        def step(at: Walk, actions: Array) -> tuple[Walk, None]:
            states, reached = game.step(at.states, actions)
            return Walk(states, reached.observation, at.rewards + reached.reward.sum(axis=-1)), None

        actions = jax.random.randint(key, (length, count, 2), 0, ours.num_actions[0])
        return jax.lax.scan(step, walk, actions)[0]

    return Walks(start, advance)


def measure_stepping(environments: Sequence[str], effort: Effort, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """A row for every environment, and for Jumanji's where it can be compared."""
    count, length = effort.stepping_envs, effort.stepping_length
    work = {name: random_walks(registry.make(name), count, length) for name in environments}
    compared = COMPARED in work and find_spec("jumanji") is not None
    if compared:
        work[JUMANJI] = jumanji_walks(count, length)
    seconds = take_turns(work, repeats=effort.repeats, clock=clock)
    rows = [
        {"env": name, "num_envs": count, "steps_per_second": count * length / median(seconds[name])} for name in work
    ]
    if compared:
        rows[-1]["foraging_is_times_as_fast"] = median_ratio(seconds[JUMANJI], seconds[COMPARED])
    return rows
