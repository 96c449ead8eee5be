"""The interface of everything that acts: generated policies, heuristics, ad hoc agents, people."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, Int

from coverset.types import Percept, PRNGKey, PyTree


class Policy(eqx.Module):
    """A policy with memory, written for one seat of one environment; `vmap` adds the rest.

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
