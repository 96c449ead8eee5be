"""Records that methods read, for tests of their arithmetic: a run of a small population in a small game."""

from typing import Any

import jax
import jax.numpy as jnp

from coverset.envs.base import Environment
from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.collect import collect, start_playing
from coverset.teammates.method import Method, Rollout, Seen, World
from coverset.teammates.networks import Networks, init_networks


def small_world(size: int, environment: Environment | None = None, method: Method | None = None, **settings) -> World:
    """A run of a population of this size."""
    chosen = GenerateSettings(**{"population_size": size, "total_steps": 1, "hidden_sizes": (4,), **settings})
    rows_columns = (size, size) if method is None else method.grid_size(chosen)
    return World(environment or MatrixGame(), chosen, *rows_columns)


def seen_values(values: jax.Array, update: int = 0, **changes: Any) -> Seen:
    """An update of which only the pair values matter."""
    nothing: Any = None
    none = jnp.zeros(max(values.shape), bool)
    world = small_world(values.shape[0])
    return Seen(world, jnp.int32(update), jnp.float32(0.0), values, nothing, nothing, none)._replace(**changes)


def play_rollout(method: Method, world: World, *, length: int = 4, seed: int = 0, scale: float = 1.0) -> Rollout:
    """A rollout of untrained policies on a method's grid; `scale` multiplies their logits, which tell them apart."""
    grid = method.grid(world.settings)
    networks = init_networks(jax.random.key(seed), world.environment, world.settings, (grid.rows, grid.columns))
    networks = spread_logits(networks, scale)
    playing = start_playing(jax.random.key(seed + 1), world.environment, grid, networks)
    steps, _, _ = collect(jax.random.key(seed + 2), world.environment, grid, networks, playing, length=length)
    return Rollout(world, grid, steps, networks, jnp.float32(0.0))


def spread_logits(networks: Networks, scale: float) -> Networks:
    """The same networks with larger weights in their last layers."""

    def larger(stack: Any) -> Any:
        return type(stack)((*stack.weights[:-1], scale * stack.weights[-1]), stack.biases, stack.fourier)

    return networks._replace(best_responses=larger(networks.best_responses), teammates=larger(networks.teammates))
