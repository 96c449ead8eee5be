"""The critic's estimates of what every best response earns with every team: what moves multipliers and restarts."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.envs.base import Environment
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Steps
from coverset.teammates.critic import PairCritic
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PRNGKey

TeamValues: TypeAlias = tuple[Float[Array, "R C"], Float[Array, "S K K"] | None]
"""The critic's estimates for pairs, and for mixed teams where they play."""


def estimate_team_values(
    key: PRNGKey, game: Environment, grid: PairGrid, critic: PairCritic, steps: Steps, settings: GenerateSettings
) -> TeamValues:
    """The critic's estimate of every best response's expected return with every team, over states that all share.

    Args:
      key: of the random numbers.
      game: what is played in training.
      grid: the pair grid.
      critic: estimates values.
      steps: a rollout, for the states of `value_states` `batch`.
      settings: of the run.
    """
    observations = _sample_observations(key, game, steps, settings)
    pairs = jnp.meshgrid(jnp.arange(grid.rows), jnp.arange(grid.num_teams), indexing="ij")
    identity = critic.identity(*pairs)[:, :, None]
    shape, memory = (grid.rows, grid.num_teams, settings.value_samples), ()
    if critic.network.recurrent:
        observations = jnp.broadcast_to(observations, (*shape, *observations.shape[1:]))
        memory = critic.network.initial_memory(*shape)
    values, _ = critic.step(observations, memory, identity)
    ego = values[..., 0] if values.ndim > len(shape) else values
    return whole_and_mixed(grid, ego.mean(axis=-1))


def _sample_observations(
    key: PRNGKey, game: Environment, steps: Steps, settings: GenerateSettings
) -> Float[Array, "n seats d"]:
    """Of fresh initial states, or of states of the rollout."""
    if settings.value_states == "initial":
        fresh = jax.vmap(game.reset)(jax.random.split(key, settings.value_samples))
        return jax.vmap(game.observe)(fresh)
    visited = steps.observations.reshape(-1, *steps.observations.shape[-2:])
    return visited[jax.random.randint(key, (settings.value_samples,), 0, visited.shape[0])]


def whole_and_mixed(grid: PairGrid, values: Float[Array, "R teams"]) -> TeamValues:
    """Values of pairs and of mixed teams; a team of which no seat is taken is a whole one."""
    pairs, mixed = grid.split_teams(values)
    if mixed is None:
        return pairs, None
    whole = jnp.eye(mixed.shape[1], dtype=bool)[None]
    return pairs, jnp.where(whole, jnp.diagonal(pairs)[None, :, None], mixed)
