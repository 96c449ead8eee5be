"""The rules of Overcooked as pure functions on small vectors, by the facts of JaxMARL's Overcooked, version 1.

One step: both players turn and move, or interact with what they faced before the step, player 1 first; then every full
pot cooks on. A pot starts to cook by itself with its third onion. Movement:

  - a player turns to the direction of a move, even if something is in its way;
  - two players who would stand on one cell, or exchange their cells, both stay.

Interaction, by what is in front of the player:

  - pile: with empty hands, take an onion or a plate;
  - counter: put down what is held on an empty one, or with empty hands take what lies there;
  - pot: add an onion while there are fewer than three, or fill a plate with a soup that is done;
  - serving hatch: deliver a soup, for `DELIVERY_REWARD`.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.overcooked.layouts import Kitchen
from coverset.types import Actions

NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
NOTHING, ONION, PLATE, SOUP = range(4)
"""What a player holds, or what lies on a counter."""
FULL = 3
"""Onions of a soup, and the status of a pot that starts to cook."""
COOKING_STEPS = 20
DONE = FULL + COOKING_STEPS
"""Status of a pot whose soup is done."""
DELIVERY_REWARD = 20.0
ONION_IN_POT, PLATE_TAKEN, SOUP_TAKEN = 3.0, 3.0, 5.0
"""Shaped rewards; that of a plate is paid only while it is useful (`_is_plate_useful`)."""


class OvercookedState(NamedTuple):
    """Where everything is; numbers of cells, counters and pots are those of the `Kitchen`."""

    positions: Int[Array, "2"]
    """Floor numbers of the players."""
    directions: Int[Array, "2"]
    """North, south, east or west: 0 to 3."""
    held: Int[Array, "2"]
    """`NOTHING`, `ONION`, `PLATE` or `SOUP`."""
    counters: Int[Array, "C"]
    """What lies on every counter."""
    pots: Int[Array, "P"]
    """0 to 2: onions in it; 3 to 22: cooking, 23 minus the steps left; 23: done."""
    time: Int[Array, ""]


class Interaction(NamedTuple):
    """The kitchen after a player's interaction, and what it earned."""

    held: Int[Array, ""]
    counters: Int[Array, "C"]
    pots: Int[Array, "P"]
    delivers: Bool[Array, ""]
    shaping: Float[Array, ""]


def take_step(
    kitchen: Kitchen, state: OvercookedState, actions: Actions
) -> tuple[OvercookedState, Float[Array, ""], Float[Array, "2"]]:
    """The state after a joint action, the common reward, and the shaped reward of every player."""
    facing = jnp.asarray(kitchen.ahead)[state.positions, state.directions]
    first = interact(kitchen, state, 0, facing[0], actions[0] == INTERACT)
    between = state._replace(held=jnp.stack([first.held, state.held[1]]), counters=first.counters, pots=first.pots)
    second = interact(kitchen, between, 1, facing[1], actions[1] == INTERACT)
    positions, directions = move(kitchen, state, actions)
    following = OvercookedState(
        positions=positions,
        directions=directions,
        held=jnp.stack([first.held, second.held]),
        counters=second.counters,
        pots=jnp.where((second.pots >= FULL) & (second.pots < DONE), second.pots + 1, second.pots),
        time=state.time + 1,
    )
    soups = first.delivers.astype(jnp.float32) + second.delivers.astype(jnp.float32)
    return following, DELIVERY_REWARD * soups, jnp.stack([first.shaping, second.shaping])


def move(kitchen: Kitchen, state: OvercookedState, actions: Actions) -> tuple[Int[Array, "2"], Int[Array, "2"]]:
    """Positions and directions after the players' moves."""
    moving = actions < STAY
    directions = jnp.where(moving, actions, state.directions)
    wanted = jnp.where(moving, jnp.asarray(kitchen.moves)[state.positions, directions], state.positions)
    same = wanted[0] == wanted[1]
    swap = (wanted[0] == state.positions[1]) & (wanted[1] == state.positions[0])
    return jnp.where(same | swap, state.positions, wanted), directions


def interact(
    kitchen: Kitchen, state: OvercookedState, seat: int, thing: Int[Array, ""], acting: Bool[Array, ""]
) -> Interaction:
    """The effect of a player's interaction with a `thing`, the number of what it faces; none unless it is `acting`."""
    held, counters, pots = state.held[seat], state.counters, state.pots
    this_counter = acting & (jnp.arange(len(kitchen.counters)) == thing)
    this_pot = acting & (jnp.arange(len(kitchen.pots)) + kitchen.first_pot == thing)
    item = jnp.sum(jnp.where(this_counter, counters, 0))
    empty_handed = held == NOTHING
    exchanges = jnp.any(this_counter) & (empty_handed != (item == NOTHING))
    adds = this_pot & (held == ONION) & (pots < FULL)
    scoops = this_pot & (held == PLATE) & (pots == DONE)
    takes = acting & empty_handed
    delivers = acting & (thing == kitchen.hatch) & (held == SOUP)
    after = jnp.where(exchanges, item, held)
    after = jnp.where(jnp.any(adds) | delivers, NOTHING, after)
    after = jnp.where(jnp.any(scoops), SOUP, after)
    after = jnp.where(takes & (thing == kitchen.onions), ONION, after)
    after = jnp.where(takes & (thing == kitchen.plates), PLATE, after)
    shaping = (
        ONION_IN_POT * jnp.any(adds).astype(jnp.float32)
        + SOUP_TAKEN * jnp.any(scoops).astype(jnp.float32)
        + PLATE_TAKEN * (takes & (thing == kitchen.plates) & _is_plate_useful(state)).astype(jnp.float32)
    )
    return Interaction(
        held=after,
        counters=jnp.where(this_counter & exchanges, held, counters),
        pots=jnp.where(scoops, 0, pots + adds.astype(pots.dtype)),
        delivers=delivers,
        shaping=shaping,
    )


def _is_plate_useful(state: OvercookedState) -> Bool[Array, ""]:
    """Whether no plate lies on a counter, and more pots have something in them than players hold plates."""
    held = jnp.sum(state.held == PLATE)
    return ~jnp.any(state.counters == PLATE) & (held < jnp.sum(state.pots > 0))
