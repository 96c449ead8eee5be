"""A game of turns for three players with legal actions, secrets and rewards by seat, as an extension would bring it."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset import Environment
from coverset.types import Outcome

NUMBERS = 5


class NamingState(NamedTuple):
    secrets: Int[Array, "3"]
    named: Bool[Array, "numbers"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Naming(Environment):
    """Players with a secret number each name numbers in turn, every number once, and know their own secret only.

    Whoever names the secret of the next player takes 1 from it. With five numbers, seat 0 chooses among five numbers
    and later two, seat 1 among four and later one, seat 2 among three.
    """

    horizon: int = NUMBERS

    @property
    def observation_size(self):
        return 2 * NUMBERS

    @property
    def num_actions(self):
        return (NUMBERS,) * 3

    @property
    def seats_alike(self):
        return False

    def reset(self, key):
        secrets = jax.random.randint(key, (3,), 0, NUMBERS)
        return NamingState(secrets, jnp.zeros(NUMBERS, bool), jnp.int32(0))

    def step(self, key, state, actions):
        turn = state.time % 3
        number, victim = actions[turn], (turn + 1) % 3
        taken = jnp.where(state.secrets[victim] == number, 1.0, 0.0)
        rewards = jnp.zeros(3).at[turn].add(taken).at[victim].add(-taken)
        time = state.time + 1
        after = NamingState(state.secrets, state.named.at[number].set(True), time)
        return Outcome(after, rewards, time >= NUMBERS, jnp.bool_(False))

    def observe(self, state):
        secrets = jax.nn.one_hot(state.secrets, NUMBERS)
        return jnp.concatenate([secrets, jnp.tile(state.named.astype(jnp.float32), (3, 1))], axis=-1)

    def legal_actions(self, state):
        return (jnp.arange(3) == state.time % 3)[:, None] & ~state.named[None]

    def render(self, state, seat=None):
        known = [f"{int(x) + 1}" if seat in (None, n) else "?" for n, x in enumerate(state.secrets)]
        named = [str(number + 1) for number in range(NUMBERS) if state.named[number]]
        return f"secrets {' '.join(known)}, named {' '.join(named) or 'none'}"
