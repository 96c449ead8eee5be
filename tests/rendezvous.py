"""A grid game whose observations are images, as an extension would bring it."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from coverset import Environment
from coverset.envs.base import time_limit
from coverset.types import Outcome

MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""Stay, up, down, left, right."""


class RendezvousState(NamedTuple):
    players: Int[Array, "2 2"]
    goal: Int[Array, "2"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Rendezvous(Environment):
    """Two players walk on a board; 1 and the end once both stand on the goal.

    A player sees an image of three channels: itself, the other player, the goal.
    """

    size: int = 3
    horizon: int = 6

    @property
    def observation_size(self):
        return 3 * self.size**2

    @property
    def observation_shape(self):
        return self.size, self.size, 3

    @property
    def num_actions(self):
        return len(MOVES), len(MOVES)

    def reset(self, key):
        drawn = jax.random.randint(key, (3, 2), 0, self.size)
        return RendezvousState(drawn[:2], drawn[2], jnp.int32(0))

    def step(self, key, state, actions):
        del key
        players = jnp.clip(state.players + jnp.array(MOVES)[actions], 0, self.size - 1)
        met = jnp.all(players == state.goal[None])
        time = state.time + 1
        following = RendezvousState(players, state.goal, time)
        return Outcome(following, jnp.where(met, 1.0, 0.0), met, time_limit(time, self.horizon, met))

    def observe(self, state):
        def image(places: Int[Array, "3 2"]):
            board = jnp.zeros(self.observation_shape)
            return board.at[places[:, 0], places[:, 1], jnp.arange(3)].set(1.0).reshape(-1)

        first, second = state.players
        return jnp.stack([image(jnp.stack([*seats, state.goal])) for seats in ((first, second), (second, first))])

    def render(self, state):
        cells = [["." for _ in range(self.size)] for _ in range(self.size)]
        for name, (row, column) in zip("g01", (state.goal, *state.players), strict=True):
            cells[int(row)][int(column)] = name
        return "\n".join("".join(row) for row in cells)
