"""A kitchen as text.

The drawing is that of the layout with what happens in it: players as the arrow of their direction, `^ v > <`, for
player 1 and `n s e w` for player 2, items on counters as `o` (onion), `d` (plate) and `u` (soup), pots by their onions
or, while they cook, as `~`, and as `!` when the soup is done.
"""

import numpy as np

from coverset.envs.overcooked.layouts import COUNTER, Kitchen
from coverset.envs.overcooked.rules import DONE, FULL, OvercookedState

ARROWS = ("^v><", "nsew")
ITEM_LETTERS = (COUNTER, "o", "d", "u")
ITEM_NAMES = ("nothing", "an onion", "a plate", "a soup")


def render(kitchen: Kitchen, state: OvercookedState) -> str:
    """Draw the kitchen, then say what the players hold and how the pots are."""
    grid = [[" " if symbol in "12" else symbol for symbol in row] for row in kitchen.rows]
    for (row, column), item in zip(kitchen.counters, np.asarray(state.counters).tolist(), strict=True):
        grid[row][column] = ITEM_LETTERS[item]
    for (row, column), status in zip(kitchen.pots, np.asarray(state.pots).tolist(), strict=True):
        grid[row][column] = _pot_letter(status)
    players = zip(np.asarray(state.positions).tolist(), np.asarray(state.directions).tolist(), strict=True)
    for seat, (position, direction) in enumerate(players):
        row, column = kitchen.floor[position]
        grid[row][column] = ARROWS[seat][direction]
    drawn = "\n".join(" ".join(row) for row in grid)
    return f"{drawn}\n{describe(state)}"


def _pot_letter(status: int) -> str:
    if status < FULL:
        return "P" if status == 0 else str(status)
    return "!" if status == DONE else "~"


def describe(state: OvercookedState) -> str:
    """What players hold and what is in the pots, in one line of sentences."""
    held = np.asarray(state.held).tolist()
    sentences = [f"Player {seat + 1} holds {ITEM_NAMES[item]}." for seat, item in enumerate(held)]
    pots = np.asarray(state.pots).tolist()
    name = "Pot" if len(pots) == 1 else "Pot {}"
    sentences += [f"{name.format(number + 1)}: {describe_pot(status)}." for number, status in enumerate(pots)]
    return " ".join(sentences)


def describe_pot(status: int) -> str:
    """The state of a pot in a few words."""
    if status < FULL:
        return ("empty", "1 onion", "2 onions")[status]
    return "soup is done" if status == DONE else f"soup in {DONE - status} steps"
