"""LIAM (Papoudakis, Christianos and Albrecht 2021): an embedding from which the partner's view can be reconstructed.

    z_t = f(trial so far),      L = L_PPO + c [ |d_o(z_t) - o'_t|^2 - log q(a'_t | d_a(z_t)) ]

with the partner's observation o' and action a', which are known in training alone. At test the agent reads nothing but
its own trial. The policy and the critic read z with the gradient stopped (`adhoc.latent`).

Source: the equations of the paper as the authors' public code has them: LSTM of 128, z of 20 numbers, c = 1.

Differs from the source: memory lasts for the whole trial, and the encoder also reads the last reward and the start
flag, so that episodes teach about the next; PPO instead of A2C; encoder and policy learn at one rate; sizes are those
of the settings.
"""

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float

from coverset.adhoc.latent import LatentLearner
from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec
from coverset.adhoc.partner_losses import OBSERVATION_LOSSES, action_loss, observation_loss
from coverset.adhoc.ppo import ppo_loss
from coverset.checks import check_at_least, check_one_of
from coverset.policies.networks.dense import MLP
from coverset.types import PRNGKey, Scalar


@dataclass(frozen=True)
class LIAM(LatentLearner):
    """Reconstructs what its partner sees and does."""

    reconstruction_weight: float = 1.0
    """Weight of the reconstruction beside PPO: c."""
    observation_loss: str = "squared"
    """Loss of reconstructed observations: squared, or cross-entropy for entries between 0 and 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("reconstruction_weight", self.reconstruction_weight, 0)
        check_one_of("observation_loss", self.observation_loss, OBSERVATION_LOSSES)

    def init_heads(self, key: PRNGKey, spec: AgentSpec) -> dict[str, MLP]:
        sizes = {"observations": spec.partner_observation_size, "actions": spec.partner_num_actions}
        return {
            name: MLP.create(head_key, (self.latent_size, *spec.hidden_sizes, spec.partner_seats * size))
            for head_key, (name, size) in zip(jax.random.split(key), sizes.items(), strict=True)
        }

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        outputs, values = self.unroll(networks, batch)
        loss, logged = ppo_loss(outputs[..., : spec.num_actions], values, batch, pace)
        own = self.reconstruct(networks, outputs[..., spec.num_actions :], batch, spec)
        return loss + self.reconstruction_weight * sum(own.values()), logged | own

    def reconstruct(
        self, networks: AgentNetworks, embedding: Float[Array, "T *n z"], batch: AgentBatch, spec: AgentSpec
    ) -> dict[str, Scalar]:
        """Both losses of the decoders."""
        seen, done = (networks.heads[name](embedding) for name in ("observations", "actions"))
        return {
            "observation_loss": observation_loss(seen, batch, spec, self.observation_loss),
            "action_loss": action_loss(done, batch, spec),
        }
