"""Level-based Foraging from Jumanji (Bonnet et al. 2024), fully in JAX.

Needs the extra `coverset[jumanji]`. It differs from coverset's `foraging`: players and objects have levels, which are
observed, the players observe each other, and objects are placed at random in every episode.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from jumanji.environments.routing.lbf.env import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator

from coverset.adapters.conversion import REWARDS, combine_rewards, implicit_promotion
from coverset.checks import check_at_least, check_between, check_finite, check_one_of
from coverset.envs.base import Environment
from coverset.types import Actions, Observations, Outcome, PRNGKey, PyTree

SMALLEST_GRID = 5
LETTERS = "XOABCDEFGHIJ"
"""Names of the seats in the text of a state; no more players fit."""


class JumanjiState(NamedTuple):
    """Jumanji's own state, and what the players observe in it and may do."""

    inner: PyTree
    views: Float[Array, "seats d"]
    legal: Bool[Array, "seats 6"]


@dataclass(frozen=True)
class JumanjiForaging(Environment):
    """Players collect objects, together if the levels require it. By default all share the sum of their rewards.

    Actions: 0 none, 1 up, 2 down, 3 left, 4 right, 5 load; moves to cells that are taken, and loads away from objects,
    are illegal. Observation: row, column and level of each object and each player, itself first; -1, -1, 0 for objects
    that are collected or out of sight.
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
    """Whether every object needs as many players as can be required: all of two or three, three of more."""
    penalty: float = 0.0
    """Penalty for a load that fails because the levels are too low."""
    num_agents: int = 2
    """Number of players."""
    reward: str = "sum"
    """`by-agent` for each player's own reward, `sum` or `mean` for one that is common to all."""

    def __post_init__(self) -> None:
        check_at_least("size", self.size, SMALLEST_GRID, "as Jumanji requires")
        check_between("num_agents", self.num_agents, 2, min(len(LETTERS), (self.size - 2) ** 2 - 6))
        check_between("num_objects", self.num_objects, 1, self._most_objects)
        check_at_least("horizon", self.horizon, 1)
        check_at_least("sight", self.sight, 1)
        check_at_least("max_level", self.max_level, 2, "as Jumanji requires")
        check_finite("penalty", self.penalty)
        check_one_of("reward", self.reward, REWARDS)
        _make_game(self)

    @property
    def _most_objects(self) -> int:
        """Jumanji requires five inner cells per object, and beyond those more cells than players."""
        return ((self.size - 2) ** 2 - self.num_agents - 1) // 5

    @property
    def observation_size(self) -> int:
        return 3 * (self.num_objects + self.num_agents)

    @property
    def num_actions(self) -> tuple[int, ...]:
        return (6,) * self.num_agents

    def reset(self, key: PRNGKey) -> JumanjiState:
        # Jumanji's state holds the key; raw key data can be carried, stored and compared like other arrays.
        with implicit_promotion():
            inner, start = _make_game(self).reset(jax.random.key_data(key))
        return _join(inner, start)

    def step(self, key: PRNGKey, state: JumanjiState, actions: Actions) -> Outcome:
        del key
        with implicit_promotion():
            inner, reached = _make_game(self).step(state.inner, actions)
        last = jnp.asarray(reached.last())
        terminated = last & jnp.all(reached.discount == 0)
        reward = combine_rewards(self.reward, reached.reward.astype(jnp.float32))
        return Outcome(_join(inner, reached), reward, terminated, last & ~terminated)

    def observe(self, state: JumanjiState) -> Observations:
        return state.views

    def legal_actions(self, state: JumanjiState) -> Bool[Array, "seats 6"]:
        return state.legal

    def render(self, state: JumanjiState, seat: int | None = None) -> str:
        """A grid: objects are levels, seats X, O, A, B, ..., free cells dots, and cells out of a player's sight ?."""
        grid = [["." for _ in range(self.size)] for _ in range(self.size)]
        food, agents = state.inner.food_items, state.inner.agents
        for (row, column), level, eaten in zip(
            food.position.tolist(), food.level.tolist(), food.eaten.tolist(), strict=True
        ):
            if not eaten:
                grid[row][column] = str(level)
        for name, (row, column) in zip(LETTERS, agents.position.tolist(), strict=False):
            grid[row][column] = name
        if seat is not None:
            self._hide_unseen(grid, agents.position[seat].tolist())
        return "\n".join(" ".join(line) for line in grid)

    def _hide_unseen(self, grid: list[list[str]], place: list[int]) -> None:
        """Cover the cells that a player at `place` does not see."""
        for row, column in np.ndindex(self.size, self.size):
            if max(abs(row - place[0]), abs(column - place[1])) > self.sight:
                grid[row][column] = "?"


def _join(inner: PyTree, timestep: Any) -> JumanjiState:
    """Jumanji's state with what it tells the players."""
    seen = timestep.observation
    return JumanjiState(inner, seen.agents_view.astype(jnp.float32), seen.action_mask)


@lru_cache(maxsize=64)
def _make_game(adapter: JumanjiForaging) -> LevelBasedForaging:
    generator = RandomGenerator(
        grid_size=adapter.size,
        fov=min(adapter.sight, adapter.size),
        num_agents=adapter.num_agents,
        num_food=adapter.num_objects,
        max_agent_level=adapter.max_level,
        force_coop=adapter.force_coop,
    )
    return LevelBasedForaging(generator, time_limit=adapter.horizon, penalty=adapter.penalty)
