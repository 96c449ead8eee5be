"""Overcooked for two cooks, by the rules of JaxMARL's Overcooked, version 1 (`envs.overcooked.rules`).

Differs from JaxMARL's game: random starts keep each player in its own part of the kitchen, so that every start can be
played; random objects also lie on counters; either player may take the first start.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from coverset.checks import check_at_least, check_one_of
from coverset.envs.base import Environment, ReturnUnit, time_limit
from coverset.envs.drawing import Board, Scene
from coverset.envs.oracle import Oracle
from coverset.envs.overcooked.layouts import Kitchen, make_kitchen
from coverset.envs.overcooked.observations import (
    CHANNELS,
    URGENT_STEPS,
    View,
    encode_image,
    encode_vector,
    vector_size,
    view_image,
    view_vector,
)
from coverset.envs.overcooked.rules import DELIVERY_REWARD, DONE, INTERACT, NOTHING, SOUP, OvercookedState, take_step
from coverset.policy import Policy
from coverset.types import Actions, Observation, Observations, Outcome, PRNGKey

STARTS = ("layout", "swapped", "either", "random")
ENCODINGS = ("vector", "image")
COUNTER_OBJECTS = 0.1
"""Chance that a counter is not empty at the start with random objects."""


@dataclass(frozen=True)
class Overcooked(Environment):
    """Cook onion soups together and deliver as many as possible: 20 for each.

    Actions: 0 north, 1 south, 2 east, 3 west, 4 stay, 5 interact. Observation: `encode_vector`, or the image of
    `encode_image` with `encoding="image"`; both hold the whole state.
    """

    layout: str = "cramped_room"
    """Name of a layout, or a drawing of one (`envs.overcooked.layouts`)."""
    horizon: int = 400
    """Steps until truncation."""
    starts: str = "layout"
    """Where players start: seat 0 on the `layout`'s cell 1, on its cell 2 (`swapped`), on `either` of them, drawn for
    each episode, or both on `random` cells of the part of the kitchen to which their cell belongs."""
    random_objects: bool = False
    """Whether hands, pots and counters hold random objects at the start; they are empty otherwise."""
    encoding: str = "vector"
    """`vector` or `image`."""

    def __post_init__(self) -> None:
        make_kitchen(self.layout)
        check_at_least("horizon", self.horizon, 1)
        check_one_of("starts", self.starts, STARTS)
        check_one_of("encoding", self.encoding, ENCODINGS)

    @property
    def kitchen(self) -> Kitchen:
        """The layout, parsed."""
        return make_kitchen(self.layout)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (*self.kitchen.shape, CHANNELS) if self.encoding == "image" else (vector_size(self.kitchen),)

    @property
    def observation_size(self) -> int:
        return int(np.prod(self.observation_shape))

    @property
    def num_actions(self) -> tuple[int, ...]:
        return (INTERACT + 1, INTERACT + 1)

    @property
    def seats_alike(self) -> bool:
        """Whether both start anywhere alike; the order of interactions in one step is all that is left."""
        regions = self.kitchen.regions[list(self.kitchen.starts)]
        return self.starts == "either" or (self.starts == "random" and bool(regions[0] == regions[1]))

    @property
    def return_unit(self) -> ReturnUnit:
        return ReturnUnit("soups", DELIVERY_REWARD)

    def reset(self, key: PRNGKey) -> OvercookedState:
        """Players look in random directions; all else is as `starts` and `random_objects` say."""
        kitchen = self.kitchen
        key, bits_key = jax.random.split(key) if self.starts == "random" or self.random_objects else (key, key)
        bits = jax.random.bits(bits_key).astype(jnp.int32)
        state = OvercookedState(
            positions=self._start(key, bits),
            directions=jnp.stack([bits & 3, (bits >> 2) & 3]),
            held=jnp.full(2, NOTHING, jnp.int32),
            counters=jnp.full(len(kitchen.counters), NOTHING, jnp.int32),
            pots=jnp.zeros(len(kitchen.pots), jnp.int32),
            time=jnp.int32(0),
        )
        return _scatter_objects(jax.random.fold_in(key, 1), state) if self.random_objects else state

    def _start(self, key: PRNGKey, bits: Int[Array, ""]) -> Int[Array, "2"]:
        starts = jnp.array(self.kitchen.starts, jnp.int32)
        if self.starts == "random":
            pairs = jnp.asarray(_start_pairs(self.kitchen))
            return pairs[jax.random.randint(key, (), 0, len(pairs))]
        if self.starts == "layout":
            return starts
        swap = jnp.bool_(True) if self.starts == "swapped" else (bits & 16) > 0
        return jnp.where(swap, starts[::-1], starts)

    def step(self, key: PRNGKey, state: OvercookedState, actions: Actions) -> Outcome:
        del key
        following, reward, shaping = take_step(self.kitchen, state, actions)
        terminated = jnp.bool_(False)
        truncated = time_limit(following.time, self.horizon, terminated)
        return Outcome(following, reward, terminated, truncated, shaping=jnp.sum(shaping))

    def observe(self, state: OvercookedState) -> Observations:
        urgent = self.horizon - state.time < URGENT_STEPS
        encode = encode_image if self.encoding == "image" else encode_vector
        return encode(self.kitchen, state, urgent)

    def view(self, observation: Observation) -> View:
        """Decode one player's observation."""
        return (view_image if self.encoding == "image" else view_vector)(self.kitchen, observation)

    def render(self, state: OvercookedState, seat: int | None = None) -> str:
        del seat
        from coverset.envs.overcooked.rendering import render

        return render(self.kitchen, state)

    def heuristics(self) -> Mapping[str, Policy]:
        from coverset.envs.overcooked.heuristics import list_heuristics

        return {name: policy for name, (policy, _) in list_heuristics(self).items()}

    def describe_heuristics(self) -> Mapping[str, str]:
        from coverset.envs.overcooked.heuristics import list_heuristics

        return {name: sentence for name, (_, sentence) in list_heuristics(self).items()}

    def best_response(self, partner: Policy, seat: int) -> Oracle | None:
        """An upper bound, for scripted cooks."""
        from coverset.envs.overcooked.heuristics import ScriptedCook
        from coverset.envs.overcooked.oracle import bound_return

        return bound_return(self, partner, seat) if isinstance(partner, ScriptedCook) else None

    def board(self) -> Board:
        from coverset.envs.overcooked.board import draw_board

        return draw_board(self)

    def scene(self, state: OvercookedState, seat: int | None = None) -> Scene:
        del seat
        from coverset.envs.overcooked.board import draw_scene

        return draw_scene(self, state)


def _start_pairs(kitchen: Kitchen) -> Int[np.ndarray, "n 2"]:
    """Distinct floor cells of both players, each in the part of the kitchen to which its start belongs."""
    own = [np.flatnonzero(kitchen.regions == kitchen.regions[start]) for start in kitchen.starts]
    return np.array([(one, other) for one in own[0] for other in own[1] if one != other], np.int32)


def _scatter_objects(key: PRNGKey, state: OvercookedState) -> OvercookedState:
    """Hands hold any of the four things and pots have any status, uniformly; some counters hold an item."""
    held_key, pot_key, item_key, used_key = jax.random.split(key, 4)
    items = jax.random.randint(item_key, state.counters.shape, NOTHING + 1, SOUP + 1)
    used = jax.random.bernoulli(used_key, COUNTER_OBJECTS, state.counters.shape)
    return state._replace(
        held=jax.random.randint(held_key, (2,), NOTHING, SOUP + 1),
        pots=jax.random.randint(pot_key, state.pots.shape, 0, DONE + 1),
        counters=jnp.where(used, items, NOTHING),
    )
