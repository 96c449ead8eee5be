"""Heuristics of signalling: receivers that understand one permutation of messages, with and without mistakes."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.envs.extensions import number_heuristics
from coverset.envs.signalling.dynamics import Signalling
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

UNDERSTOOD = 0.8
"""Probability of the right button for receivers that make mistakes."""


@final
class Receiver(Policy):
    """Press buttons with probabilities that depend on the message; any button before the first one."""

    buttons: Float[Array, "messages buttons"]

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        return jax.random.categorical(key, jnp.log(percept.observation @ self.buttons + 1e-9)), memory


def list_heuristics(environment: Signalling) -> dict[str, tuple[Receiver, str]]:
    """A receiver for every permutation, then the same receivers with mistakes, with a sentence each."""
    receivers = []
    for understood in (1.0, UNDERSTOOD):
        mistakes = (1.0 - understood) / (environment.symbols - 1)
        for messages, name in zip(environment.permutations, environment.conventions, strict=True):
            right = np.eye(environment.symbols)[np.argsort(messages)]
            buttons = jnp.asarray(np.where(right == 1.0, understood, mistakes), jnp.float32)
            often = "" if understood == 1.0 else f" in {understood:.0%} of all steps"
            receivers.append((Receiver(buttons), f"Understands {name} for the symbols in order{often}."))
    return number_heuristics(receivers)
