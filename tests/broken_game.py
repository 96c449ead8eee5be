"""An environment that breaks the contract, as an outside one might."""

import jax.numpy as jnp

from countdown import Countdown
from coverset.envs.base import Environment


class TooLong(Countdown):
    """Its observations are longer than it says."""

    def observe(self, state):
        return jnp.zeros((2, 3)) + state.time.astype(jnp.float32)


class SeveralSizes(Countdown):
    """It lists a size for each seat, as `num_actions` does."""

    observation_size = (1, 2)


class SeveralRows(Countdown):
    """Its observations are not one array."""

    def observe(self, state):
        return jnp.zeros(1), jnp.zeros(1)


class Unfinished(Environment):
    """It has nothing but actions."""

    num_actions = (2, 2)
