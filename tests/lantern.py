"""A game of two roles: a keeper who sees the colour of a lantern, and a walker who sees where it stands."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.envs.base import Environment, time_limit
from coverset.types import Actions, Observations, Outcome, PRNGKey

PLACES = 5


class LanternState(NamedTuple):
    colour: Int[Array, ""]
    place: Int[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Lantern(Environment):
    """The keeper (seat 0) calls the colour, while the walker (seat 1) goes to an end of the path: either will do."""

    horizon: int = 3
    observation_size = PLACES
    observation_shapes = ((2,), (PLACES,))
    num_actions = (2, 3)

    def reset(self, key: PRNGKey) -> LanternState:
        return LanternState(jax.random.randint(key, (), 0, 2), jnp.int32(PLACES // 2), jnp.int32(0))

    def step(self, key: PRNGKey, state: LanternState, actions: Actions) -> Outcome:
        place = jnp.clip(state.place + actions[1] - 1, 0, PLACES - 1)
        there = (place == 0) | (place == PLACES - 1)
        reward = (there & (actions[0] == state.colour)).astype(jnp.float32)
        after = LanternState(state.colour, place, state.time + 1)
        return Outcome(after, reward, jnp.bool_(False), time_limit(after.time, self.horizon, jnp.bool_(False)))

    def initial_states(self) -> tuple[LanternState, list[float]]:
        start = LanternState(jnp.arange(2), jnp.full(2, PLACES // 2), jnp.zeros(2, jnp.int32))
        return start, [0.5, 0.5]

    def observe(self, state: LanternState) -> Observations:
        seen: Float[Array, "2"] = jax.nn.one_hot(state.colour, 2)
        return jnp.stack([jnp.pad(seen, (0, PLACES - 2)), jax.nn.one_hot(state.place, PLACES)])

    def render(self, state: LanternState) -> str:
        return f"colour {int(state.colour)}, place {int(state.place)}"
