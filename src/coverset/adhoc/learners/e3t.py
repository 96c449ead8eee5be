"""E3T (Yan et al. 2023): no population; the partner is the agent itself, half of whose actions are random.

    pi_partner = (1 - e) sg(pi_agent) + e uniform,        L = L_PPO - c log q(a'_t | trial so far)

The policy and the critic read the prediction q of the partner's action, with its gradient stopped (`adhoc.latent`).
The pool tells only how many environments there are; its partners are never played with.

Source: Yan et al. 2023, e = 0.5, from reading notes.

Differs from the source: the prediction reads the whole trial instead of the last five steps; in a game whose seats are
not alike the copy plays a seat for which it is not trained.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from coverset.adhoc.latent import LatentLearner
from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec
from coverset.adhoc.partner_losses import action_loss
from coverset.adhoc.perturbed import Traits, check_plays_itself, perturbed_pool
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.ppo import ppo_loss
from coverset.checks import check_at_least, check_between
from coverset.policies.networks.dense import MLP
from coverset.types import PRNGKey, PyTree, Scalar


@dataclass(frozen=True)
class E3T(LatentLearner):
    """Trains with itself and random actions, and predicts what its partner does."""

    meets_partners: ClassVar[bool] = False

    partner_noise: float = 0.5
    """Probability that the partner's action is random: e."""
    prediction_weight: float = 1.0
    """Weight of the prediction beside PPO: c."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between("partner_noise", self.partner_noise, 0, 1)
        check_at_least("prediction_weight", self.prediction_weight, 0)

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        check_plays_itself("e3t", spec)
        return super().init(key, spec)

    def init_heads(self, key: PRNGKey, spec: AgentSpec) -> MLP:
        return MLP.create(key, (self.latent_size, spec.partner_seats * spec.partner_num_actions))

    def partners(self, networks: AgentNetworks, state: PyTree, pool: PartnerPool, spec: AgentSpec) -> PartnerPool:
        rows, actions = len(pool), spec.partner_num_actions
        traits = Traits(jnp.full(rows, self.partner_noise), jnp.full((rows, actions), 1.0 / actions))
        return perturbed_pool(self.policy(jax.lax.stop_gradient(networks), spec), traits)

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        outputs, values = self.unroll(networks, batch)
        loss, logged = ppo_loss(outputs[..., : spec.num_actions], values, batch, pace)
        predicted = action_loss(networks.heads(outputs[..., spec.num_actions :]), batch, spec)
        return loss + self.prediction_weight * predicted, logged | {"action_loss": predicted}
