"""Agents whose memory is a representation of the partner, learned by losses of its own.

An encoder reads the trial so far and writes an embedding z; the policy and the critic read what the agent sees and z:

    z_t = f(x_1, ..., x_t),        pi(a | x_t, sg z_t),        V(x_t, sg z_t)

with the gradient stopped (sg), so that z learns from the losses that a learner adds and not from rewards. The x are
those of RL^2: observation, last action, last reward and start flag.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentSpec, Decision, NetworkMemories, OnPolicyLearner
from coverset.adhoc.recurrent import check_recurrent, read_trial, trial_input_size
from coverset.checks import check_at_least
from coverset.policies.network import POLICY_HEAD_SCALE, Network, NetworkSpec, network_class
from coverset.policies.networks.dense import MLP
from coverset.types import Percept, PRNGKey, PyTree


class LatentActor(Network):
    """An encoder and a policy that reads its embedding; outputs are the policy's, then the encoder's."""

    recurrent: ClassVar[bool] = True

    encoder: Network
    policy: MLP

    @classmethod
    def build(cls, key: PRNGKey, spec: NetworkSpec) -> "LatentActor":
        raise TypeError("A latent actor is built from its parts.")

    def logits(self, inputs: Float[Array, "*b d"], embedding: Float[Array, "*b z"]) -> Float[Array, "*b a"]:
        """The policy's preferences, from which no gradient reaches the embedding."""
        return self.policy(jnp.concatenate([inputs, jax.lax.stop_gradient(embedding)], axis=-1))

    def initial_memory(self, *batch: int) -> PyTree:
        return self.encoder.initial_memory(*batch)

    def step(
        self, inputs: Float[Array, "*b d"], memory: PyTree, context: Float[Array, "..."] | float = 0.0
    ) -> tuple[Float[Array, "... o"], PyTree]:
        embedding, memory = self.encoder.step(inputs, memory, context)
        return jnp.concatenate([self.logits(inputs, embedding), embedding], axis=-1), memory

    def unroll(
        self,
        inputs: Float[Array, "T *b d"],
        memory: PyTree,
        fresh: Bool[Array, "T *b"] | None,
        context: Float[Array, "..."] | float = 0.0,
    ) -> Float[Array, "T *b o"]:
        embedding = self.encoder.unroll(inputs, memory, fresh, context)
        return jnp.concatenate([self.logits(inputs, embedding), embedding], axis=-1)


@dataclass(frozen=True)
class LatentLearner(OnPolicyLearner):
    """What learners with an embedding share: networks, what they read, and how they act."""

    network: str = "lstm"
    """Recurrent network of the encoder: lstm, gru or module:Class."""
    latent_size: int = 20
    """Numbers of the embedding."""

    def __post_init__(self) -> None:
        check_at_least("latent_size", self.latent_size, 1)
        check_recurrent(type(self).__name__.lower(), self.network)

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        actor_key, critic_key, head_key = jax.random.split(key, 3)
        critic = MLP.create(critic_key, (*self.read_sizes(spec), 1))
        return AgentNetworks(self.init_actor(actor_key, spec), critic, self.init_heads(head_key, spec))

    def read_sizes(self, spec: AgentSpec) -> tuple[int, ...]:
        """Widths of a network that reads inputs and embedding, before its last layer."""
        return (trial_input_size(spec) + self.encoder_outputs(spec), *spec.hidden_sizes, spec.memory_size)

    def init_encoder(self, key: PRNGKey, spec: AgentSpec, *, further: int = 0) -> Network:
        """Draw a recurrent network that reads the trial, and `further` numbers beside."""
        width, outputs = trial_input_size(spec) + further, self.encoder_outputs(spec)
        rest = (spec.hidden_sizes, spec.memory_size, spec.fourier_bandwidth)
        return network_class(self.network).build(key, NetworkSpec((width,), outputs, *rest))

    def init_actor(self, key: PRNGKey, spec: AgentSpec) -> LatentActor:
        """Draw the encoder and the policy."""
        encoder_key, policy_key = jax.random.split(key)
        policy = MLP.create(policy_key, (*self.read_sizes(spec), spec.num_actions), POLICY_HEAD_SCALE)
        return LatentActor(self.init_encoder(encoder_key, spec), policy)

    def encoder_outputs(self, spec: AgentSpec) -> int:
        """How many numbers the encoder gives to policy and critic: those of the embedding."""
        del spec
        return self.latent_size

    def init_heads(self, key: PRNGKey, spec: AgentSpec) -> PyTree:
        """Draw what auxiliary losses need; nothing, unless a learner says otherwise."""
        del key, spec
        return ()

    def inputs(self, percept: Percept, last_action: Int[Array, "*b"], spec: AgentSpec) -> Float[Array, "*b f"]:
        return read_trial(percept, last_action, spec)

    def step(self, networks: AgentNetworks, inputs: Float[Array, "*b f"], memory: PyTree, spec: AgentSpec) -> Decision:
        outputs, actor_memory = networks.actor.step(inputs, memory.actor)
        logits, embedding = jnp.split(outputs, [spec.num_actions], axis=-1)
        return Decision(logits, estimate(networks, inputs, embedding), NetworkMemories(actor_memory, memory.critic))

    def unroll(self, networks: AgentNetworks, batch: AgentBatch) -> tuple[Float[Array, "T *n o"], Float[Array, "T *n"]]:
        outputs = networks.actor.unroll(batch.inputs, batch.memory.actor, batch.fresh)
        embedding_size = networks.critic.sizes[0] - batch.inputs.shape[-1]
        embedding = outputs[..., outputs.shape[-1] - embedding_size :]
        return outputs, estimate(networks, batch.inputs, embedding)


def estimate(
    networks: AgentNetworks, inputs: Float[Array, "*b f"], embedding: Float[Array, "*b z"]
) -> Float[Array, "*b"]:
    """The critic's values V(x, sg z)."""
    return networks.critic(jnp.concatenate([inputs, jax.lax.stop_gradient(embedding)], axis=-1))[..., 0]
