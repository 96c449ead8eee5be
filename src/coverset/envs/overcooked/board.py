"""Overcooked in the studio: a kitchen with stations, and players who look somewhere and hold something."""

import numpy as np

from coverset.envs.drawing import MOVE_ACTIONS, Action, Board, Grid, Mark, Scene
from coverset.envs.overcooked.dynamics import Overcooked
from coverset.envs.overcooked.layouts import COUNTER, HATCH, ONIONS, PLATES, POT
from coverset.envs.overcooked.rendering import ITEM_NAMES, describe, describe_pot
from coverset.envs.overcooked.rules import DELIVERY_REWARD, DONE, FULL, OvercookedState

UP, DOWN, LEFT, RIGHT = MOVE_ACTIONS
ACTIONS = (UP, DOWN, RIGHT, LEFT, Action("wait", "."), Action("use", " ", highlighted=True))
DIRECTIONS = ("up", "down", "right", "left")
ITEM_ICONS = ("", "onion", "plate", "soup")
STATION_ICONS = {COUNTER: "counter", ONIONS: "onions", PLATES: "plates", HATCH: "hatch", POT: "pot"}
STATION_NAMES = {COUNTER: "counter", ONIONS: "onions", PLATES: "plates", HATCH: "serving hatch", POT: "pot"}


def draw_board(environment: Overcooked) -> Board:
    """Draw the kitchen with its stations."""
    kitchen = environment.kitchen
    places = [
        Mark(cell, "", STATION_NAMES[symbol], STATION_ICONS[symbol])
        for symbol in STATION_ICONS
        for cell in kitchen.cells_of(symbol)
    ]
    return Board(
        rules="Put three onions into a pot. After 20 steps, fetch the soup with a plate and deliver it at the hatch "
        f"(arrow): {DELIVERY_REWARD:.0f} points. You use what you look at; counters hold things for later.",
        actions=(ACTIONS, ACTIONS),
        grid=Grid(*kitchen.shape, places),
    )


def draw_scene(environment: Overcooked, state: OvercookedState) -> Scene:
    """Draw players, items on counters, and what is in the pots."""
    kitchen = environment.kitchen
    items = zip(kitchen.counters, np.asarray(state.counters).tolist(), strict=True)
    pots = zip(kitchen.pots, np.asarray(state.pots).tolist(), strict=True)
    objects = [Mark(cell, "", ITEM_NAMES[item], ITEM_ICONS[item]) for cell, item in items if item]
    objects += [_draw_pot(cell, status) for cell, status in pots if status]
    first, second = (kitchen.floor[position] for position in np.asarray(state.positions).tolist())
    return Scene(
        positions=(first, second),
        objects=objects,
        facing=[DIRECTIONS[direction] for direction in np.asarray(state.directions).tolist()],
        carried=[ITEM_ICONS[item] for item in np.asarray(state.held).tolist()],
        words=_describe(environment, state),
    )


def _draw_pot(cell: tuple[int, int], status: int) -> Mark:
    """The contents of a pot: onions so far, steps that are left, or a soup that is done."""
    if status < FULL:
        return Mark(cell, f"{status}/{FULL}", describe_pot(status), "filling")
    if status < DONE:
        return Mark(cell, str(DONE - status), describe_pot(status), "cooking")
    return Mark(cell, "", describe_pot(status), "done")


def _describe(environment: Overcooked, state: OvercookedState) -> str:
    """What players hold, the pots, and what lies on counters."""
    lying = [
        f"{ITEM_NAMES[item]} at row {row + 1}, column {column + 1}"
        for (row, column), item in zip(environment.kitchen.counters, np.asarray(state.counters).tolist(), strict=True)
        if item
    ]
    return f"{describe(state)} On counters: {'; '.join(lying)}." if lying else describe(state)
