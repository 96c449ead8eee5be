"""Heuristics H1 to H8 of Level-based Foraging (Rahman et al. 2024, Appendix A), for any grid and number of objects.

The partner may stand in the way and is not looked at, so a heuristic learns of it by a move that failed. It then goes
around that cell or tries again, by the toss of a coin: two of a kind that did the same would meet again and again.
"""

import itertools
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.envs.extensions import number_heuristics
from coverset.envs.foraging.dynamics import LOAD, MOST_ORDERED_OBJECTS, NONE, NORTH, NOWHERE, Foraging, ForagingView
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

NEAREST, BY_RANK, FURTHEST = 1, 0, -1
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
"""Row and column change of the actions none, north, south, west, east, load."""
FAR = 10_000
"""A distance that stands for no way at all."""


class ForagingMemory(NamedTuple):
    """What a collector keeps from step to step."""

    target: Int[Array, ""]
    """The object it is after."""
    position: Int[Array, "2"]
    """Its cell a step ago."""
    action: Int[Array, ""]
    """What it did a step ago."""
    blocked: Int[Array, "2"]
    """A cell it walks around until its target changes, or `NOWHERE`."""


@final
class ObjectCollector(Policy):
    """Choose an object, walk to a cell beside it by a shortest way, load until it is gone, choose the next.

    With `nearness` 1 or -1 it chooses the nearest or furthest object left, by Manhattan distance from the cell on which
    it stands then; among equals, and with 0 always, the one of lowest rank. Of several shortest ways it takes the first
    in the order north, south, west, east. With nothing left it stands still.
    """

    environment: Foraging = eqx.field(static=True)
    nearness: Int[Array, ""]
    ranks: Int[Array, "M"]
    """A permutation of 0..M-1."""

    def initial_memory(self) -> ForagingMemory:
        nowhere = jnp.full(2, NOWHERE, jnp.int32)
        return ForagingMemory(target=jnp.int32(0), position=nowhere, action=jnp.int32(NONE), blocked=nowhere)

    def act(self, key: PRNGKey, percept: Percept, memory: ForagingMemory) -> tuple[Int[Array, ""], ForagingMemory]:
        view = self.environment.view(percept.observation)
        kept = ~percept.first & view.present[memory.target]
        target = jnp.where(kept, memory.target, self._choose(view))
        blocked = jnp.where(kept, _blocked(key, view, memory), NOWHERE)
        action = self._approach(view, target, blocked)
        return action, ForagingMemory(target, view.position, action, blocked)

    def _choose(self, view: ForagingView) -> Int[Array, ""]:
        distance = jnp.sum(jnp.abs(view.cells - view.position[None]), axis=-1)
        cost = self.nearness * distance * self.environment.num_objects + self.ranks
        return jnp.argmin(jnp.where(view.present, cost, jnp.iinfo(jnp.int32).max)).astype(jnp.int32)

    def _approach(self, view: ForagingView, target: Int[Array, ""], blocked: Int[Array, "2"]) -> Int[Array, ""]:
        """Load beside the target, else take the first step of a shortest way there.

        There always is a way: objects touch neither each other nor the border, so no one cell cuts the grid in two.
        """
        cell = view.cells[target]
        around = self._distances_around(view, cell, blocked)
        beside = jnp.sum(jnp.abs(view.position - cell)) == 1
        action = jnp.where(beside, LOAD, NORTH + jnp.argmin(around))
        return jnp.where(jnp.any(view.present), action, NONE).astype(jnp.int32)

    def _distances_around(self, view: ForagingView, cell: Int[Array, "2"], blocked: Int[Array, "2"]) -> Int[Array, "4"]:
        """Steps to a cell beside `cell` from the four cells around the player, in the order of the actions."""
        rows, columns = _grid(self.environment.size)
        obstacles = jnp.concatenate([view.cells, blocked[None]])
        on_obstacle = (rows == obstacles[:, :1, None]) & (columns == obstacles[:, 1:, None])
        inside = (rows >= 0) & (rows < self.environment.size) & (columns >= 0) & (columns < self.environment.size)
        free = inside[0] & ~jnp.any(on_obstacle, axis=0)
        goals = free & ((jnp.abs(rows - cell[0]) + jnp.abs(columns - cell[1]))[0] == 1)
        here = (rows == view.position[0]) & (columns == view.position[1])
        away = _distances(goals, free, sweeps=2 * self.environment.size + 2 * len(obstacles))
        return jnp.sum(jnp.where(here, _neighbours(away), 0), axis=(1, 2))


def _blocked(key: PRNGKey, view: ForagingView, memory: ForagingMemory) -> Int[Array, "2"]:
    """The cell to walk around: by the toss of a coin the one into which a move has just failed, or that from before."""
    move = jnp.array(MOVES, jnp.int32)[memory.action]
    failed = jnp.any(move != 0) & jnp.all(view.position == memory.position)
    return jnp.where(failed & jax.random.bernoulli(key), view.position + move, memory.blocked)


def _grid(size: int) -> tuple[Int[Array, "1 s s"], Int[Array, "1 s s"]]:
    """Row and column of each cell of a grid with a rim of one cell around it, behind an axis to compare along."""
    numbers = jnp.arange(-1, size + 1)
    rows, columns = jnp.meshgrid(numbers, numbers, indexing="ij")
    return rows[None], columns[None]


def _neighbours(grid: Int[Array, "s s"]) -> Int[Array, "4 s s"]:
    """What `grid` holds north, south, west and east of each cell; around the rim it is meaningless."""
    return jnp.stack([jnp.roll(grid, -row, 0) if row else jnp.roll(grid, -column, 1) for row, column in MOVES[1:5]])


def _distances(goals: Bool[Array, "s s"], free: Bool[Array, "s s"], sweeps: int) -> Int[Array, "s s"]:
    """Steps from each free cell to the nearest goal over free cells, `FAR` from all others.

    Ways of up to `sweeps` steps are found. Around obstacles that do not touch, each costs two steps at most.
    """

    def sweep(_, away):
        return jnp.where(free, jnp.minimum(away, 1 + jnp.min(_neighbours(away), axis=0)), FAR)

    return jax.lax.fori_loop(0, sweeps, sweep, jnp.where(goals, 0, FAR))


def list_heuristics(environment: Foraging) -> dict[str, tuple[ObjectCollector, str]]:
    """H1 to H8 for three objects: nearest first, furthest first, then every order; and a sentence each."""
    number = environment.num_objects
    by_id = jnp.arange(number, dtype=jnp.int32)
    collectors = [
        (ObjectCollector(environment, jnp.int32(NEAREST), by_id), "Collects the nearest object left, again and again."),
        (
            ObjectCollector(environment, jnp.int32(FURTHEST), by_id),
            "Collects the furthest object left, again and again.",
        ),
    ]
    orders = itertools.permutations(range(number)) if number <= MOST_ORDERED_OBJECTS else ()
    for order in orders:
        ranks = jnp.array([order.index(each) for each in range(number)], jnp.int32)
        name = "-".join(str(each + 1) for each in order)
        collectors.append(
            (ObjectCollector(environment, jnp.int32(BY_RANK), ranks), f"Collects the objects in the order {name}.")
        )
    return number_heuristics(collectors)
