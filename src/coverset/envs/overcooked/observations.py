"""What players of Overcooked see: a compact vector or the image of JaxMARL, each with the whole state.

Both encodings can be decoded: `view_vector` and `view_image` give the same `View`, from which heuristics act.
"""

import itertools
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.overcooked.layouts import COUNTER, HATCH, ONIONS, PLATES, POT, Kitchen
from coverset.envs.overcooked.rules import COOKING_STEPS, DONE, FULL, NOTHING, ONION, PLATE, SOUP, OvercookedState
from coverset.types import Observation, Observations

CHANNELS = 26
URGENT_STEPS = 40
"""Players see whether fewer steps than this are left."""
POT_FEATURES = 5
ITEMS = (ONION, PLATE, SOUP)
HELD = (NOTHING, *ITEMS)
POT_CELL, EMPTY_COUNTER, ONIONS_IN_POT, ONIONS_IN_SOUP, STEPS_LEFT = 10, 11, 16, 18, 20
SOUP_DONE, LOOSE_PLATE, LOOSE_ONION, URGENT = 21, 22, 23, 25
"""Channels of the image; 0 to 9 belong to the players, 12, 14 and 15 to piles and hatches. 13, 17, 19 and 24 are empty:
they are for tomatoes, which version 1 does not have."""
FIRST_COUNTER = 1 + 2 * 4 * len(HELD)
FIRST_POT = FIRST_COUNTER + len(HELD)
ONION_PILE, PLATE_PILE, HATCH_CELL, NUM_CONTENTS = range(FIRST_POT + DONE + 1, FIRST_POT + DONE + 5)
"""Numbers of what may be on a cell of the image; see `_cell_channels`."""


class View(NamedTuple):
    """The state as one player sees it; the player itself first."""

    positions: Int[Array, "2"]
    directions: Int[Array, "2"]
    held: Int[Array, "2"]
    counters: Int[Array, "C"]
    pots: Int[Array, "P"]


def vector_size(kitchen: Kitchen) -> int:
    """Length of the compact vector."""
    players = len(kitchen.floor) + 4 + len(ITEMS)
    return 2 * players + POT_FEATURES * len(kitchen.pots) + len(ITEMS) * len(kitchen.counters) + 1


def encode_vector(kitchen: Kitchen, state: OvercookedState, urgent: Bool[Array, ""]) -> Observations:
    """The compact vector of both players, [2, d].

    For the player itself, then for the other: floor cell, direction and item held, one-hot. For every pot: whether it
    has one onion, two, or three; steps left to cook, of 20; whether the soup is done. For every counter: onion, plate
    or soup. Last, whether fewer than 40 steps are left.
    """
    players = jnp.concatenate(
        [
            _one_hot(state.positions, range(len(kitchen.floor))),
            _one_hot(state.directions, range(4)),
            _one_hot(state.held, ITEMS),
        ],
        axis=-1,
    )
    left = jnp.where(state.pots >= FULL, DONE - state.pots, 0).astype(jnp.float32) / COOKING_STEPS
    pots = jnp.concatenate(
        [
            _one_hot(jnp.minimum(state.pots, FULL), (1, 2, FULL)),
            left[:, None],
            (state.pots == DONE).astype(jnp.float32)[:, None],
        ],
        axis=-1,
    )
    counters = _one_hot(state.counters, ITEMS)
    shared = jnp.concatenate([pots.reshape(-1), counters.reshape(-1), urgent.astype(jnp.float32).reshape(1)])
    both = jnp.broadcast_to(shared, (2, shared.shape[0]))
    return jnp.concatenate([players, players[::-1], both], axis=-1)


def view_vector(kitchen: Kitchen, observation: Observation) -> View:
    """Decode a compact vector."""
    floor, num_pots = len(kitchen.floor), len(kitchen.pots)
    width = floor + 4 + len(ITEMS)
    players, rest = observation[: 2 * width].reshape(2, width), observation[2 * width : -1]
    pots = rest[: POT_FEATURES * num_pots].reshape(num_pots, POT_FEATURES)
    onions, full = pots[:, 0] + 2.0 * pots[:, 1], pots[:, 2] > 0
    cooked = DONE - jnp.round(COOKING_STEPS * pots[:, 3])
    return View(
        positions=jnp.argmax(players[:, :floor], axis=-1).astype(jnp.int32),
        directions=jnp.argmax(players[:, floor : floor + 4], axis=-1).astype(jnp.int32),
        held=_decode_items(players[:, floor + 4 :]),
        counters=_decode_items(rest[POT_FEATURES * num_pots :].reshape(len(kitchen.counters), len(ITEMS))),
        pots=jnp.where(full, cooked, onions).astype(jnp.int32),
    )


def _one_hot(values: Int[Array, "n"], classes: range | tuple[int, ...]) -> Float[Array, "n c"]:
    return (values[:, None] == jnp.array(tuple(classes))[None]).astype(jnp.float32)


def _decode_items(one_hot: Float[Array, "n 3"]) -> Int[Array, "n"]:
    """Items are numbered from 1 in the order of `ITEMS`; all zeros are `NOTHING`."""
    return jnp.sum(one_hot * jnp.array(ITEMS, jnp.float32)[None], axis=-1).astype(jnp.int32)


def encode_image(kitchen: Kitchen, state: OvercookedState, urgent: Bool[Array, ""]) -> Observations:
    """The image of both players with the channels of JaxMARL, flat: [2, rows * columns * 26].

    What is on a cell is one number, with which the cell's 26 channels are looked up.
    """
    things = _spread(kitchen, kitchen.counters, state.counters) + _spread(kitchen, kitchen.pots, state.pots)
    cells = jnp.asarray(_flat(kitchen, kitchen.floor))[state.positions]
    here = cells[:, None] == jnp.arange(_num_cells(kitchen))[None]
    looks = 1 + len(HELD) * state.directions + state.held
    first, second = jnp.where(here, looks[:, None], 0)
    contents = jnp.asarray(_empty_contents(kitchen)) + things
    other = len(HELD) * 4
    both = contents[None] + jnp.stack([_seen(first, second, other), _seen(second, first, other)])
    numbers = both + jnp.where(urgent, NUM_CONTENTS, 0)
    # Without checks of the bounds, which cost a tenth of the time.
    channels = jnp.asarray(_cell_channels()).at[numbers].get(mode="promise_in_bounds", wrap_negative_indices=False)
    return channels.reshape(2, -1)


def _seen(own: Int[Array, "cells"], others: Int[Array, "cells"], other: int) -> Int[Array, "cells"]:
    """What stands on the floor, as one of the players sees it."""
    return own + jnp.where(others > 0, others + other, 0)


def _empty_contents(kitchen: Kitchen) -> Int[np.ndarray, "cells"]:
    """What is on every cell of a kitchen in which there is nobody and nothing."""
    first = {COUNTER: FIRST_COUNTER, POT: FIRST_POT, ONIONS: ONION_PILE, PLATES: PLATE_PILE, HATCH: HATCH_CELL}
    return np.array([first.get(symbol, 0) for row in kitchen.rows for symbol in row], np.int32)


@lru_cache(maxsize=1)
def _cell_channels() -> Float[np.ndarray, "contents 26"]:
    """Channels by what is on a cell: 0 empty floor, then players (own or other, direction, item held), counters by
    item, pots by status, stations; and all of them once more with the mark of urgency."""
    channels = np.zeros((2, NUM_CONTENTS, CHANNELS), np.float32)
    for seat, direction, item in itertools.product(range(2), range(4), HELD):
        row = 1 + len(HELD) * (4 * seat + direction) + item
        channels[:, row, [seat, 2 + 4 * seat + direction]] = 1.0
        _mark_item(channels[:, row], item)
    channels[:, FIRST_COUNTER, EMPTY_COUNTER] = 1.0
    for item in HELD:
        _mark_item(channels[:, FIRST_COUNTER + item], item)
    for status in range(DONE + 1):
        pot = channels[:, FIRST_POT + status]
        pot[:, POT_CELL] = 1.0
        if status <= FULL:
            pot[:, ONIONS_IN_POT] = status
        else:
            pot[:, [ONIONS_IN_SOUP, STEPS_LEFT, SOUP_DONE]] = FULL, DONE - status, status == DONE
    for contents, channel in ((ONION_PILE, 12), (PLATE_PILE, 14), (HATCH_CELL, 15)):
        channels[:, contents, channel] = 1.0
    channels[1, :, URGENT] = 1.0
    return channels.reshape(-1, CHANNELS)


def _mark_item(channels: Float[np.ndarray, "2 26"], item: int) -> None:
    """Mark an item that lies or is held on a cell."""
    marks = {ONION: {LOOSE_ONION: 1.0}, PLATE: {LOOSE_PLATE: 1.0}, SOUP: {SOUP_DONE: 1.0, ONIONS_IN_SOUP: FULL}}
    for channel, value in marks.get(item, {}).items():
        channels[:, channel] = value


def view_image(kitchen: Kitchen, observation: Observation) -> View:
    """Decode an image."""
    planes = observation.reshape(-1, CHANNELS)
    floor, counters, pots = (
        planes[np.asarray(_flat(kitchen, cells))] for cells in (kitchen.floor, kitchen.counters, kitchen.pots)
    )
    standing = floor[:, :2].T
    turned = jnp.sum(floor[:, 2:10], axis=0).reshape(2, 4)
    left, done = pots[:, STEPS_LEFT], pots[:, SOUP_DONE]
    status = jnp.where(done > 0, float(DONE), jnp.where(left > 0, DONE - left, pots[:, ONIONS_IN_POT]))
    return View(
        positions=jnp.argmax(standing, axis=-1).astype(jnp.int32),
        directions=jnp.argmax(turned, axis=-1).astype(jnp.int32),
        held=jnp.sum(standing * _loose_items(floor)[None], axis=-1).astype(jnp.int32),
        counters=_loose_items(counters).astype(jnp.int32),
        pots=status.astype(jnp.int32),
    )


def _loose_items(planes: Float[Array, "n 26"]) -> Float[Array, "n"]:
    """What lies or is held on each of some cells without pots."""
    return ONION * planes[:, LOOSE_ONION] + PLATE * planes[:, LOOSE_PLATE] + SOUP * planes[:, SOUP_DONE]


def _num_cells(kitchen: Kitchen) -> int:
    return kitchen.shape[0] * kitchen.shape[1]


def _flat(kitchen: Kitchen, cells: tuple[tuple[int, int], ...]) -> Int[np.ndarray, "n"]:
    return np.array([row * kitchen.shape[1] + column for row, column in cells], np.int32)


def _spread(kitchen: Kitchen, cells: tuple[tuple[int, int], ...], values: Int[Array, "n"]) -> Int[Array, "cells"]:
    """Values on their cells, 0 elsewhere."""
    index = np.full(_num_cells(kitchen), len(cells), np.int32)
    index[_flat(kitchen, cells)] = np.arange(len(cells))
    return jnp.concatenate([values, jnp.zeros(1, values.dtype)])[index]
