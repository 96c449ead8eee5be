"""Drawings become kitchens, and each way of drawing a bad one is named."""

import re

import numpy as np
import pytest

from coverset.envs.overcooked import LAYOUTS, make_kitchen
from coverset.envs.overcooked.layouts import EAST, NORTH, SOUTH, UNREACHABLE, WEST
from coverset.envs.registry import make

GOOD = """
XXPXX
O1 2O
X   X
XDXSX
"""


def test_a_drawing_is_a_layout() -> None:
    assert make_kitchen(GOOD) == make_kitchen(GOOD.strip().replace("\n", "/")) == make_kitchen("cramped_room")
    assert make("overcooked", layout=GOOD).observation_size == make("overcooked").observation_size


def test_numbers_of_a_kitchen() -> None:
    kitchen = make_kitchen("cramped_room")
    assert kitchen.floor == ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3))
    assert kitchen.starts == (0, 2)
    assert kitchen.counters == ((0, 1), (0, 3), (2, 0), (2, 4), (3, 2)), "corners cannot be faced"
    assert kitchen.ahead[1, NORTH] == kitchen.first_pot
    assert kitchen.ahead[0, WEST] == kitchen.ahead[2, EAST] == kitchen.onions
    assert kitchen.ahead[5, SOUTH] == kitchen.hatch
    assert kitchen.moves[0].tolist() == [0, 3, 1, 0]


def test_distances_and_reach_match_a_slow_search() -> None:
    """Bellman-Ford over all floor cells, on a kitchen with two parts and one with a ring."""
    for layout in ("forced_coord", "counter_circuit"):
        kitchen = make_kitchen(layout)
        size = len(kitchen.floor)
        away = np.where(np.eye(size, dtype=bool), 0, UNREACHABLE)
        for _ in range(size):
            away = np.minimum(away, 1 + away[kitchen.moves].min(axis=1))
        np.testing.assert_array_equal(kitchen.distances, np.minimum(away, UNREACHABLE))
        for thing in range(kitchen.num_things - 1):
            beside = [cell for cell in range(size) if thing in kitchen.ahead[cell]]
            expected = [min((away[here, cell] for cell in beside), default=UNREACHABLE) for here in range(size)]
            np.testing.assert_array_equal(kitchen.reach[thing], np.minimum(expected, UNREACHABLE))


def test_parts_of_a_kitchen() -> None:
    assert len(set(make_kitchen("forced_coord").regions)) == 2
    assert len(set(make_kitchen("coord_ring").regions)) == 1


BAD = {
    "XXPXX/O1 2O/X  X/XDXSX": "layout must have rows of equal length, got 5 cells in row 1 and 4 in row 3.",
    "XXPXX/O1 2O/X T X/XDXSX": "layout must consist of X, space, O, D, P, S, 1, 2, got 'T' in row 3.",
    "XXPXX/O1 2O/X   2/XDXSX": "layout must have no floor on its border, got some in row 3, column 5.",
    "XXPXX/O1  O/X   X/XDXSX": "layout must have one start of player 2, got 0.",
    "XXPXX/O1 2O/X 1 X/XDXSX": "layout must have one start of player 1, got 2.",
    "XXXXX/O1 2O/X   X/XDXSX": "layout must have a pot (P) beside floor that a player reaches, got none.",
    "XXPXX/O1 2O/X   X/XDXXS": "layout must have a serving hatch (S) beside floor that a player reaches, got none.",
}


@pytest.mark.parametrize("drawing", BAD)
def test_bad_drawings_are_named(drawing: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(BAD[drawing])}$"):
        make("overcooked", layout=drawing)


def test_an_unknown_layout_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=f"layout must be one of {', '.join(sorted(LAYOUTS))}, got 'coordring'"):
        make("overcooked", layout="coordring")
