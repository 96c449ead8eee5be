"""ODITS (Gu et al. 2022): a latent that knows the teammates in training, and a proxy from the agent's own trial.

    z_t ~ e(. | trial, partner's observations),        z'_t = p(. | trial)
    L = L_PPO(pi(a | x_t, z'_t), V(x_t, z_t)) + b KL(e || N(0, 1)) + c KL(sg e || p)

What is worth knowing about the partner reaches z through the values V, of which the second term lets as little through
as it can; the proxy learns to say the same from what the agent sees, and the policy reads the proxy's mean and
deviation with the gradient stopped. Only the proxy is needed at test.

Source: from memory of Gu et al. 2022, whose text was not at hand.

Differs from the source: values V(x, z) of PPO take the place of its integrating network over utilities, and the bound
on mutual information is that of a variational bottleneck; memory lasts for the whole trial.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.adhoc.gaussian import read_gaussian, standard_gaussian
from coverset.adhoc.latent import LatentLearner
from coverset.adhoc.learner import (
    AgentBatch,
    AgentNetworks,
    AgentPace,
    AgentSpec,
    Decision,
    NetworkMemories,
    PartnerView,
)
from coverset.adhoc.ppo import ppo_loss
from coverset.adhoc.recurrent import trial_input_size
from coverset.checks import check_at_least
from coverset.policies.network import Network
from coverset.policies.networks.dense import MLP
from coverset.types import PRNGKey, PyTree, Scalar


class InformedCritic(NamedTuple):
    """The encoder that knows the partner, and the values of what it says."""

    encoder: Network
    value: MLP

    def estimate(self, inputs: Float[Array, "*b f"], latent: Float[Array, "*b z"]) -> Float[Array, "*b"]:
        """V(x, z)."""
        return self.value(jnp.concatenate([inputs, latent], axis=-1))[..., 0]


@dataclass(frozen=True)
class ODITS(LatentLearner):
    """A proxy of a latent that knows the teammates."""

    information_weight: float = 1e-3
    """Weight of the bottleneck: b."""
    proxy_weight: float = 0.1
    """Weight of the proxy's loss: c."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("information_weight", self.information_weight, 0)
        check_at_least("proxy_weight", self.proxy_weight, 0)

    def encoder_outputs(self, spec: AgentSpec) -> int:
        return 2 * self.latent_size

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        actor_key, encoder_key, value_key = jax.random.split(key, 3)
        further = spec.partner_seats * spec.partner_observation_size
        sizes = (trial_input_size(spec) + self.latent_size, *spec.hidden_sizes, 1)
        critic = InformedCritic(self.init_encoder(encoder_key, spec, further=further), MLP.create(value_key, sizes))
        return AgentNetworks(self.init_actor(actor_key, spec), critic)

    def hidden(self, partner: PartnerView, spec: AgentSpec) -> Float[Array, "*b h"]:
        return partner.observations.reshape(*partner.row.shape, -1)

    def initial_memory(self, networks: AgentNetworks, *batch: int) -> PyTree:
        return NetworkMemories(networks.actor.initial_memory(*batch), networks.critic.encoder.initial_memory(*batch))

    def step(
        self,
        networks: AgentNetworks,
        inputs: Float[Array, "*b f"],
        memory: PyTree,
        spec: AgentSpec,
        hidden: Float[Array, "*b h"] | None = None,
    ) -> Decision:
        assert hidden is not None
        outputs, actor_memory = networks.actor.step(inputs, memory.actor)
        critic, informed = networks.critic, jnp.concatenate([inputs, hidden], axis=-1)
        said, critic_memory = critic.encoder.step(informed, memory.critic)
        values = critic.estimate(inputs, read_gaussian(said).mean)
        return Decision(outputs[..., : spec.num_actions], values, NetworkMemories(actor_memory, critic_memory))

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        assert batch.hidden is not None
        assert pace.key is not None
        outputs = networks.actor.unroll(batch.inputs, batch.memory.actor, batch.fresh)
        informed = jnp.concatenate([batch.inputs, batch.hidden], axis=-1)
        latent = read_gaussian(networks.critic.encoder.unroll(informed, batch.memory.critic, batch.fresh))
        values = networks.critic.estimate(batch.inputs, latent.sample(pace.key))
        loss, logged = ppo_loss(outputs[..., : spec.num_actions], values, batch, pace)
        proxy = read_gaussian(outputs[..., spec.num_actions :])
        information = latent.divergence(standard_gaussian(latent)).mean()
        proxy_loss = jax.lax.stop_gradient(latent).divergence(proxy).mean()
        own = {"information": information, "proxy_loss": proxy_loss}
        return loss + self.information_weight * information + self.proxy_weight * proxy_loss, logged | own
