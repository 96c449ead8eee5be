"""What players of Overcooked see: a compact vector or the image of JaxMARL, each with the whole state.

Both encodings can be decoded: `view_vector` and `view_image` give the same `View`, from which heuristics act.
"""

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
STATIC_CHANNELS = {POT: 10, ONIONS: 12, PLATES: 14, HATCH: 15}
EMPTY_COUNTER, ONIONS_IN_POT, ONIONS_IN_SOUP, STEPS_LEFT = 11, 16, 18, 20
SOUP_DONE, LOOSE_PLATE, LOOSE_ONION, URGENT = 21, 22, 23, 25
"""Channels of the image beside `STATIC_CHANNELS` and those of the players, 0 to 9; 13, 17, 19 and 24 are empty: they
belong to tomatoes, which version 1 does not have."""


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
    """The image of both players with the channels of JaxMARL, flat: [2, rows * columns * 26]."""
    standing = _one_hot(jnp.asarray(_flat(kitchen, kitchen.floor))[state.positions], range(_num_cells(kitchen)))
    facing = standing[:, None] * _one_hot(state.directions, range(4))[:, :, None]
    turned = jnp.stack([facing, facing[::-1]], axis=1).reshape(2, 8, -1)
    own = jnp.stack([standing, standing[::-1]], axis=1)
    shared = _shared_channels(kitchen, state, standing, urgent)
    planes = jnp.concatenate([own, turned, jnp.broadcast_to(shared, (2, *shared.shape))], axis=1)
    return jnp.swapaxes(planes, 1, 2).reshape(2, -1)


def _shared_channels(
    kitchen: Kitchen, state: OvercookedState, standing: Float[Array, "2 cells"], urgent: Bool[Array, ""]
) -> Float[Array, "16 cells"]:
    """Channels 10 to 25."""
    items = _spread(kitchen, kitchen.counters, state.counters) + jnp.sum(
        standing * state.held.astype(jnp.float32)[:, None], axis=0
    )
    pots = _spread(kitchen, kitchen.pots, state.pots)
    cooking, soup = pots > FULL, items == SOUP
    is_counter = jnp.asarray(_mask(kitchen, COUNTER))
    by_channel = {
        **{channel: jnp.asarray(_mask(kitchen, symbol)) for symbol, channel in STATIC_CHANNELS.items()},
        EMPTY_COUNTER: jnp.where(items == NOTHING, is_counter, 0.0),
        ONIONS_IN_POT: jnp.where(cooking, 0.0, pots),
        ONIONS_IN_SOUP: jnp.where(cooking | soup, float(FULL), 0.0),
        STEPS_LEFT: jnp.where(cooking, DONE - pots, 0.0),
        SOUP_DONE: (pots == DONE) | soup,
        LOOSE_PLATE: items == PLATE,
        LOOSE_ONION: items == ONION,
        URGENT: jnp.broadcast_to(urgent, items.shape),
    }
    none = jnp.zeros_like(items)
    return jnp.stack([by_channel.get(channel, none).astype(jnp.float32) for channel in range(10, CHANNELS)])


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


def _mask(kitchen: Kitchen, symbol: str) -> Float[np.ndarray, "cells"]:
    mask = np.zeros(_num_cells(kitchen), np.float32)
    mask[_flat(kitchen, kitchen.cells_of(symbol))] = 1.0
    return mask


def _spread(kitchen: Kitchen, cells: tuple[tuple[int, int], ...], values: Int[Array, "n"]) -> Float[Array, "cells"]:
    """Values on their cells, 0 elsewhere."""
    index = np.full(_num_cells(kitchen), len(cells), np.int32)
    index[_flat(kitchen, cells)] = np.arange(len(cells))
    return jnp.concatenate([values, jnp.zeros(1, values.dtype)]).astype(jnp.float32)[index]
