"""Proximal policy optimisation of an agent (Schulman et al. 2017): the loss that learners share.

    L = mean (V - target)^2 - mean min(r A, clip(r, 1 - c, 1 + c) A) - w mean H(pi)

with the probability ratio r, advantages A of mean 0 and deviation 1 over the rollout, the clipping range c, and the
present entropy bonus w. A learner with an auxiliary task adds its own term.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.adhoc.learner import AgentBatch, AgentPace
from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities
from coverset.policy import mask_logits
from coverset.types import Scalar


def ppo_loss(
    logits: Float[Array, "T *n a"], values: Float[Array, "T *n"], batch: AgentBatch, pace: AgentPace
) -> tuple[Scalar, dict[str, Scalar]]:
    """The loss of a policy and a critic, and its parts `entropy` and `critic_loss` to log."""
    logits = mask_logits(logits, batch.legal)
    log_p = log_probabilities(logits, batch.actions)
    gain = clipped_surrogate(log_p, batch.log_p, batch.advantage, clip=pace.clip).mean()
    entropies = entropy(logits).mean()
    critic_loss = jnp.square(values - batch.target).mean()
    loss = critic_loss - gain - pace.entropy_bonus * entropies
    return loss, {"entropy": entropies, "critic_loss": critic_loss}
