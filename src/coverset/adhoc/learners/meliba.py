"""MeLIBA (Zintgraf et al. 2021): beliefs about a permanent and a temporal latent of the partner.

    q(m, m_t | trial up to t),      ELBO_t = E_q sum_{k >= t} log p(a'_k | o'_k, m, m_t) - KL(q_t || q_{t-1})
    L = L_PPO - c mean_t ELBO_t

The decoder p, which is needed in training alone, predicts from what the partner sees, o', what it does until the end of
the trial or rollout; beyond the end of the episode it reads the permanent latent m alone, since the temporal one, m_t,
lasts for an episode. The prior of a belief is the belief before it, N(0, 1) at the start of a trial or, for m_t, of an
episode. The policy and the critic read the means and deviations of q, with the gradient stopped.

Source: Zintgraf et al. 2021 and a public reimplementation: GRU, KL weight 0.05.

Differs from the source: each latent has half of `latent_size`, and both come from one network; sums of the decoder are
means, over `start_steps` steps t drawn per optimiser step; memory lasts for the whole trial.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.adhoc.gaussian import Gaussian, read_gaussian, standard_gaussian
from coverset.adhoc.latent import LatentLearner
from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec
from coverset.adhoc.partner_losses import split_by_seat
from coverset.adhoc.ppo import ppo_loss
from coverset.checks import check_at_least
from coverset.learning.losses import log_probabilities
from coverset.policies.network import clear_memory
from coverset.policies.networks.dense import MLP
from coverset.types import PRNGKey, Scalar


@dataclass(frozen=True)
class MeLIBA(LatentLearner):
    """Beliefs that predict what the partner will do."""

    network: str = "gru"
    """Recurrent network of the encoder: lstm, gru or module:Class."""
    prediction_weight: float = 1.0
    """Weight of the bound beside PPO: c."""
    divergence_weight: float = 0.05
    """Weight of KL within the bound."""
    start_steps: int = 4
    """Steps from which the partner's actions are predicted, drawn for every optimiser step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("prediction_weight", self.prediction_weight, 0)
        check_at_least("divergence_weight", self.divergence_weight, 0)
        check_at_least("latent_size", self.latent_size, 2)
        check_at_least("start_steps", self.start_steps, 1)

    def encoder_outputs(self, spec: AgentSpec) -> int:
        return 2 * self.latent_size

    def init_heads(self, key: PRNGKey, spec: AgentSpec) -> MLP:
        width = self.latent_size + spec.partner_seats * spec.partner_observation_size
        return MLP.create(key, (width, *spec.hidden_sizes, spec.partner_seats * spec.partner_num_actions))

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        assert pace.key is not None
        outputs, values = self.unroll(networks, batch)
        loss, logged = ppo_loss(outputs[..., : spec.num_actions], values, batch, pace)
        beliefs = read_gaussian(outputs[..., spec.num_actions :])
        own = {
            "action_loss": self.prediction_loss(pace.key, networks.heads, beliefs, batch, spec),
            "divergence": sum(map(belief_divergence, split_latents(beliefs), (batch.fresh, batch.first))),
        }
        bound = own["action_loss"] + self.divergence_weight * own["divergence"]
        return loss + self.prediction_weight * bound, logged | own

    def prediction_loss(
        self, key: PRNGKey, decoder: MLP, beliefs: Gaussian, batch: AgentBatch, spec: AgentSpec
    ) -> Scalar:
        """-mean log p(a'_k | o'_k, z_t) over drawn steps t and the steps k from t on in the same trial."""
        step_key, noise_key = jax.random.split(key)
        starts = jax.random.randint(step_key, (self.start_steps,), 0, len(batch.fresh))
        latents = beliefs.sample(noise_key)[starts][:, None]
        permanent, temporal = jnp.split(latents, [self.latent_size // 2], axis=-1)
        lasting = jnp.where(same_stretch_after(starts, batch.first)[..., None], temporal, 0.0)
        seen = batch.partner_observations.reshape(*batch.fresh.shape, -1)[None]
        shape = lasting.shape[:-1]
        read = [jnp.broadcast_to(x, (*shape, x.shape[-1])) for x in (permanent, lasting, seen)]
        logits = split_by_seat(decoder(jnp.concatenate(read, axis=-1)), spec)
        done = jnp.broadcast_to(batch.partner_actions[None], logits.shape[:-1])
        likely = log_probabilities(logits, done).reshape(*shape, -1).mean(axis=-1)
        counted = same_stretch_after(starts, batch.fresh)
        return -jnp.sum(jnp.where(counted, likely, 0.0)) / jnp.maximum(counted.sum(dtype=jnp.float32), 1.0)


def split_latents(beliefs: Gaussian) -> tuple[Gaussian, Gaussian]:
    """The beliefs about the permanent and about the temporal latent."""
    middle = beliefs.mean.shape[-1] // 2
    return Gaussian(*(x[..., :middle] for x in beliefs)), Gaussian(*(x[..., middle:] for x in beliefs))


def same_stretch_after(starts: Int[Array, "s"], begins: Bool[Array, "T n"]) -> Bool[Array, "s T n"]:
    """Whether step k is at or behind a start, and in the same trial or episode, as `begins` marks them."""
    number = jnp.cumsum(begins, axis=0)
    later = jnp.arange(len(begins))[None] >= starts[:, None]
    return later[..., None] & (number[None] == number[starts][:, None])


def belief_divergence(beliefs: Gaussian, begins: Bool[Array, "T n"]) -> Scalar:
    """mean KL(q_t || q_{t-1}), with N(0, 1) where a stretch begins; a rollout's first step counts only there."""
    before = jax.tree.map(lambda x: jax.lax.stop_gradient(jnp.roll(x, 1, axis=0)), beliefs)
    prior = clear_memory(before, standard_gaussian(beliefs), begins)
    known = begins.at[1:].set(True)
    return jnp.sum(jnp.where(known, beliefs.divergence(prior), 0.0)) / jnp.maximum(known.sum(dtype=jnp.float32), 1.0)
