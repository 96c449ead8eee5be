"""RL^2 (Duan et al. 2016; paper, experiment setup and last appendix).

A recurrent network reads the observation, the agent's own last action, the last reward and whether an episode starts.
Its memory lasts for a whole trial of episodes with one partner, so that the agent can find out whom it plays with.

    L = L_PPO - i(t) mean sum_a pi*_j(a | o) log pi(a | trial) - c mean log q(j | trial)

The second term imitates pi*_j, the best response to the partner j of the trial, and fades out over the first part of
the run (kickstarting, Schmitt et al. 2018). The agent does not know j, so that what it can imitate is the best
responses' mean under its belief about j: it tries out one convention after the other, which random single actions never
do, and learns what to make of the outcome. The third term lets the memory tell which partner it is. A privileged critic
is told so in training.

Differs from Duan et al.: all but L_PPO.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.adhoc.learner import (
    AgentBatch,
    AgentNetworks,
    AgentPace,
    AgentSpec,
    Decision,
    NetworkMemories,
    PartnerView,
)
from coverset.adhoc.mixtures import add_mixtures
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.ppo import ppo_loss
from coverset.adhoc.recurrent import RecurrentLearner, trial_input_size
from coverset.checks import check_at_least, check_between, check_positive
from coverset.learning.losses import log_probabilities
from coverset.policies.network import NetworkSpec, network_class
from coverset.policy import mask_logits
from coverset.types import PRNGKey, PyTree, Scalar


@dataclass(frozen=True)
class RL2(RecurrentLearner):
    """A recurrent actor and critic, trained by PPO, with a start from the best responses to its partners."""

    imitation_weight: float = 1.0
    """Weight i at the start of imitating the best response to the partner, where it is known; 0 for none."""
    imitation_share: float = 0.5
    """Part of the run after which i has fallen to 0."""
    identity_weight: float = 0.0
    """Weight c of guessing which partner of the pool it is."""
    privileged_critic: bool = False
    """Whether the critic is told in training who the partner is and what it sees."""
    mixtures: int = 0
    """Rows of further partners who are one of the pool's in every episode, drawn with weights of the trial."""
    mixture_concentration: float = 0.5
    """Of the Dirichlet distribution of these weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("imitation_weight", "identity_weight", "mixtures"):
            check_at_least(name, getattr(self, name), 0)
        check_between("imitation_share", self.imitation_share, 0, 1)
        check_positive("mixture_concentration", self.mixture_concentration)

    @property
    def reads_answers(self) -> bool:
        return self.imitation_weight > 0

    def num_rows(self, num_partners: int) -> int:
        return num_partners + self.mixtures

    def partners(self, networks: AgentNetworks, state: PyTree, pool: PartnerPool, spec: AgentSpec) -> PartnerPool:
        return add_mixtures(pool, self.mixtures, self.mixture_concentration)

    def num_outputs(self, spec: AgentSpec) -> int:
        return spec.num_actions + (self.num_rows(spec.num_partners) if self.identity_weight else 0)

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        networks = super().init(key, spec)
        if not self.privileged_critic:
            return networks
        rows, seen = self.num_rows(spec.num_partners), spec.partner_seats * spec.partner_observation_size
        rest = (spec.hidden_sizes, spec.memory_size, spec.fourier_bandwidth)
        informed = NetworkSpec((trial_input_size(spec) + rows + seen,), 1, *rest)
        critic = network_class(self.network).build(jax.random.split(key)[1], informed)
        return networks._replace(critic=critic)

    def hidden(self, partner: PartnerView, spec: AgentSpec) -> Float[Array, "*b h"] | None:
        if not self.privileged_critic:
            return None
        who = jax.nn.one_hot(partner.row, self.num_rows(spec.num_partners))
        return jnp.concatenate([who, partner.observations.reshape(*who.shape[:-1], -1)], axis=-1)

    def step(
        self,
        networks: AgentNetworks,
        inputs: Float[Array, "*b f"],
        memory: PyTree,
        spec: AgentSpec,
        hidden: Float[Array, "*b h"] | None = None,
    ) -> Decision:
        outputs, actor_memory = networks.actor.step(inputs, memory.actor)
        values, critic_memory = networks.critic.step(join(inputs, hidden), memory.critic)
        logits = outputs[..., : spec.num_actions]
        return Decision(logits, values[..., 0], NetworkMemories(actor_memory, critic_memory))

    def unroll(self, networks: AgentNetworks, batch: AgentBatch) -> tuple[Float[Array, "T *n o"], Float[Array, "T *n"]]:
        outputs = networks.actor.unroll(batch.inputs, batch.memory.actor, batch.fresh)
        read = join(batch.inputs, batch.hidden)
        return outputs, networks.critic.unroll(read, batch.memory.critic, batch.fresh)[..., 0]

    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        outputs, values = self.unroll(networks, batch)
        logits, guesses = outputs[..., : spec.num_actions], outputs[..., spec.num_actions :]
        loss, logged = ppo_loss(logits, values, batch, pace)
        if self.reads_answers:
            logged["imitation_loss"] = imitation_loss(logits, batch)
            fade = jnp.maximum(0.0, 1.0 - pace.progress / max(self.imitation_share, SHORTEST_SHARE))
            loss += self.imitation_weight * fade * logged["imitation_loss"]
        if self.identity_weight:
            assert batch.row is not None, "the trainer fills in who plays"
            logged["identity_loss"] = -log_probabilities(guesses, batch.row).mean()
            loss += self.identity_weight * logged["identity_loss"]
        return loss, logged


SHORTEST_SHARE = 1e-6


def join(inputs: Float[Array, "*b f"], hidden: Float[Array, "*b h"] | None) -> Float[Array, "*b y"]:
    """What the critic reads."""
    return inputs if hidden is None else jnp.concatenate([inputs, hidden], axis=-1)


def imitation_loss(logits: Float[Array, "T *n a"], batch: AgentBatch) -> Scalar:
    """-mean sum_a pi*(a) log pi(a); steps whose best response is not known count as 0."""
    assert batch.answers is not None, "the learner reads_answers"
    log_p = jax.nn.log_softmax(mask_logits(logits, batch.legal))
    return -jnp.sum(batch.answers * log_p, axis=-1).mean()
