"""A game in which the best convention needs memory, as an extension would bring it."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from coverset import Environment
from coverset.types import Outcome


class RecallState(NamedTuple):
    symbol: Int[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Recall(Environment):
    """Both players see a symbol in the first step only and must both name it in the last step, which pays 1.

    Without memory the best pair always names the same symbol, and earns 1 / `symbols`.
    """

    symbols: int = 2
    horizon: int = 3

    @property
    def observation_size(self):
        return self.symbols + 1

    @property
    def num_actions(self):
        return self.symbols, self.symbols

    def reset(self, key):
        return RecallState(jax.random.randint(key, (), 0, self.symbols), jnp.int32(0))

    def step(self, key, state, actions):
        del key
        time = state.time + 1
        last = time >= self.horizon
        named = jnp.all(actions == state.symbol)
        return Outcome(RecallState(state.symbol, time), jnp.where(last & named, 1.0, 0.0), last, jnp.bool_(False))

    def observe(self, state):
        shown = jnp.where(state.time == 0, jax.nn.one_hot(state.symbol, self.symbols), 0.0)
        last = jnp.where(state.time == self.horizon - 1, 1.0, 0.0)
        return jnp.tile(jnp.append(shown, last), (2, 1))

    def render(self, state):
        return f"symbol {int(state.symbol)}" if int(state.time) == 0 else "?"
