"""A network that plays: what teammate generation trains."""

import jax
from jaxtyping import Array, Float, Int

from coverset.policies.network import Network, clear_memory
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree


class ActorPolicy(Policy):
    """Samples from the softmax of a network's logits, which read the observation alone.

    A recurrent network's memory lasts for an episode: it is cleared wherever one starts.
    """

    network: Network

    def initial_memory(self) -> PyTree:
        return self.network.initial_memory()

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        logits, memory = self.logits(percept, memory)
        return jax.random.categorical(key, logits), memory

    def action_probabilities(self, percept: Percept, memory: PyTree) -> Float[Array, "a"]:
        return jax.nn.softmax(self.logits(percept, memory)[0])

    def logits(self, percept: Percept, memory: PyTree) -> tuple[Float[Array, "a"], PyTree]:
        """Unnormalised log-probabilities of the actions, and the memory after this step."""
        memory = clear_memory(memory, self.network.initial_memory(), percept.first)
        return self.network.step(percept.observation, memory)
