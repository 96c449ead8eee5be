"""Level-based Foraging from Jumanji (Bonnet et al. 2024), fully in JAX.

Needs the extra `coverset[jumanji]`. It differs from coverset's `foraging`: players and objects have levels, which are
observed, the players observe each other, and objects are placed at random in every episode.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from jumanji.environments.routing.lbf.env import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator

from coverset.checks import check_at_least, check_between, check_finite
from coverset.envs.base import Environment
from coverset.types import Actions, Observations, Outcome, PRNGKey, PyTree

SMALLEST_GRID = 5


class JumanjiState(NamedTuple):
    """Jumanji's own state, and the observations of both players."""

    inner: PyTree
    views: Float[Array, "2 d"]


@dataclass(frozen=True)
class JumanjiForaging(Environment):
    """Two players collect objects, together if the levels require it. The common reward is the sum of their rewards.

    Actions: 0 none, 1 up, 2 down, 3 left, 4 right, 5 load. Observation: row, column and level of each object and each
    player, itself first; -1, -1, 0 for objects that are collected or out of sight.
    """

    size: int = 8
    """Cells along a side."""
    num_objects: int = 2
    """Number of objects: at most 6 for size 8, at most 1 for size 5."""
    horizon: int = 100
    """Steps until truncation."""
    sight: int = 8
    """Cells that a player sees in each direction, at most `size`."""
    max_level: int = 2
    """Highest level of a player, at least 2."""
    force_coop: bool = True
    """Whether every object needs both players."""
    penalty: float = 0.0
    """Penalty for a load that fails because the levels are too low."""

    def __post_init__(self) -> None:
        check_at_least("size", self.size, SMALLEST_GRID, "as Jumanji requires")
        check_between("num_objects", self.num_objects, 1, self._most_objects)
        check_at_least("horizon", self.horizon, 1)
        check_at_least("sight", self.sight, 1)
        check_at_least("max_level", self.max_level, 2, "as Jumanji requires")
        check_finite("penalty", self.penalty)
        _make_game(self)

    @property
    def _most_objects(self) -> int:
        """Jumanji requires five inner cells per object, and more than two beyond those."""
        return ((self.size - 2) ** 2 - 3) // 5

    @property
    def observation_size(self) -> int:
        return 3 * (self.num_objects + 2)

    @property
    def num_actions(self) -> tuple[int, int]:
        return 6, 6

    def reset(self, key: PRNGKey) -> JumanjiState:
        # Jumanji's state holds the key; raw key data can be carried, stored and compared like other arrays.
        inner, start = _make_game(self).reset(jax.random.key_data(key))
        return JumanjiState(inner, _flatten_observations(start))

    def step(self, key: PRNGKey, state: JumanjiState, actions: Actions) -> Outcome:
        del key
        inner, reached = _make_game(self).step(state.inner, actions)
        last = jnp.asarray(reached.last())
        terminated = last & jnp.all(reached.discount == 0)
        reward = jnp.sum(reached.reward).astype(jnp.float32)
        return Outcome(JumanjiState(inner, _flatten_observations(reached)), reward, terminated, last & ~terminated)

    def observe(self, state: JumanjiState) -> Observations:
        return state.views

    def render(self, state: JumanjiState) -> str:
        """A grid with objects as their levels, seat 0 as X, seat 1 as O, and free cells as dots."""
        grid = [["." for _ in range(self.size)] for _ in range(self.size)]
        food, agents = state.inner.food_items, state.inner.agents
        for (row, column), level, eaten in zip(
            food.position.tolist(), food.level.tolist(), food.eaten.tolist(), strict=True
        ):
            if not eaten:
                grid[row][column] = str(level)
        for name, (row, column) in zip("XO", agents.position.tolist(), strict=True):
            grid[row][column] = name
        return "\n".join(" ".join(line) for line in grid)


def _flatten_observations(timestep: Any) -> Float[Array, "2 d"]:
    views = timestep.observation.agents_view
    return views.reshape(2, -1).astype(jnp.float32)


@lru_cache(maxsize=64)
def _make_game(adapter: JumanjiForaging) -> LevelBasedForaging:
    generator = RandomGenerator(
        grid_size=adapter.size,
        fov=min(adapter.sight, adapter.size),
        num_agents=2,
        num_food=adapter.num_objects,
        max_agent_level=adapter.max_level,
        force_coop=adapter.force_coop,
    )
    return LevelBasedForaging(generator, time_limit=adapter.horizon, penalty=adapter.penalty)
