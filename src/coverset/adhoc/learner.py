"""The interface of every learner of ad hoc agents.

A learner is a frozen dataclass of its own settings, in one file under `learners/` or outside of the package. There are
two kinds. An `OnPolicyLearner` brings networks and a loss, and the shared loop (`adhoc.trainer`) plays and optimises. A
`FittedLearner` computes its policy from the generated population without gradients. Methods take and return records, so
that they can grow without breaking learners that exist.
"""

import abc
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.pool import PartnerPool
from coverset.envs.base import Environment
from coverset.envs.seats import seating
from coverset.policies.actor import ActorPolicy
from coverset.policies.network import POLICY_HEAD_SCALE, NetworkSpec, network_class
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.policy import Policy, mask_logits
from coverset.settings import TrainSettings
from coverset.types import Percept, PRNGKey, PyTree, Scalar


@dataclass(frozen=True, kw_only=True)
class StackSpec:
    """Shapes of one half of a population."""

    size: int
    """Number of members."""
    kind: str
    """Name of their networks' class, as in the settings."""
    network: NetworkSpec


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """What an agent is built from: plain values, which its file records."""

    observation_shape: tuple[int, ...]
    num_actions: int
    partner_observation_size: int
    partner_num_actions: int
    hidden_sizes: tuple[int, ...]
    memory_size: int
    fourier_bandwidth: float
    reward_scale: float
    partner_seats: int = 1
    """Seats of the game beside the agent's."""
    num_partners: int = 1
    """Partners that the agent is trained with: how many rows the pool has before `OnPolicyLearner.num_rows`."""
    best_responses: StackSpec | None = None
    """The population's halves; None unless the learner says `needs_population`."""
    teammates: StackSpec | None = None

    @property
    def observation_size(self) -> int:
        """Length of the agent's flat observations."""
        return math.prod(self.observation_shape)


class Learner(abc.ABC):
    """Makes an ad hoc agent; a frozen dataclass of settings."""

    needs_population: ClassVar[bool] = False
    """Whether the agent is built from the population's networks, so that its specification must describe them."""

    def num_rows(self, num_partners: int) -> int:
        """How many rows of environments training with so many partners has: one for each, or more."""
        return num_partners

    @abc.abstractmethod
    def build_policy(self, key: PRNGKey, spec: AgentSpec) -> Policy:
        """An untrained policy with the shapes of a trained one: what loading fills in.

        A policy that is saved has the properties `observation_size` and `num_actions`.
        """


class AgentWorld(NamedTuple):
    """What a learner without gradients computes its policy from."""

    environment: Environment
    population: Population
    partners: PartnerPool
    seat: int
    """The agent's seat; partners take all others."""
    spec: AgentSpec


class FittedLearner(Learner):
    """A learner without gradients."""

    def check(self, world: AgentWorld) -> None:
        """Raise ValueError if there is no agent for this population and seat; asked before anything is written."""
        del world

    @abc.abstractmethod
    def fit(self, key: PRNGKey, world: AgentWorld) -> Policy:
        """The agent for this population, of the same shapes as `build_policy` gives."""


class AgentNetworks(NamedTuple):
    """All that gradients change. Each part may be any tree of arrays, and its gradient's norm is clipped on its own.

    The actor and the heads learn with `learning_rate`, the critic with `critic_learning_rate`.
    """

    actor: Any
    critic: Any
    heads: PyTree = ()
    """Parameters of auxiliary losses."""


class NetworkMemories(NamedTuple):
    """What actor and critic remember."""

    actor: PyTree
    critic: PyTree


class Decision(NamedTuple):
    """What the networks say at one step."""

    logits: Float[Array, "*b a"]
    values: Float[Array, "*b"]
    memory: PyTree


class PartnerView(NamedTuple):
    """What is known about the partners in training, and not to the agent; leading axes [P, n]."""

    row: Int[Array, "*b"]
    """The row of the pool: which partner plays, or which leads a mixed team."""
    observations: Float[Array, "*b e"]
    """What the partner sees; with an axis of seats before the last where there are several partners."""


class EpisodeTally(NamedTuple):
    """Episodes that ended, by row of the pool and by their place in the trial."""

    episodes: Float[Array, "*u P e"]
    returns: Float[Array, "*u P e"]
    """Sum of their returns."""
    squares: Float[Array, "*u P e"]
    """Sum of the squares of their returns."""


class AgentBatch(NamedTuple):
    """What an optimiser step learns from; axes [T, N], memory [N] as it was before the rollout."""

    inputs: Float[Array, "T *n f"]
    """What `OnPolicyLearner.inputs` gave."""
    fresh: Bool[Array, "T *n"]
    """Whether a trial starts at this step, so that memory is cleared before it."""
    first: Bool[Array, "T *n"]
    """Whether an episode starts at this step."""
    actions: Int[Array, "T *n"]
    log_p: Float[Array, "T *n"]
    """Log-probability of the action when it was drawn."""
    advantage: Float[Array, "T *n"]
    target: Float[Array, "T *n"]
    """What the critic should have said."""
    partner_observations: Float[Array, "T *n e"]
    """What the partner saw at this step; with an axis of seats before the last where there are several partners."""
    partner_actions: Int[Array, "T *n"]
    """What the partner, or each of them, did at this step, at the same time as the agent acted."""
    memory: PyTree
    legal: Bool[Array, "T *n a"] | None = None
    """The agent's legal actions, with which `ppo_loss` masks the logits; None where nothing is masked."""
    row: Int[Array, "T *n"] | None = None
    """The row of the pool: which partner plays."""
    rewards: Float[Array, "T *n"] | None = None
    """The agent's scaled rewards of this step."""
    hidden: Float[Array, "T *n h"] | None = None
    """What `OnPolicyLearner.hidden` gave."""
    answers: Float[Array, "T *n a"] | None = None
    """With which probabilities the partner's own best response acts where the agent is, zeros if it is not known; None
    unless the learner `reads_answers`."""

    def take(self, chosen: Int[Array, "m"]) -> "AgentBatch":
        """Some of the environments, with their memories."""
        memory = jax.tree.map(lambda x: x[chosen], self.memory)
        return jax.tree.map(lambda x: x[:, chosen], self._replace(memory=()))._replace(memory=memory)

    def flatten(self) -> "AgentBatch":
        """[T, P, n, ...] -> [T, N, ...], memory [P, n, ...] -> [N, ...]."""
        memory = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), self.memory)
        flat = jax.tree.map(lambda x: x.reshape(x.shape[0], -1, *x.shape[3:]), self._replace(memory=()))
        return flat._replace(memory=memory)


class AgentPace(NamedTuple):
    """What changes over a run."""

    progress: Scalar
    """The part of the run that is over, from 0 to 1."""
    entropy_bonus: Scalar
    """The present weight of the entropy."""
    clip: float
    """Clipping range of the probability ratio."""
    key: PRNGKey | None = None
    """What a loss with chance in it draws from, another one for every optimiser step."""


class OnPolicyLearner(Learner):
    """A learner whose networks act in trials with partners and learn from what they did.

    The defaults suit an actor and a critic that are `Network`s: a subclass chooses them in `init`, what they read in
    `inputs`, and the loss in `losses`. Outputs of the actor beyond the first `num_actions` are free for auxiliary
    losses.
    """

    meets_partners: ClassVar[bool] = True
    """Whether the first rows of environments are the partners of the pool, one row for each."""

    @property
    def reads_answers(self) -> bool:
        """Whether batches tell what the best responses to the partners do."""
        return False

    @abc.abstractmethod
    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        """Draw untrained networks."""

    @abc.abstractmethod
    def losses(
        self, networks: AgentNetworks, batch: AgentBatch, pace: AgentPace, spec: AgentSpec
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The loss of a batch, and numbers to log.

        `entropy` and `critic_loss`, which `ppo_loss` gives, have columns of their own in `metrics.jsonl`; all others
        appear there under `learner`.
        """

    def inputs(self, percept: Percept, last_action: Int[Array, "*b"], spec: AgentSpec) -> Float[Array, "*b f"]:
        """What the networks read: the observation, unless a learner says otherwise.

        Args:
          percept: what the agent sees; rewards are not scaled yet.
          last_action: the agent's own, -1 at the start of a trial.
          spec: the agent's specification.
        """
        del last_action, spec
        return percept.observation

    def hidden(self, partner: PartnerView, spec: AgentSpec) -> Float[Array, "*b h"] | None:
        """What only the critic reads, in training alone; nothing, unless a learner says otherwise.

        A learner that returns an array is given it by `step` as the argument `hidden`, and by batches.
        """
        del partner, spec

    def init_state(self, key: PRNGKey, spec: AgentSpec) -> PyTree:
        """What the learner keeps from update to update beside its networks; nothing, unless it says otherwise."""
        del key, spec
        return ()

    def partners(self, networks: AgentNetworks, state: PyTree, pool: PartnerPool, spec: AgentSpec) -> PartnerPool:
        """The partners of the next rollout: those of the pool, unless a learner says otherwise.

        Args:
          networks: the agent's own, as they are now.
          state: what `init_state` or `update_state` gave.
          pool: the partners that the user has named.
          spec: the agent's specification.
        """
        del networks, state, spec
        return pool

    def update_state(self, key: PRNGKey, state: PyTree, tally: EpisodeTally, spec: AgentSpec) -> PyTree:
        """The learner's state after a rollout in which these episodes ended."""
        del key, tally, spec
        return state

    def initial_memory(self, networks: AgentNetworks, *batch: int) -> PyTree:
        """The memory with which a trial starts, with these leading axes."""
        return NetworkMemories(networks.actor.initial_memory(*batch), networks.critic.initial_memory(*batch))

    def step(self, networks: AgentNetworks, inputs: Float[Array, "*b f"], memory: PyTree, spec: AgentSpec) -> Decision:
        """One step of a trial."""
        outputs, actor_memory = networks.actor.step(inputs, memory.actor)
        values, critic_memory = networks.critic.step(inputs, memory.critic)
        logits = outputs[..., : spec.num_actions]
        return Decision(logits, values[..., 0], NetworkMemories(actor_memory, critic_memory))

    def unroll(self, networks: AgentNetworks, batch: AgentBatch) -> tuple[Float[Array, "T *n o"], Float[Array, "T *n"]]:
        """All outputs of the actor, and the critic's values, over a whole rollout."""
        outputs = networks.actor.unroll(batch.inputs, batch.memory.actor, batch.fresh)
        return outputs, networks.critic.unroll(batch.inputs, batch.memory.critic, batch.fresh)[..., 0]

    def policy(self, networks: AgentNetworks, spec: AgentSpec) -> Policy:
        """The agent as others play with it."""
        return AdHocPolicy(networks.actor, self, spec)

    def build_policy(self, key: PRNGKey, spec: AgentSpec) -> Policy:
        return self.policy(self.init(key, spec), spec)


class AgentMemory(NamedTuple):
    """What an agent carries through a trial."""

    network: PyTree
    last_action: Int[Array, "*b"]


class AdHocPolicy(Policy):
    """A trained actor behind the policy interface; samples its actions."""

    actor: Any
    learner: OnPolicyLearner = eqx.field(static=True)
    spec: AgentSpec = eqx.field(static=True)

    @property
    def observation_size(self) -> int:
        """How many numbers the policy reads."""
        return self.spec.observation_size

    @property
    def num_actions(self) -> int:
        """Among how many actions it chooses."""
        return self.spec.num_actions

    def initial_memory(self) -> AgentMemory:
        return AgentMemory(self.actor.initial_memory(), jnp.int32(-1))

    def act(self, key: PRNGKey, percept: Percept, memory: AgentMemory) -> tuple[Int[Array, ""], AgentMemory]:
        logits, network = self.logits(percept, memory)
        action = jax.random.categorical(key, logits).astype(jnp.int32)
        return action, AgentMemory(network, action)

    def action_probabilities(self, percept: Percept, memory: AgentMemory) -> Float[Array, "a"]:
        return jax.nn.softmax(self.logits(percept, memory)[0])

    def logits(self, percept: Percept, memory: AgentMemory) -> tuple[Float[Array, "a"], PyTree]:
        """Unnormalised log-probabilities of the actions, and the network's next memory."""
        inputs = self.learner.inputs(percept, memory.last_action, self.spec)
        outputs, network = self.actor.step(inputs, memory.network)
        return mask_logits(outputs[..., : self.num_actions], percept.legal), network


def init_actor_critic(
    key: PRNGKey,
    spec: AgentSpec,
    *,
    network: str,
    input_shape: tuple[int, ...],
    hidden_sizes: tuple[int, ...] | None = None,
    num_outputs: int | None = None,
) -> AgentNetworks:
    """An actor and a critic of one kind that read the same inputs.

    Args:
      key: what chance draws from.
      spec: the agent's specification.
      network: the networks' class, a name or `module:Class`.
      input_shape: shape of what they read.
      hidden_sizes: widths of their dense layers; those of the settings if not given.
      num_outputs: outputs of the actor; one for each action if not given.
    """
    actor_key, critic_key = jax.random.split(key)
    sizes = spec.hidden_sizes if hidden_sizes is None else hidden_sizes
    build, rest = network_class(network).build, (sizes, spec.memory_size, spec.fourier_bandwidth)
    outputs = spec.num_actions if num_outputs is None else num_outputs
    return AgentNetworks(
        actor=build(actor_key, NetworkSpec(input_shape, outputs, *rest, head_scale=POLICY_HEAD_SCALE)),
        critic=build(critic_key, NetworkSpec(input_shape, 1, *rest)),
    )


def agent_spec(
    learner: Learner,
    environment: Environment,
    settings: TrainSettings,
    seat: int,
    population: Population | None = None,
    *,
    num_partners: int = 1,
) -> AgentSpec:
    """The specification of an agent.

    Args:
      learner: what makes it.
      environment: what it plays.
      settings: sizes of its networks.
      seat: where it sits.
      population: generated teammates and best responses, where the learner needs them.
      num_partners: how many partners it is trained with.
    """
    halves = {}
    if learner.needs_population and population is not None:
        halves = {role: stack_spec(policies) for role, policies in population._asdict().items()}
    seats = seating(environment, seat)
    return AgentSpec(
        observation_shape=seats.ego_side.observation_shape,
        num_actions=seats.ego_side.num_actions,
        partner_observation_size=seats.team_side.observation_size,
        partner_num_actions=seats.team_side.num_actions,
        hidden_sizes=settings.hidden_sizes,
        memory_size=settings.memory_size,
        fourier_bandwidth=float(settings.fourier_bandwidth),
        reward_scale=float(settings.reward_scale),
        partner_seats=seats.team_side.num_seats,
        num_partners=num_partners,
        **halves,
    )


def stack_spec(policies: ActorPolicy) -> StackSpec:
    """The shapes of stacked policies."""
    return StackSpec(size=count_members(policies), kind=policies.kind, network=policies.spec)
