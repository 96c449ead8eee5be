"""A hand-made environment whose rewards and observations tell exactly who did what, and when."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from coverset.envs.base import Environment
from coverset.types import Outcome


class CountdownState(NamedTuple):
    time: Int[Array, ""]
    seen: Int[Array, "2"]


@dataclass(frozen=True)
class Countdown(Environment):
    """Observes 100 seat + time; step t of an episode (from 0) pays 10^t + action of seat 0 + 0.1 action of seat 1."""

    horizon: int = 3
    terminates: bool = True

    @property
    def observation_size(self):
        return 1

    @property
    def num_actions(self):
        return 2, 3

    @property
    def conventions(self):
        return ("none", "one", "two")

    def reset(self, key):
        del key
        return CountdownState(jnp.int32(0), jnp.zeros(2, jnp.int32))

    def step(self, key, state, actions):
        del key
        time = state.time + 1
        reward = 10.0 ** jnp.float32(state.time) + jnp.float32(actions[0]) + 0.1 * jnp.float32(actions[1])
        ended = time >= self.horizon
        no = jnp.bool_(False)
        flags = (ended, no) if self.terminates else (no, ended)
        return Outcome(CountdownState(time, actions), reward, *flags)

    def observe(self, state):
        return jnp.array([[0.0], [100.0]]) + state.time.astype(jnp.float32)

    def convention(self, state, seat):
        return state.seen[seat]

    def render(self, state):
        return str(int(state.time))


class Unsound(Countdown):
    """Hardly ever, a reward is not a number."""

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(reward=jnp.where(jax.random.uniform(key) < 0.005, jnp.nan, outcome.reward))
