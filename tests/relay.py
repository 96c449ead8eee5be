"""A hand-made game of three players, by turns: rewards by seat, legal actions, seats with different actions."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from coverset.envs.base import Environment
from coverset.types import Outcome

SIZES = (2, 3, 2)
FINE = 1000.0
"""What an illegal action costs everybody: a policy that plays one is noticed."""


class RelayState(NamedTuple):
    time: Int[Array, ""]
    actions: Int[Array, "3"]


def legal_table() -> np.ndarray:
    """Legal actions by time, seat and action: seat t % 3 has the turn, and may not play action 0 at odd times."""
    table = np.zeros((4, 3, max(SIZES)), bool)
    for time in range(4):
        seat = time % 3
        table[time, seat, : SIZES[seat]] = True
        table[time, seat, 0] = time % 2 == 0
    return table


@dataclass(frozen=True)
class Relay(Environment):
    """Four steps. Seat s observes (10 s + time, its last action) and earns (s + 1) (1 + the action in turn).

    Everybody who has no turn passes. Whoever plays anything else, or an action that is illegal, costs all of them.
    """

    horizon: int = 4

    @property
    def observation_size(self) -> int:
        return 2

    @property
    def num_actions(self) -> tuple[int, ...]:
        return SIZES

    @property
    def conventions(self) -> tuple[str, ...]:
        return ("low", "high")

    def reset(self, key) -> RelayState:
        del key
        return RelayState(jnp.int32(0), jnp.zeros(3, jnp.int32))

    def legal_actions(self, state: RelayState):
        return jnp.asarray(legal_table())[state.time % 4]

    def step(self, key, state: RelayState, actions) -> Outcome:
        del key
        legal, turn = self.legal_actions(state), state.time % 3
        may = jnp.where(jnp.arange(3) == turn, legal[jnp.arange(3), actions], actions == 0)
        shares = jnp.arange(1.0, 4.0)
        reward = shares * (1.0 + actions[turn].astype(jnp.float32)) - jnp.where(jnp.all(may), 0.0, FINE)
        time = state.time + 1
        ended = time >= self.horizon
        return Outcome(RelayState(time, actions.astype(jnp.int32)), reward, ended, jnp.bool_(False))

    def observe(self, state: RelayState):
        seen = 10.0 * jnp.arange(3.0) + state.time.astype(jnp.float32)
        return jnp.stack([seen, state.actions.astype(jnp.float32)], axis=-1)

    def convention(self, state: RelayState, seat: int):
        return jnp.minimum(state.actions[seat], 1)

    def render(self, state: RelayState) -> str:
        return str(int(state.time))
