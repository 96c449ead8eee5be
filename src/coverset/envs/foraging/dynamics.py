"""Level-based Foraging for two players, both needed for every object (Rahman et al. 2024, environments section).

Movement, collision, loading and random spawning follow the public package `lbforaging`, without Python loops: players
have level 1, objects level 2. `lbforaging` pays each loader 1 / (2 num_objects) per object; the common reward is the
sum.

Differs from the paper: there may be more players, and the level of objects is the number of players that they need.
`lbforaging` then divides 1 / num_objects among those who load; the common reward is the sum again.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.checks import check_at_least, check_between, check_one_of
from coverset.envs.base import OMIT_DEFAULT, Environment, time_limit
from coverset.envs.drawing import Board, Scene
from coverset.envs.oracle import Oracle
from coverset.policy import Policy
from coverset.types import Actions, Observation, Observations, Outcome, PRNGKey

PAPER_CELLS = ((1, 1), (1, 4), (4, 3))
NONE, NORTH, SOUTH, WEST, EAST, LOAD = range(6)
NOT_COLLECTED = -1
NOWHERE = -1
"""Row and column of an object that could not be placed."""
MAX_ORDERED_OBJECTS = 5
"""Most objects for which every order of collection is a convention and a heuristic: 5! = 120 orders."""
SIDES = 4
"""Cells beside an object, and so the most players that can load it."""
MAX_STARTS = 100_000
"""Most initial states of more than two players that are listed."""


class ForagingState(NamedTuple):
    """Positions of players and objects, and the order of collection."""

    positions: Int[Array, "seats 2"]
    """Row and column of every seat."""
    cells: Int[Array, "M 2"]
    """Row and column of each object in row-major order, kept after collection; `NOWHERE` if it was not placed."""
    present: Bool[Array, "M"]
    collected_order: Int[Array, "M"]
    """How many objects were collected before each: 0 for the first, 1 for the second; `NOT_COLLECTED` for the others.
    Objects collected in one step, which is possible where an object does not need all players, have equal numbers."""
    time: Int[Array, ""]


class ForagingView(NamedTuple):
    """One seat's observation, decoded to grid coordinates."""

    position: Int[Array, "2"]
    """The agent's own row and column."""
    cells: Int[Array, "M 2"]
    """Row and column of each remaining object, `NOWHERE` for the others."""
    present: Bool[Array, "M"]


@dataclass(frozen=True)
class Foraging(Environment):
    """Collect every object of a grid together: the players must stand beside it and load in the same step.

    All players are needed unless `needed` says otherwise.

    Actions: 0 none, 1 north, 2 south, 3 west, 4 east, 5 load. Objects have ids 1, 2, ... in row-major order of their
    cells at reset.

    Observation, in this order:
      - the agent's own cell;
      - the teammates' cells, only if `sees_teammate`, that of the next seat first;
      - one slot per object in the order of the ids, all zeros once the object is collected.

    With `encoding="one-hot"` a cell is one-hot in row-major order (size^2 numbers). So is an object's slot with
    `objects="random"`; with fixed objects the slot is a single number, 1 while the object is present. With
    `encoding="coordinates"` a cell is its row and column scaled to [-1, 1] (2 numbers), and a slot is the object's row
    and column scaled in the same way, then 1 while it is present (3 numbers).
    """

    size: int = 6
    """Cells along a side."""
    cells: tuple[tuple[int, int], ...] = PAPER_CELLS
    """Row and column of each object, from 0; sorted in row-major order. Unused with random objects."""
    objects: str = "fixed"
    """`fixed` to `cells`, or `random`: drawn for each episode."""
    num_objects: int = 3
    """Objects per episode. There may be fewer if random objects cannot be placed, as in `lbforaging`."""
    horizon: int = 50
    """Steps until truncation."""
    sees_teammate: bool = False
    """Whether the teammates' cells are part of the observation."""
    encoding: str = "one-hot"
    """`one-hot` or `coordinates`."""
    players: int = field(default=2, metadata=OMIT_DEFAULT)
    """Number of players, of level 1 each."""
    needed: int | None = field(default=None, metadata=OMIT_DEFAULT)
    """Players that an object needs, its level in `lbforaging`; None for all, but no more than its four sides."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(sorted((int(row), int(column)) for row, column in self.cells)))
        check_one_of("objects", self.objects, ("fixed", "random"))
        check_one_of("encoding", self.encoding, ("one-hot", "coordinates"))
        check_at_least(
            "size", self.size, 3 if self.objects == "fixed" else 4, "so that there is room for objects and players"
        )
        check_at_least("num_objects", self.num_objects, 1)
        check_at_least("horizon", self.horizon, 1)
        if self.objects == "fixed":
            _check_cells(self.cells, self.size, self.num_objects)
        check_between("players", self.players, 2, self._most_players)
        if self.needed is not None:
            check_between("needed", self.needed, 1, min(self.players, SIDES))

    @property
    def _most_players(self) -> int:
        """As many as there are free cells; random objects are placed after the players, and one must find room."""
        return self.size**2 - len(self.cells) if self.objects == "fixed" else (self.size - 2) ** 2 - 1

    @property
    def level(self) -> int:
        """Players that an object needs."""
        return min(self.players, SIDES) if self.needed is None else self.needed

    @property
    def observation_size(self) -> int:
        cell, slot = self._widths
        return cell * (self.players if self.sees_teammate else 1) + slot * self.num_objects

    @property
    def num_actions(self) -> tuple[int, ...]:
        return (LOAD + 1,) * self.players

    @property
    def _widths(self) -> tuple[int, int]:
        """Sizes of the encodings of a cell and of an object's slot."""
        if self.encoding == "coordinates":
            return 2, 3
        return self.size**2, 1 if self.objects == "fixed" else self.size**2

    def reset(self, key: PRNGKey) -> ForagingState:
        """Players start on distinct free cells, uniformly; random objects are spawned around them."""
        if self.objects == "fixed":
            positions = self._place_players(key, self.cells)
            cells, present = jnp.array(self.cells, jnp.int32), jnp.ones(self.num_objects, bool)
        else:
            players_key, objects_key = jax.random.split(key)
            positions = self._place_players(players_key, ())
            cells, present = self._spawn_objects(objects_key, positions)
        return ForagingState(
            positions=positions,
            cells=cells,
            present=present,
            collected_order=jnp.full(self.num_objects, NOT_COLLECTED, jnp.int32),
            time=jnp.int32(0),
        )

    def _place_players(self, key: PRNGKey, taken: tuple[tuple[int, int], ...]) -> Int[Array, "seats 2"]:
        """Draw distinct cells outside `taken`, whose cells are in row-major order."""
        free = self.size**2 - len(taken)
        index = _draw_distinct(key, self.players, free)
        for row, column in taken:  # from an index among free cells to an index among all
            index = jnp.where(index >= row * self.size + column, index + 1, index)
        return jnp.stack([index // self.size, index % self.size], axis=-1)

    def _spawn_objects(
        self, key: PRNGKey, positions: Int[Array, "seats 2"]
    ) -> tuple[Int[Array, "M 2"], Bool[Array, "M"]]:
        """Place objects off the border, off the players, and apart from each other (`_are_too_close`).

        `lbforaging` tries random cells until one is free. A rejected cell stays rejected, so this is equivalent to
        visiting all cells in one random order, here that of their scores, and taking each that is still free.
        """
        inside = jnp.arange(1, self.size - 1)
        rows, columns = (grid.reshape(-1) for grid in jnp.meshgrid(inside, inside, indexing="ij"))
        score = jax.random.uniform(key, rows.shape)
        occupied = (rows[None] == positions[:, :1]) & (columns[None] == positions[:, 1:])
        score = jnp.where(jnp.any(occupied, axis=0), -1.0, score)
        numbers = []
        for _ in range(self.num_objects):
            best = jnp.argmax(score)
            row, column = best // (self.size - 2) + 1, best % (self.size - 2) + 1
            numbers.append(jnp.where(score[best] >= 0, row * self.size + column, self.size**2))
            score = jnp.where(_are_too_close(rows - row, columns - column), -1.0, score)
        number = jnp.sort(jnp.stack(numbers)).astype(jnp.int32)
        present = number < self.size**2
        cells = jnp.stack([number // self.size, number % self.size], axis=-1)
        return jnp.where(present[:, None], cells, NOWHERE), present

    def initial_states(self) -> tuple[ForagingState, Float[np.ndarray, "n"]] | None:
        """For fixed objects, all distinct free cells in every order with equal probability; None for random objects,
        and for so many players that there are more than `MAX_STARTS`."""
        free = [cell for cell in itertools.product(range(self.size), repeat=2) if cell not in self.cells]
        if self.objects != "fixed" or (self.players > 2 and math.perm(len(free), self.players) > MAX_STARTS):
            return None
        starts = np.array(list(itertools.permutations(free, self.players)), np.int32)
        one = self.reset(jax.random.key(0))
        same = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(starts), *x.shape)), one)
        return same._replace(positions=jnp.asarray(starts)), np.full(len(starts), 1 / len(starts))

    def step(self, key: PRNGKey, state: ForagingState, actions: Actions) -> Outcome:
        del key
        positions = self._move(state, actions)
        loading = (actions == LOAD)[:, None] & _find_adjacent(state)
        loaded = state.present & (jnp.sum(loading, axis=0) >= self.level)
        collected_before = jnp.sum(state.collected_order != NOT_COLLECTED, dtype=jnp.int32)
        order = jnp.where(loaded, collected_before, state.collected_order)
        present = state.present & ~loaded
        spawned = jnp.sum(state.present, dtype=jnp.int32) + collected_before
        time = state.time + 1
        terminated = ~jnp.any(present)
        return Outcome(
            state=ForagingState(positions, state.cells, present, order, time),
            reward=jnp.sum(loaded).astype(jnp.float32) / spawned.astype(jnp.float32),
            terminated=terminated,
            truncated=time_limit(time, self.horizon, terminated),
        )

    def _move(self, state: ForagingState, actions: Actions) -> Int[Array, "seats 2"]:
        """Move into free cells. Players who would enter one cell, or stay there, do not move; swapping is allowed.

        As in `lbforaging`, a player may enter the cell of another whose own move fails; they then share the cell.
        """
        back = jnp.stack([actions == NORTH, actions == WEST], axis=-1).astype(jnp.int32)
        forth = jnp.stack([actions == SOUTH, actions == EAST], axis=-1).astype(jnp.int32)
        wanted = jnp.clip(state.positions + forth - back, 0, self.size - 1)
        on_object = jnp.all(wanted[:, None] == state.cells[None], axis=-1) & state.present[None]
        wanted = jnp.where(jnp.any(on_object, axis=-1, keepdims=True), state.positions, wanted)
        same = jnp.all(wanted[:, None] == wanted[None], axis=-1)
        return jnp.where(jnp.sum(same, axis=-1, keepdims=True) > 1, state.positions, wanted)

    def observe(self, state: ForagingState) -> Observations:
        cells = self._encode(state.positions)
        others = range(1, self.players) if self.sees_teammate else ()
        slots = jnp.tile(self._encode_objects(state)[None], (self.players, 1))
        return jnp.concatenate([cells, *(jnp.roll(cells, -seats, axis=0) for seats in others), slots], axis=-1)

    def _encode(self, cells: Int[Array, "n 2"]) -> Float[Array, "n w"]:
        if self.encoding == "coordinates":
            return 2.0 * cells.astype(jnp.float32) / (self.size - 1) - 1.0
        return jax.nn.one_hot(cells[:, 0] * self.size + cells[:, 1], self.size**2, dtype=jnp.float32)

    def _encode_objects(self, state: ForagingState) -> Float[Array, "w"]:
        present = state.present.astype(jnp.float32)[:, None]
        if self._widths[1] == 1:
            return present.reshape(-1)
        slots = self._encode(state.cells) * present
        return (jnp.concatenate([slots, present], axis=-1) if self.encoding == "coordinates" else slots).reshape(-1)

    def view(self, observation: Observation) -> ForagingView:
        """Decode the agent's own cell and the remaining objects from its observation."""
        cell, slot = self._widths
        position = self._decode(observation[None, :cell])[0]
        slots = observation[-slot * self.num_objects :].reshape(self.num_objects, slot)
        present = jnp.any(slots > 0.5, axis=-1) if self.encoding == "one-hot" else slots[:, 2] > 0.5
        cells = jnp.array(self.cells, jnp.int32) if self.objects == "fixed" else self._decode(slots)
        return ForagingView(position, jnp.where(present[:, None], cells, NOWHERE), present)

    def _decode(self, encoded: Float[Array, "n w"]) -> Int[Array, "n 2"]:
        if self.encoding == "coordinates":
            return jnp.round((encoded[:, :2] + 1.0) * (self.size - 1) / 2.0).astype(jnp.int32)
        number = jnp.argmax(encoded, axis=-1).astype(jnp.int32)
        return jnp.stack([number // self.size, number % self.size], axis=-1)

    def render(self, state: ForagingState, seat: int | None = None) -> str:
        """Draw objects by their ids, seat 0 as X, the others as O, P, Q, ..., free cells as dots.

        For a `seat` only the players that it sees are drawn; several on one cell are a star.
        """
        grid = [["." for _ in range(self.size)] for _ in range(self.size)]
        for number, (row, column) in enumerate(state.cells.tolist()):
            if state.present[number]:
                grid[row][column] = str(number + 1)
        seen = {number: tuple(state.positions[number].tolist()) for number in self.visible_seats(seat)}
        for number, (row, column) in seen.items():
            grid[row][column] = _name_player(number) if [*seen.values()].count((row, column)) == 1 else "*"
        width = len(str(self.num_objects))
        return "\n".join(" ".join(token.rjust(width) for token in line) for line in grid)

    def visible_seats(self, seat: int | None) -> tuple[int, ...]:
        """The players whose cells `seat` sees; all of them for None."""
        return tuple(range(self.players)) if seat is None or self.sees_teammate else (seat,)

    @property
    def _orders(self) -> tuple[tuple[int, ...], ...]:
        """The orders of collection that are conventions, as object indices from 0.

        There are none if some players can do without the others, who may then collect other objects meanwhile.
        """
        together = self.level == self.players
        known = together and self.objects == "fixed" and self.num_objects <= MAX_ORDERED_OBJECTS
        return tuple(itertools.permutations(range(self.num_objects))) if known else ()

    @property
    def conventions(self) -> tuple[str, ...]:
        """The orders of collection for fixed objects that need all players; with random objects, conventions may
        depend on the layout."""
        return tuple("order " + "-".join(str(number + 1) for number in order) for order in self._orders)

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        """Two orders collect their common prefix; then seat 0 and its teammates wait at different objects."""
        return tuple(tuple(_count_common_prefix(a, b) / self.num_objects for b in self._orders) for a in self._orders)

    def convention(self, state: ForagingState, seat: int) -> Int[Array, ""]:
        """The order in which all objects were collected; none if any remains."""
        del seat
        none = len(self.conventions)
        if none == 0:
            return jnp.int32(0)
        ranks = [[order.index(number) for number in range(self.num_objects)] for order in self._orders]
        followed = jnp.all(state.collected_order[None] == jnp.array(ranks, jnp.int32), axis=-1)
        return jnp.where(jnp.any(followed), jnp.argmax(followed), none).astype(jnp.int32)

    def heuristics(self) -> Mapping[str, Policy]:
        from coverset.envs.foraging.heuristics import list_heuristics

        return {name: policy for name, (policy, _) in list_heuristics(self).items()}

    def describe_heuristics(self) -> Mapping[str, str]:
        from coverset.envs.foraging.heuristics import list_heuristics

        return {name: sentence for name, (_, sentence) in list_heuristics(self).items()}

    def best_response(self, partner: Policy, seat: int) -> Oracle | None:
        from coverset.envs.foraging.heuristics import ObjectCollector
        from coverset.envs.foraging.oracle import solve

        return solve(self, partner, seat) if isinstance(partner, ObjectCollector) else None

    def board(self) -> Board:
        from coverset.envs.foraging.board import draw_board

        return draw_board(self)

    def scene(self, state: ForagingState, seat: int | None = None) -> Scene:
        from coverset.envs.foraging.board import draw_scene

        return draw_scene(self, state, seat)


def _name_player(seat: int) -> str:
    """X for seat 0; O, P, ..., Z, A, B, ... for the others."""
    return "X" if seat == 0 else "OPQRSTUVWYZABCDEFGHIJKLMN"[(seat - 1) % 25]


def _draw_distinct(key: PRNGKey, number: int, free: int) -> Int[Array, "seats"]:
    """Draw `number` distinct indices below `free`, uniformly: each among those that are left, counted around them."""
    drawn: list[Int[Array, ""]] = []
    for index in jax.random.randint(key, (number,), 0, free - jnp.arange(number)):
        for before in jnp.sort(jnp.stack(drawn)) if drawn else ():
            index = jnp.where(index >= before, index + 1, index)
        drawn.append(index)
    return jnp.stack(drawn)


def _find_adjacent(state: ForagingState) -> Bool[Array, "seats M"]:
    """Whether each seat is adjacent to each object's cell, collected or not."""
    away = jnp.abs(state.positions[:, None] - state.cells[None])
    return jnp.sum(away, axis=-1) == 1


def _are_too_close(rows: Int[Array, "*n"], columns: Int[Array, "*n"]) -> Bool[Array, "*n"]:
    """Whether objects `rows` and `columns` apart touch, corners included, or have a common neighbour in a line."""
    far, near = jnp.maximum(abs(rows), abs(columns)), jnp.minimum(abs(rows), abs(columns))
    return (far <= 1) | ((far == 2) & (near == 0))


def _check_cells(cells: tuple[tuple[int, int], ...], size: int, num_objects: int) -> None:
    """Raise unless `lbforaging` could spawn objects on these cells.

    With two objects adjacent to one player, the object that `lbforaging` loads would depend on memory addresses.
    """
    if len(cells) != num_objects:
        raise ValueError(
            f"num_objects must be the number of cells while objects are fixed, {len(cells)}, got {num_objects}."
        )
    for row, column in cells:
        if not (1 <= row <= size - 2 and 1 <= column <= size - 2):
            raise ValueError(f"cells must lie off the border, in 1..{size - 2} for size {size}, got ({row}, {column}).")
    for (row, column), (other_row, other_column) in itertools.combinations(cells, 2):
        if math.hypot(row - other_row, column - other_column) <= 2:
            raise ValueError(
                "cells must not touch, corners included, nor have a common neighbour, "
                f"got ({row}, {column}) and ({other_row}, {other_column})."
            )


def _count_common_prefix(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))
