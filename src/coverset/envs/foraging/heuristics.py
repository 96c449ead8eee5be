"""Heuristics H1 to H8 of Level-based Foraging (Rahman et al. 2024, Appendix A), for any grid and number of objects.

Heuristics do not observe the partner, so they detect it by a failed move. They then walk around that cell or try again,
with probability 1/2 each; otherwise two identical heuristics could block each other forever.

In a team of several teammates each follows the heuristic by itself, and remembers as many blocked cells as it has
partners: with only one it could walk back and forth between two sides of an object at which others stand.
"""

import itertools
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.envs.extensions import number_heuristics
from coverset.envs.foraging.dynamics import LOAD, MAX_ORDERED_OBJECTS, NONE, NORTH, NOWHERE, Foraging, ForagingView
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

NEAREST, BY_RANK, FURTHEST = 1, 0, -1
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
"""Row and column change of the actions none, north, south, west, east, load."""
FAR = 10_000
"""Distance of unreachable cells."""


class ForagingMemory(NamedTuple):
    """Memory of `ObjectCollector`."""

    target: Int[Array, ""]
    """The object to collect next."""
    position: Int[Array, "2"]
    """The cell one step ago."""
    action: Int[Array, ""]
    """The action one step ago."""
    blocked: Int[Array, "*partners 2"]
    """A cell to walk around until the target changes, or `NOWHERE`; with several partners as many, newest first."""


@final
class ObjectCollector(Policy):
    """Choose an object, walk to an adjacent cell by a shortest path, load until it is collected, choose the next.

    With `nearness` 1 or -1 the target is the nearest or furthest remaining object, by Manhattan distance from the
    current cell, with ties broken by rank; with 0 it is the object of lowest rank. Among shortest paths it takes the
    first in the order north, south, west, east. It stays in place when no objects remain.
    """

    environment: Foraging = eqx.field(static=True)
    nearness: Int[Array, ""]
    ranks: Int[Array, "M"]
    """A permutation of 0..M-1."""

    def initial_memory(self) -> ForagingMemory:
        partners = () if self.environment.players == 2 else (self.environment.players - 1,)
        nowhere, blocked = jnp.full(2, NOWHERE, jnp.int32), jnp.full((*partners, 2), NOWHERE, jnp.int32)
        return ForagingMemory(target=jnp.int32(0), position=nowhere, action=jnp.int32(NONE), blocked=blocked)

    def act(self, key: PRNGKey, percept: Percept, memory: ForagingMemory) -> tuple[Int[Array, ""], ForagingMemory]:
        view = self.environment.view(percept.observation)
        kept = ~percept.first & view.present[memory.target]
        target = jnp.where(kept, memory.target, self._choose(view))
        blocked = jnp.where(kept, _update_blocked_cell(key, view, memory), NOWHERE)
        action = self._approach(view, target, blocked)
        return action, ForagingMemory(target, view.position, action, blocked)

    def _choose(self, view: ForagingView) -> Int[Array, ""]:
        distance = jnp.sum(jnp.abs(view.cells - view.position[None]), axis=-1)
        cost = self.nearness * distance * self.environment.num_objects + self.ranks
        return jnp.argmin(jnp.where(view.present, cost, jnp.iinfo(jnp.int32).max)).astype(jnp.int32)

    def _approach(
        self, view: ForagingView, target: Int[Array, ""], blocked: Int[Array, "*partners 2"]
    ) -> Int[Array, ""]:
        """Load if adjacent to the target, else take the first step of a shortest path.

        With one partner a path always exists: objects touch neither each other nor the border, so no single cell
        disconnects the grid. Without a path the player moves north until it forgets the cells that are in the way.
        """
        cell = view.cells[target]
        around = self._distances_from_neighbours(view, cell, blocked)
        beside = jnp.sum(jnp.abs(view.position - cell)) == 1
        action = jnp.where(beside, LOAD, NORTH + jnp.argmin(around))
        return jnp.where(jnp.any(view.present), action, NONE).astype(jnp.int32)

    def _distances_from_neighbours(
        self, view: ForagingView, cell: Int[Array, "2"], blocked: Int[Array, "*partners 2"]
    ) -> Int[Array, "4"]:
        """Steps to a cell adjacent to `cell` from the player's four neighbours, in the order of the actions."""
        rows, columns = _make_padded_grid(self.environment.size)
        obstacles = jnp.concatenate([view.cells, blocked.reshape(-1, 2)])
        on_obstacle = (rows == obstacles[:, :1, None]) & (columns == obstacles[:, 1:, None])
        inside = (rows >= 0) & (rows < self.environment.size) & (columns >= 0) & (columns < self.environment.size)
        free = inside[0] & ~jnp.any(on_obstacle, axis=0)
        goals = free & ((jnp.abs(rows - cell[0]) + jnp.abs(columns - cell[1]))[0] == 1)
        here = (rows == view.position[0]) & (columns == view.position[1])
        away = _compute_distances(goals, free, sweeps=2 * self.environment.size + 2 * len(obstacles))
        return jnp.sum(jnp.where(here, _shift_to_neighbours(away), 0), axis=(1, 2))


def _update_blocked_cell(key: PRNGKey, view: ForagingView, memory: ForagingMemory) -> Int[Array, "*partners 2"]:
    """Return the cells to walk around: after a failed move its target with probability 1/2 instead of the oldest."""
    move = jnp.array(MOVES, jnp.int32)[memory.action]
    failed = jnp.any(move != 0) & jnp.all(view.position == memory.position)
    kept = memory.blocked.reshape(-1, 2)[:-1]
    blocked = jnp.concatenate([(view.position + move)[None], kept]).reshape(memory.blocked.shape)
    return jnp.where(failed & jax.random.bernoulli(key), blocked, memory.blocked)


def _make_padded_grid(size: int) -> tuple[Int[Array, "1 s s"], Int[Array, "1 s s"]]:
    """Row and column of each cell of a grid padded by one cell, with a leading axis for broadcasting."""
    numbers = jnp.arange(-1, size + 1)
    rows, columns = jnp.meshgrid(numbers, numbers, indexing="ij")
    return rows[None], columns[None]


def _shift_to_neighbours(grid: Int[Array, "s s"]) -> Int[Array, "4 s s"]:
    """Values of `grid` north, south, west and east of each cell; values at the padding are meaningless."""
    return jnp.stack([jnp.roll(grid, -row, 0) if row else jnp.roll(grid, -column, 1) for row, column in MOVES[1:5]])


def _compute_distances(goals: Bool[Array, "s s"], free: Bool[Array, "s s"], sweeps: int) -> Int[Array, "s s"]:
    """Steps from each free cell to the nearest goal over free cells; `FAR` for all other cells.

    Paths of up to `sweeps` steps are found. Each obstacle that touches no other adds at most two steps.
    """

    def sweep(_, away):
        return jnp.where(free, jnp.minimum(away, 1 + jnp.min(_shift_to_neighbours(away), axis=0)), FAR)

    return jax.lax.fori_loop(0, sweeps, sweep, jnp.where(goals, 0, FAR))


def list_heuristics(environment: Foraging) -> dict[str, tuple[ObjectCollector, str]]:
    """Return nearest first, furthest first, then every order (H1 to H8 for three objects), with a sentence each."""
    number = environment.num_objects
    by_id = jnp.arange(number, dtype=jnp.int32)
    collectors = [
        (ObjectCollector(environment, jnp.int32(NEAREST), by_id), "Always collects the nearest remaining object."),
        (
            ObjectCollector(environment, jnp.int32(FURTHEST), by_id),
            "Always collects the furthest remaining object.",
        ),
    ]
    orders = itertools.permutations(range(number)) if number <= MAX_ORDERED_OBJECTS else ()
    for order in orders:
        ranks = jnp.array([order.index(each) for each in range(number)], jnp.int32)
        name = "-".join(str(each + 1) for each in order)
        collectors.append(
            (ObjectCollector(environment, jnp.int32(BY_RANK), ranks), f"Collects the objects in the order {name}.")
        )
    return number_heuristics(collectors)
