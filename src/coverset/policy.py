"""The interface of everything that acts: generated policies, heuristics, ad hoc agents, people."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.types import Percept, PRNGKey, PyTree

ILLEGAL = -1e9
"""Logit of an illegal action: its probability is exactly zero, and unlike infinity it has finite gradients."""


class Policy(eqx.Module):
    """A policy with memory, written for one environment; `vmap` adds the rest.

    It plays the seat that it was written for, or any seat of the team's side, as `percept.seat` tells it.

    Memory is initialised at the start of a trial (a series of episodes with one partner) and carried across its
    episodes; `percept.first` marks the start of each. A policy that should forget between episodes resets its memory.
    """

    @abc.abstractmethod
    def initial_memory(self) -> PyTree:
        """Return the memory at the start of a trial."""

    @abc.abstractmethod
    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        """Choose an action, and what to remember."""

    def action_probabilities(self, percept: Percept, memory: PyTree) -> Float[Array, "a"] | None:
        """The distribution from which `act` draws; None where a policy does not know it."""
        del percept, memory
        return None

    def belief(self, memory: PyTree) -> Float[Array, "K"] | None:
        """The probability that the partner is each of the generated teammates, in their order.

        It is read from the memory that `act` returned last; None for a policy that keeps no belief.
        """
        del memory
        return None


def mask_logits(logits: Float[Array, "*b a"], legal: Bool[Array, "*b a"] | None) -> Float[Array, "*b a"]:
    """Logits under which illegal actions have probability zero; the same where nothing is masked."""
    return logits if legal is None else jnp.where(legal, logits, ILLEGAL)
