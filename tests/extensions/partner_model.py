"""A learner in one file, as somebody outside of coverset would write it: RL^2 that also predicts its partner's actions.

The actor's network has one more output for each action of the partner. Their cross-entropy with what the partner does
at the same step is an auxiliary loss, which shapes what the network remembers of the partner:

    L = L_PPO - c mean log q(partner's action | history)
"""

from dataclasses import dataclass

import jax.numpy as jnp

from coverset.adhoc.learners.rl2 import RL2
from coverset.adhoc.ppo import ppo_loss
from coverset.checks import check_at_least
from coverset.learning.losses import log_probabilities


@dataclass(frozen=True)
class PartnerModel(RL2):
    """RL^2 with a model of the partner."""

    prediction_weight: float = 0.5
    """Weight of the prediction's loss beside that of PPO: c."""

    def __post_init__(self):
        super().__post_init__()
        check_at_least("prediction_weight", self.prediction_weight, 0)

    def num_outputs(self, spec):
        return spec.num_actions + spec.partner_num_actions

    def losses(self, networks, batch, pace, spec):
        outputs, values = self.unroll(networks, batch)
        logits, predicted = jnp.split(outputs, [spec.num_actions], axis=-1)
        loss, logged = ppo_loss(logits, values, batch, pace)
        prediction_loss = -log_probabilities(predicted, batch.partner_actions).mean()
        right = jnp.mean(predicted.argmax(axis=-1) == batch.partner_actions)
        own = {"prediction_loss": prediction_loss, "prediction_accuracy": right}
        return loss + self.prediction_weight * prediction_loss, logged | own
