"""Losses of models of the partner: what it does and what it sees, averaged over seats where it has several."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.adhoc.learner import AgentBatch, AgentSpec
from coverset.learning.losses import log_probabilities
from coverset.types import Scalar

OBSERVATION_LOSSES = ("squared", "cross-entropy")


def split_by_seat(predicted: Float[Array, "*b x"], spec: AgentSpec) -> Float[Array, "..."]:
    """[*b, S x] -> [*b, S, x] in games of several partners, as batches have it."""
    if spec.partner_seats == 1:
        return predicted
    return predicted.reshape(*predicted.shape[:-1], spec.partner_seats, -1)


def action_loss(logits: Float[Array, "T *n x"], batch: AgentBatch, spec: AgentSpec) -> Scalar:
    """-mean log q(partner's action)."""
    return -log_probabilities(split_by_seat(logits, spec), batch.partner_actions).mean()


def observation_loss(predicted: Float[Array, "T *n x"], batch: AgentBatch, spec: AgentSpec, kind: str) -> Scalar:
    """The error of predicted observations, summed over their entries: squares, or for entries in [0, 1] cross-entropy.

    squared: sum_k (p_k - o_k)^2        cross-entropy: -sum_k [o_k log s(p_k) + (1 - o_k) log(1 - s(p_k))]
    """
    apart, seen = split_by_seat(predicted, spec), batch.partner_observations
    if kind == "squared":
        return jnp.square(apart - seen).sum(axis=-1).mean()
    bits = seen * jax.nn.log_sigmoid(apart) + (1.0 - seen) * jax.nn.log_sigmoid(-apart)
    return -bits.sum(axis=-1).mean()
