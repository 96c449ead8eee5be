"""A network that plays: what teammate generation trains."""

import math

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int

from coverset.policies.network import Network, NetworkSpec, clear_memory
from coverset.policies.networks.dense import MLP
from coverset.policy import Policy, mask_logits
from coverset.types import Percept, PRNGKey, PyTree


class ActorPolicy(Policy):
    """Samples from the softmax of a network's logits, which read the observation alone.

    A recurrent network's memory lasts for an episode: it is cleared wherever one starts.
    """

    network: Network
    kind: str = eqx.field(static=True)
    """Name of the network's class, as in the settings."""
    spec: NetworkSpec = eqx.field(static=True)

    @property
    def observation_size(self) -> int:
        """How many numbers the policy reads."""
        return math.prod(self.spec.input_shape)

    @property
    def num_actions(self) -> int:
        """Among how many actions it chooses."""
        return self.spec.num_outputs

    def initial_memory(self) -> PyTree:
        return self.network.initial_memory()

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        logits, memory = self.logits(percept, memory)
        return jax.random.categorical(key, logits), memory

    def action_probabilities(self, percept: Percept, memory: PyTree) -> Float[Array, "a"]:
        return jax.nn.softmax(self.logits(percept, memory)[0])

    def logits(self, percept: Percept, memory: PyTree) -> tuple[Float[Array, "a"], PyTree]:
        """Unnormalised log-probabilities of the legal actions, and the memory after this step."""
        network, context = self.network.for_seat(percept.seat)
        memory = clear_memory(memory, network.initial_memory(), percept.first)
        logits, memory = network.step(percept.observation, memory, context)
        return mask_logits(logits, percept.legal), memory


def dense_policy(mlp: MLP) -> ActorPolicy:
    """The policy of a multilayer perceptron, or of several stacked ones."""
    size, *hidden, num_actions = mlp.sizes
    return ActorPolicy(
        mlp, "dense", NetworkSpec((size,), num_actions, tuple(hidden), fourier_bandwidth=float(mlp.fourier))
    )
