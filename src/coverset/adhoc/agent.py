"""The ad hoc agent: RL^2 (Duan et al. 2016; paper, experiment setup and last appendix).

A multilayer perceptron whose last layer is an LSTM reads the observation, the agent's own last action, the last reward
and whether an episode starts; memory lives for a whole trial of episodes with one teammate, so that the agent can find
out whom it plays with. The same network without memory, which sees nothing but the observation, is the control.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.policies.network import POLICY_HEAD_SCALE
from coverset.policies.networks.dense import MLP
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey


class Memory(NamedTuple):
    """Hidden and cell state of an LSTM."""

    hidden: Float[Array, "*b m"]
    cell: Float[Array, "*b m"]


class MemoryNetwork(eqx.Module):
    """Dense layers, then an LSTM (or, without memory, one more dense layer), then a linear head."""

    encoder: MLP
    recurrent_weight: Float[Array, "*s m g"]
    head: MLP
    recurrent: bool = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        key: PRNGKey,
        num_features: int,
        hidden_sizes: Sequence[int],
        memory_size: int,
        num_outputs: int,
        *,
        recurrent: bool,
        head_scale: float = 1.0,
        waves: float = 0.0,
    ) -> "MemoryNetwork":
        """Draw the layers. The encoder's last layer makes the LSTM's four gates from its input."""
        encoder_key, recurrent_key, head_key = jax.random.split(key, 3)
        gates = 4 * memory_size if recurrent else memory_size
        return cls(
            encoder=MLP.create(encoder_key, (num_features, *hidden_sizes, gates), waves=waves),
            recurrent_weight=memory_size**-0.5 * jax.random.normal(recurrent_key, (memory_size, gates)),
            head=MLP.create(head_key, (memory_size, num_outputs), head_scale),
            recurrent=recurrent,
        )

    def initial_memory(self, *batch: int) -> Memory:
        """What a trial starts with."""
        zeros = jnp.zeros((*batch, self.recurrent_weight.shape[-2]))
        return Memory(zeros, zeros)

    def step(self, features: Float[Array, "*b f"], memory: Memory) -> tuple[Float[Array, "*b o"], Memory]:
        """One time step."""
        memory = self._advance(self.encoder(features), memory)
        return self.head(memory.hidden), memory

    def unroll(
        self, features: Float[Array, "T n f"], memory: Memory, fresh: Bool[Array, "T n"]
    ) -> Float[Array, "T n o"]:
        """The outputs of a whole rollout that started with `memory`; it is cleared before each step that is `fresh`.

        All that does not depend on memory is one matrix product over the rollout; only the rest goes step by step.
        """

        def advance(memory: Memory, step) -> tuple[Memory, Float[Array, "n m"]]:
            encoded, fresh_now = step
            memory = jax.tree.map(lambda m: jnp.where(fresh_now[:, None], 0.0, m), memory)
            memory = self._advance(encoded, memory)
            return memory, memory.hidden

        _, hidden = jax.lax.scan(advance, memory, (self.encoder(features), fresh))
        return self.head(hidden)

    def _advance(self, encoded: Float[Array, "*b g"], memory: Memory) -> Memory:
        if not self.recurrent:
            return Memory(jax.nn.relu(encoded), memory.cell)
        gates = encoded + memory.hidden @ self.recurrent_weight
        keep, write, show, content = jnp.split(gates, 4, axis=-1)
        # A forget gate that starts open lets gradients reach far back from the first update on.
        cell = jax.nn.sigmoid(keep + 1.0) * memory.cell + jax.nn.sigmoid(write) * jnp.tanh(content)
        return Memory(jax.nn.sigmoid(show) * jnp.tanh(cell), cell)


def feature_size(observation_size: int, num_actions: int, *, recurrent: bool) -> int:
    """Length of `features`."""
    return observation_size + (num_actions + 2 if recurrent else 0)


def features(
    percept: Percept, last_action: Int[Array, "*b"], num_actions: int, *, recurrent: bool
) -> Float[Array, "*b f"]:
    """What the network reads: the observation; with memory also the last action (-1: none), reward and start flag."""
    if not recurrent:
        return percept.observation
    return jnp.concatenate(
        [
            percept.observation,
            jax.nn.one_hot(last_action, num_actions),
            percept.reward[..., None],
            percept.first[..., None].astype(jnp.float32),
        ],
        axis=-1,
    )


class AgentMemory(NamedTuple):
    """What the agent carries through a trial."""

    network: Memory
    last_action: Int[Array, "*b"]


class AdHocPolicy(Policy):
    """A trained agent behind the policy interface; samples its actions."""

    actor: MemoryNetwork
    num_actions: int = eqx.field(static=True)
    reward_scale: float = eqx.field(static=True)

    def initial_memory(self) -> AgentMemory:
        return AgentMemory(self.actor.initial_memory(), jnp.int32(-1))

    def act(self, key: PRNGKey, percept: Percept, memory: AgentMemory) -> tuple[Int[Array, ""], AgentMemory]:
        logits, network = self.logits(percept, memory)
        action = jax.random.categorical(key, logits).astype(jnp.int32)
        return action, AgentMemory(network, action)

    def logits(self, percept: Percept, memory: AgentMemory) -> tuple[Float[Array, "a"], Memory]:
        """Unnormalised log-probabilities of the actions, and the network's next memory."""
        scaled = percept._replace(reward=percept.reward * self.reward_scale)
        inputs = features(scaled, memory.last_action, self.num_actions, recurrent=self.actor.recurrent)
        return self.actor.step(inputs, memory.network)


def create_actor(
    key: PRNGKey,
    observation_size: int,
    num_actions: int,
    hidden_sizes: Sequence[int],
    memory_size: int,
    *,
    recurrent: bool,
    waves: float = 0.0,
) -> MemoryNetwork:
    """An untrained actor: nearly uniform over its actions."""
    size = feature_size(observation_size, num_actions, recurrent=recurrent)
    return MemoryNetwork.create(
        key,
        size,
        hidden_sizes,
        memory_size,
        num_actions,
        recurrent=recurrent,
        head_scale=POLICY_HEAD_SCALE,
        waves=waves,
    )
