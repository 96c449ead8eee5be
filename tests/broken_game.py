"""An environment that breaks the contract, as an outside one might."""

import jax.numpy as jnp

from countdown import Countdown


class TooLong(Countdown):
    """Its observations are longer than it says."""

    def observe(self, state):
        return jnp.zeros((2, 3)) + state.time.astype(jnp.float32)
