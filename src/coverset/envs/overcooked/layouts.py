"""Kitchens of Overcooked: the five standard layouts, and layouts from a drawing.

A drawing has one character per cell, in the alphabet of Overcooked-AI's layout files:

    X counter    (space) floor    O onions    D plates ("dishes")    P pot    S serving hatch    1 2 where players start

Rows end with a line break or, for the command line, with a slash. `Kitchen` turns a drawing into the tables from which
the rules are computed: floor cells, counters and pots have numbers of their own, in row-major order, so that the state
of the game consists of a few small vectors.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Int

from coverset.checks import check_one_of

COUNTER, FLOOR, ONIONS, PLATES, POT, HATCH = "X", " ", "O", "D", "P", "S"
PLAYERS = ("1", "2")
SYMBOLS = (COUNTER, FLOOR, ONIONS, PLATES, POT, HATCH, *PLAYERS)
STATIONS = {ONIONS: "onions", PLATES: "plates", POT: "a pot", HATCH: "a serving hatch"}
NORTH, SOUTH, EAST, WEST = range(4)
OFFSETS = ((-1, 0), (1, 0), (0, 1), (0, -1))
"""Row and column change of the directions north, south, east, west."""
UNREACHABLE = 10_000
"""Distance of a cell to which no path leads."""

LAYOUTS = {
    "cramped_room": "XXPXX/O1 2O/X   X/XDXSX",
    "asymm_advantages": "XXXXXXXXX/O XSXOX S/X   P   X/X 1 P2  X/XXXDXDXXX",
    "coord_ring": "XXXPX/X 1 P/D2X X/O   X/XOSXX",
    "forced_coord": "XXXPX/O X2P/O1X X/D X X/XXXSX",
    "counter_circuit": "XXXPPXXX/X 1    X/D XXXX S/X     2X/XXXOOXXX",
}

Cell = tuple[int, int]


@dataclass(frozen=True)
class Kitchen:
    """A layout with the numbers of its cells; hashable, so that it may be static under `jit`."""

    rows: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.rows[0])

    def cells_of(self, *symbols: str) -> tuple[Cell, ...]:
        """Cells with these symbols in row-major order."""
        return tuple((r, c) for r, row in enumerate(self.rows) for c, symbol in enumerate(row) if symbol in symbols)

    @cached_property
    def floor(self) -> tuple[Cell, ...]:
        """Cells on which players walk."""
        return self.cells_of(FLOOR, *PLAYERS)

    @cached_property
    def counters(self) -> tuple[Cell, ...]:
        """Counters that a player can face; all others are walls."""
        return tuple(cell for cell in self.cells_of(COUNTER) if any(n in self.floor for n in _neighbours(cell)))

    @cached_property
    def pots(self) -> tuple[Cell, ...]:
        return self.cells_of(POT)

    @cached_property
    def starts(self) -> tuple[int, int]:
        """Floor numbers on which players 1 and 2 start."""
        first, second = (self.floor.index(self.cells_of(player)[0]) for player in PLAYERS)
        return first, second

    @property
    def first_pot(self) -> int:
        """The things that a player can face are numbered: counters, pots, and then one number for each kind below."""
        return len(self.counters)

    @property
    def onions(self) -> int:
        """Any onion pile."""
        return len(self.counters) + len(self.pots)

    @property
    def plates(self) -> int:
        """Any pile of plates."""
        return self.onions + 1

    @property
    def hatch(self) -> int:
        """Any serving hatch."""
        return self.onions + 2

    @property
    def num_things(self) -> int:
        """How many things there are, the floor included, which is the last."""
        return self.onions + 4

    @cached_property
    def ahead(self) -> Int[np.ndarray, "floor 4"]:
        """The thing in front of a player by floor number and direction."""
        return np.array([[self._thing(cell) for cell in _neighbours(here)] for here in self.floor], np.int32)

    def _thing(self, cell: Cell) -> int:
        symbol = self.rows[cell[0]][cell[1]]
        if symbol == COUNTER:
            return self.counters.index(cell)
        if symbol == POT:
            return self.first_pot + self.pots.index(cell)
        return {ONIONS: self.onions, PLATES: self.plates, HATCH: self.hatch}.get(symbol, self.num_things - 1)

    @cached_property
    def moves(self) -> Int[np.ndarray, "floor 4"]:
        """The floor number that a step in each direction leads to: the same where something is in the way."""
        return np.array(
            [
                [self.floor.index(cell) if cell in self.floor else number for cell in _neighbours(here)]
                for number, here in enumerate(self.floor)
            ],
            np.int32,
        )

    @cached_property
    def regions(self) -> Int[np.ndarray, "floor"]:
        """Number of the connected part of the floor to which each floor cell belongs."""
        connected = self.distances < UNREACHABLE
        return np.array([int(np.argmax(row)) for row in connected], np.int32)

    @cached_property
    def distances(self) -> Int[np.ndarray, "floor floor"]:
        """Steps from one floor cell to another with nobody in the way; `UNREACHABLE` if there is no path."""
        return np.stack([walk([start], self.moves) for start in range(len(self.floor))])

    @cached_property
    def reach(self) -> Int[np.ndarray, "things floor"]:
        """Steps from a floor cell to the nearest one beside a thing; `UNREACHABLE` if there is no path."""
        rows = []
        for thing in range(self.num_things - 1):
            beside = np.flatnonzero((self.ahead == thing).any(axis=1))
            rows.append(self.distances[:, beside].min(axis=1) if len(beside) else np.full(len(self.floor), UNREACHABLE))
        return np.stack(rows).astype(np.int32)


def _neighbours(cell: Cell) -> list[Cell]:
    return [(cell[0] + row, cell[1] + column) for row, column in OFFSETS]


def walk(starts: Sequence[int], moves: Int[np.ndarray, "floor 4"]) -> Int[np.ndarray, "floor"]:
    """Breadth-first search: steps from the nearest start to every floor cell."""
    steps = np.full(len(moves), UNREACHABLE, np.int32)
    steps[list(starts)] = 0
    waiting = deque(starts)
    while waiting:
        here = waiting.popleft()
        for there in moves[here]:
            if steps[there] == UNREACHABLE:
                steps[there] = steps[here] + 1
                waiting.append(int(there))
    return steps


@lru_cache(maxsize=64)
def make_kitchen(layout: str) -> Kitchen:
    """The kitchen of a layout by its name or drawing; ValueError says what is wrong with a drawing."""
    if "\n" not in layout and "/" not in layout:
        check_one_of("layout", layout, LAYOUTS)
        layout = LAYOUTS[layout]
    rows = tuple(row.strip() for row in layout.strip().replace("/", "\n").split("\n"))
    _check_shape(rows)
    kitchen = Kitchen(rows)
    _check_enclosed(kitchen)
    _check_players(kitchen)
    _check_stations(kitchen)
    return kitchen


def _check_shape(rows: tuple[str, ...]) -> None:
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"layout must have rows of equal length, got {len(rows[0])} cells in row 1 and {len(row)} in row "
                f"{number + 1}."
            )
        for symbol in row:
            if symbol not in SYMBOLS:
                known = ", ".join("space" if each == FLOOR else each for each in SYMBOLS)
                raise ValueError(f"layout must consist of {known}, got '{symbol}' in row {number + 1}.")


def _check_enclosed(kitchen: Kitchen) -> None:
    rows, columns = kitchen.shape
    for row, column in kitchen.floor:
        if row in (0, rows - 1) or column in (0, columns - 1):
            raise ValueError(
                f"layout must have no floor on its border, got some in row {row + 1}, column {column + 1}."
            )


def _check_players(kitchen: Kitchen) -> None:
    for player in PLAYERS:
        if (count := len(kitchen.cells_of(player))) != 1:
            raise ValueError(f"layout must have one start of player {player}, got {count}.")


def _check_stations(kitchen: Kitchen) -> None:
    """Raise unless every kind of station can be faced by a player."""
    regions = {kitchen.regions[start] for start in kitchen.starts}
    beside = {
        cell for number, here in enumerate(kitchen.floor) if kitchen.regions[number] in regions
        for cell in _neighbours(here)
    }  # fmt: skip
    for symbol, name in STATIONS.items():
        if not beside.intersection(kitchen.cells_of(symbol)):
            raise ValueError(f"layout must have {name} ({symbol}) beside floor that a player reaches, got none.")
