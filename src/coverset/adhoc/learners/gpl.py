"""GPL (Rahman et al. 2021): types of the teammates, a model of their actions, and a coordination graph of joint values.

    Q(a) = Q^i(a^i) + sum_j Q^j(a^j) + sum_j F_j(a^i) . G_j(a^j) + sum_{j<k} H_j(a^j) . H_k(a^k)
    Qbar(a^i) = E_{a^j ~ q(. | theta_j)} Q(a),      pi(a^i) = softmax(Qbar / temperature)
    L = (Q(a) - A)^2 + (V - target)^2 - c log q(a^-i | theta)

for the learner i and teammates j, k with types theta, which a recurrent network reads off the trial; pair terms have a
low rank. The policy is that of soft policy iteration (the paper's GPL-SPI). With one teammate the graph has one edge.

Source: Rahman et al. 2021, equations as its public code has them.

Differs from the source: the agent sees its own observations alone, so that types come from one network with an output
for every seat; values are advantages A of the rollout, of deviation 1, instead of returns: a state's own value does not
change the policy; learning is on-policy; memory lasts for the whole trial.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.adhoc.latent import LatentActor, LatentLearner
from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, AgentSpec
from coverset.adhoc.recurrent import trial_input_size
from coverset.checks import check_at_least, check_positive
from coverset.learning.losses import entropy, log_probabilities
from coverset.policies.network import POLICY_HEAD_SCALE
from coverset.policies.networks.dense import MLP
from coverset.policy import mask_logits
from coverset.types import PRNGKey, Scalar


class Graph(NamedTuple):
    """A coordination graph; axis S is the teammates' seats, r the rank of pair terms."""

    own: Float[Array, "*b a"]
    """Q^i."""
    others: Float[Array, "*b S p"]
    """Q^j."""
    own_factors: Float[Array, "*b S a r"]
    """F_j."""
    other_factors: Float[Array, "*b S p r"]
    """G_j."""
    team_factors: Float[Array, "*b S p r"]
    """H_j."""
    action_logits: Float[Array, "*b S p"]
    """The model of the teammates' actions."""

    def joint(self, own: Int[Array, "*b"], others: Int[Array, "*b S"]) -> Float[Array, "*b"]:
        """Q of a joint action."""
        chosen = jax.nn.one_hot(others, self.others.shape[-1])
        return jnp.sum(self.marginal(chosen) * jax.nn.one_hot(own, self.own.shape[-1]), axis=-1)

    def expected(self) -> Float[Array, "*b a"]:
        """Qbar: what the graph expects of every own action. The model of actions learns from its own loss alone."""
        return self.marginal(jax.lax.stop_gradient(jax.nn.softmax(self.action_logits)))

    def marginal(self, probabilities: Float[Array, "*b S p"]) -> Float[Array, "*b a"]:
        """E Q by own action, for teammates who act independently with these probabilities."""
        alone = jnp.sum(self.others * probabilities, axis=(-1, -2))
        answers = jnp.sum(self.other_factors * probabilities[..., None], axis=-2)
        with_own = jnp.sum(self.own_factors * answers[..., None, :], axis=(-1, -3))
        team = jnp.sum(self.team_factors * probabilities[..., None], axis=-2)
        pairs = 0.5 * jnp.sum(jnp.square(team.sum(axis=-2)) - jnp.square(team).sum(axis=-2), axis=-1)
        return self.own + with_own + (alone + pairs)[..., None]


class GraphActor(LatentActor):
    """Types from the trial, and the graph that they make; `policy` gives Q^i."""

    seat: MLP
    """From the inputs and one teammate's type to all that the graph has for its seat."""
    num_seats: int = eqx.field(static=True)
    partner_actions: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    temperature: float = eqx.field(static=True)

    def logits(self, inputs: Float[Array, "*b d"], embedding: Float[Array, "*b z"]) -> Float[Array, "*b a"]:
        return self.graph(inputs, embedding).expected() / self.temperature

    def graph(self, inputs: Float[Array, "*b d"], embedding: Float[Array, "*b z"]) -> Graph:
        """The graph of these types."""
        own = self.policy(jnp.concatenate([inputs, embedding], axis=-1))
        types = embedding.reshape(*embedding.shape[:-1], self.num_seats, -1)
        seen = jnp.broadcast_to(inputs[..., None, :], (*types.shape[:-1], inputs.shape[-1]))
        outputs = self.seat(jnp.concatenate([seen, types], axis=-1))
        p, r, a = self.partner_actions, self.rank, own.shape[-1]
        cuts = [p, 2 * p, 2 * p + p * r, 2 * p + 2 * p * r]
        action_logits, others, g, h, f = jnp.split(outputs, cuts, axis=-1)
        f_factors, g_factors, h_factors = (x.reshape(*x.shape[:-1], -1, r) for x in (f, g, h))
        assert f.shape[-1] == a * r
        return Graph(own, others, f_factors, g_factors, h_factors, action_logits)


@dataclass(frozen=True)
class GPL(LatentLearner):
    """Graph-based policy learning."""

    rank: int = 6
    """Rank of the graph's pair terms."""
    temperature: float = 0.1
    """Of the policy, in deviations of the advantages."""
    prediction_weight: float = 1.0
    """Weight of the action model's loss: c."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("rank", self.rank, 1)
        check_positive("temperature", self.temperature)
        check_at_least("prediction_weight", self.prediction_weight, 0)

    def encoder_outputs(self, spec: AgentSpec) -> int:
        return spec.partner_seats * self.latent_size

    def init_actor(self, key: PRNGKey, spec: AgentSpec) -> GraphActor:
        encoder_key, own_key, seat_key = jax.random.split(key, 3)
        width = trial_input_size(spec) + self.latent_size
        outputs = spec.partner_num_actions * (2 + 2 * self.rank) + spec.num_actions * self.rank
        return GraphActor(
            encoder=self.init_encoder(encoder_key, spec),
            policy=MLP.create(own_key, (*self.read_sizes(spec), spec.num_actions), POLICY_HEAD_SCALE),
            seat=MLP.create(seat_key, (width, *spec.hidden_sizes, spec.memory_size, outputs), SEAT_HEAD_SCALE),
            num_seats=spec.partner_seats,
            partner_actions=spec.partner_num_actions,
            rank=self.rank,
            temperature=self.temperature,
        )

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        outputs, values = self.unroll(networks, batch)
        graph = networks.actor.graph(batch.inputs, outputs[..., spec.num_actions :])
        done = batch.partner_actions.reshape(*batch.actions.shape, spec.partner_seats)
        joint_loss = jnp.square(graph.joint(batch.actions, done) - batch.advantage).mean()
        predicted = -log_probabilities(graph.action_logits, done).mean()
        critic_loss = jnp.square(values - batch.target).mean()
        entropies = entropy(mask_logits(outputs[..., : spec.num_actions], batch.legal)).mean()
        logged = {"entropy": entropies, "critic_loss": critic_loss, "joint_loss": joint_loss, "action_loss": predicted}
        return critic_loss + joint_loss + self.prediction_weight * predicted, logged


SEAT_HEAD_SCALE = 0.1
"""Pair terms start small, and not at zero, where products have no gradient."""
