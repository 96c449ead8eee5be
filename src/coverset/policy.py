"""The one interface of everything that acts: generated policies, heuristics, ad hoc agents, people."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, Int

from coverset.types import Percept, PRNGKey, PyTree


class Policy(eqx.Module):
    """A policy with memory, written for one seat of one environment; `vmap` adds the rest.

    Memory starts with a trial (a series of episodes with one partner) and is handed on from episode to episode;
    `percept.first` tells where an episode starts. A policy that should forget between episodes does so itself.
    """

    @abc.abstractmethod
    def initial_memory(self) -> PyTree:
        """The memory with which a trial starts."""

    @abc.abstractmethod
    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        """Choose an action, and what to remember."""

    def action_probabilities(self, percept: Percept, memory: PyTree) -> Float[Array, "a"] | None:
        """The distribution from which `act` draws; None where a policy does not know it."""
        del percept, memory
        return None
