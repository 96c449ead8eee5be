"""The kitchen in the studio and as text."""

import re
from pathlib import Path

import numpy as np

import coverset.studio
from coverset.envs.extensions import draw_board, draw_scene
from coverset.envs.overcooked import Overcooked, OvercookedState

GAME = Overcooked()
ICONS = Path(coverset.studio.__file__).parent / "static" / "js" / "boards" / "icons.js"


def make_state(pot: int) -> OvercookedState:
    """Player 1 looks at the pot with an onion, player 2 at the hatch with a soup; a plate lies on a counter."""
    return OvercookedState(
        positions=np.array([1, 5]),
        directions=np.array([0, 1]),
        held=np.array([1, 3]),
        counters=np.array([0, 2, 0, 0, 0]),
        pots=np.array([pot]),
        time=np.int32(0),
    )


def test_a_scene_shows_what_everybody_holds_and_what_lies_around() -> None:
    scene = draw_scene(GAME, make_state(2))
    assert scene is not None
    assert scene.positions == ((1, 2), (2, 3))
    assert (list(scene.facing), list(scene.carried)) == (["up", "down"], ["onion", "soup"])
    assert [(mark.cell, mark.label, mark.icon) for mark in scene.objects] == [
        ((0, 3), "", "plate"),
        ((0, 2), "2/3", "filling"),
    ]
    assert scene.words == (
        "Player 1 holds an onion. Player 2 holds a soup. Pot: 2 onions. On counters: a plate at row 1, column 4."
    )


def test_a_pot_counts_down_and_is_done() -> None:
    cooking, done = (draw_scene(GAME, make_state(status)) for status in (9, 23))
    assert cooking is not None
    assert done is not None
    assert (cooking.objects[1].label, cooking.objects[1].icon) == ("14", "cooking")
    assert (done.objects[1].label, done.objects[1].icon) == ("", "done")


def test_the_board_names_every_station_and_the_page_has_every_picture() -> None:
    board = draw_board(GAME)
    assert board is not None
    assert board.grid is not None
    places = {mark.cell: mark.icon for mark in board.grid.places}
    assert len(places) == 14, "all cells but the floor"
    assert (places[0, 2], places[1, 0], places[3, 1], places[3, 3]) == ("pot", "onions", "plates", "hatch")
    known = set(re.findall(r"^  (\w+): \(\) =>", ICONS.read_text(), re.MULTILINE))
    assert {*places.values(), "onion", "plate", "soup", "filling", "cooking", "done"} == known


def test_text() -> None:
    assert GAME.render(make_state(23)).splitlines() == [
        "X X ! d X",
        "O   ^   O",
        "X     s X",
        "X D X S X",
        "Player 1 holds an onion. Player 2 holds a soup. Pot: soup is done.",
    ]
