"""Training of the ad hoc agent with a pool of frozen partners: PPO over trials (paper, Equation 1 and last appendix).

A trial is a series of episodes with one partner. For the learner it is one long task: memory is kept and credit flows
across its episodes, so that finding out whom it plays with pays; only the end of a trial is an end. A time limit within
a trial is followed by the next episode like any other end, so nothing needs to be bootstrapped past it.

Back-propagation is truncated to a rollout, which starts from the memory that the rollout before has left.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.agent import AdHocPolicy, Memory, MemoryNetwork, create_actor, feature_size, features
from coverset.adhoc.pool import PartnerPool
from coverset.envs.base import Environment, autoreset
from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities, sample_actions
from coverset.learning.optimiser import ADAM, adam_step, explore_then_settle
from coverset.learning.returns import advantages
from coverset.learning.vectorised import over_grid
from coverset.settings import TrainSettings
from coverset.types import Percept, PRNGKey, PyTree, Scalar

SMALLEST_SCALE = 1e-6


class AgentNetworks(NamedTuple):
    """Policy and critic; both remember."""

    actor: MemoryNetwork
    critic: MemoryNetwork


class Trials(NamedTuple):
    """Trials under way; axes [P, n], partners first."""

    env_states: PyTree
    reward: Float[Array, "P n"]
    """The reward of the step before."""
    first: Bool[Array, "P n"]
    """Whether an episode starts."""
    fresh: Bool[Array, "P n"]
    """Whether a trial starts."""
    last_action: Int[Array, "P n"]
    actor_memory: Memory
    critic_memory: Memory
    partner_memories: tuple[PyTree, ...]
    episode: Int[Array, "P n"]
    """Episodes of this trial that are over."""
    returns: Float[Array, "P n"]
    """Return so far of the episode under way."""


class AgentState(NamedTuple):
    """All that training carries from update to update."""

    key: PRNGKey
    update: Int[Array, ""]
    networks: AgentNetworks
    moments: PyTree
    trials: Trials


class AgentSteps(NamedTuple):
    """A rollout; axes [T, P, n]."""

    features: Float[Array, "*t P n f"]
    fresh: Bool[Array, "*t P n"]
    actions: Int[Array, "*t P n"]
    log_p: Float[Array, "*t P n"]
    values: Float[Array, "*t P n"]
    reward: Float[Array, "*t P n"]
    trial_over: Bool[Array, "*t P n"]


class AgentBatch(NamedTuple):
    """What an optimiser step learns from; axes [T, N], memories [N] as they were before the rollout."""

    features: Float[Array, "T N f"]
    fresh: Bool[Array, "T N"]
    actions: Int[Array, "T N"]
    log_p: Float[Array, "T N"]
    advantage: Float[Array, "T N"]
    target: Float[Array, "T N"]
    actor_memory: Memory
    critic_memory: Memory

    def take(self, chosen: Int[Array, "m"]) -> "AgentBatch":
        """Some of the environments, with their memories."""
        *sequences, actor_memory, critic_memory = self
        memories = jax.tree.map(lambda x: x[chosen], (actor_memory, critic_memory))
        return AgentBatch(*(sequence[:, chosen] for sequence in sequences), *memories)  # pyright: ignore


class AgentMetrics(NamedTuple):
    """What one update, or a chunk of them, reports."""

    episodes: Float[Array, "*u P e"]
    """Episodes that ended, by partner and by their place in the trial."""
    returns: Float[Array, "*u P e"]
    """Sum of their returns."""
    entropy: Float[Array, "*u"]
    critic_loss: Float[Array, "*u"]
    finite: Bool[Array, "*u"]


@dataclass(frozen=True)
class AgentTrainer:
    """The static parts of a run. The pool is an argument of every method: it holds arrays."""

    environment: Environment
    settings: TrainSettings
    recurrent: bool
    seat: int = 0
    """The agent's seat; partners take the other."""

    @property
    def num_actions(self) -> int:
        return self.environment.num_actions[self.seat]

    def init(self, key: PRNGKey, pool: PartnerPool) -> AgentState:
        """An untrained agent, and a fresh trial in every environment."""
        key, actor_key, critic_key, env_key = jax.random.split(key, 4)
        s, size = self.settings, self.environment.observation_size
        kind = {"recurrent": self.recurrent, "waves": s.fourier_bandwidth}
        actor = create_actor(actor_key, size, self.num_actions, s.hidden_sizes, s.memory_size, **kind)
        num_features = feature_size(size, self.num_actions, recurrent=self.recurrent)
        critic = MemoryNetwork.create(critic_key, num_features, s.hidden_sizes, s.memory_size, 1, **kind)
        networks = AgentNetworks(actor, critic)
        shape = (len(pool), s.envs_per_partner)
        trials = Trials(
            env_states=over_grid(self.environment.reset)(jax.random.split(env_key, shape)),
            reward=jnp.zeros(shape),
            first=jnp.ones(shape, bool),
            fresh=jnp.ones(shape, bool),
            last_action=jnp.full(shape, -1, jnp.int32),
            actor_memory=actor.initial_memory(*shape),
            critic_memory=critic.initial_memory(*shape),
            partner_memories=pool.initial_memories(s.envs_per_partner),
            # Trials start out of step with each other: every update sees early and late episodes.
            episode=jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32) % s.episodes_per_trial, shape),
            returns=jnp.zeros(shape),
        )
        moments = AgentNetworks(ADAM.init(actor), ADAM.init(critic))  # pyright: ignore[reportArgumentType]
        return AgentState(key, jnp.int32(0), networks, moments, trials)

    def policy(self, networks: AgentNetworks) -> AdHocPolicy:
        """The agent as others play with it."""
        return AdHocPolicy(networks.actor, self.num_actions, self.settings.reward_scale)

    def train_chunk(self, state: AgentState, pool: PartnerPool) -> tuple[AgentState, AgentMetrics]:
        """`updates_per_chunk(len(pool))` updates, and their log."""
        length = self.settings.updates_per_chunk(len(pool))
        state, rows = jax.lax.scan(lambda s, _: self.update(s, pool), state, length=length)
        return state, AgentMetrics(
            episodes=rows.episodes.sum(axis=0),
            returns=rows.returns.sum(axis=0),
            entropy=rows.entropy.mean(),
            critic_loss=rows.critic_loss.mean(),
            finite=rows.finite.all(),
        )

    def update(self, state: AgentState, pool: PartnerPool) -> tuple[AgentState, AgentMetrics]:
        """One rollout and what is learned from it."""
        s = self.settings
        key, collect_key, improve_key = jax.random.split(state.key, 3)
        before = state.trials
        steps, trials, (episodes, returns) = self.collect(collect_key, state, pool)
        last_values = self._value_now(state.networks.critic, trials)
        next_values = jnp.concatenate([steps.values[1:], last_values[None]])
        advantage = advantages(
            steps.reward * s.value_scale,
            steps.values,
            next_values,
            steps.trial_over,
            jnp.zeros_like(steps.trial_over),
            discount=s.discount,
            decay=s.gae_lambda,
        )
        batch = AgentBatch(
            features=steps.features,
            fresh=steps.fresh,
            actions=steps.actions,
            log_p=steps.log_p,
            advantage=(advantage - advantage.mean()) / (advantage.std() + SMALLEST_SCALE),
            target=advantage + steps.values,
            actor_memory=before.actor_memory,
            critic_memory=before.critic_memory,
        )
        progress = state.update / (s.num_chunks(len(pool)) * s.updates_per_chunk(len(pool)))
        networks, moments, entropies, critic_loss = self.improve(improve_key, state, _flatten(batch), progress)
        finite = jnp.isfinite(critic_loss) & jnp.isfinite(entropies)
        next_state = AgentState(key, state.update + 1, networks, moments, trials)
        return next_state, AgentMetrics(episodes, returns, entropies, critic_loss, finite)

    def collect(
        self, key: PRNGKey, state: AgentState, pool: PartnerPool
    ) -> tuple[AgentSteps, Trials, tuple[Float[Array, "P e"], Float[Array, "P e"]]]:
        """Play `rollout_length` steps in every environment; also the episodes that ended and their returns."""
        shape = (self.settings.rollout_length, *state.trials.reward.shape)
        action_key, reset_key, step_key, partner_key = jax.random.split(key, 4)
        draws = (
            jax.random.uniform(action_key, shape),
            jax.vmap(over_grid(self.environment.reset))(jax.random.split(reset_key, shape)),
            jax.random.split(step_key, shape),
            jax.random.split(partner_key, shape),
        )

        def play(trials: Trials, draw):
            trials, step, ended_return = self._play_step(state.networks, pool, trials, draw)
            return trials, (step, ended_return)

        trials, (steps, tallies) = jax.lax.scan(play, state.trials, draws)
        return steps, trials, jax.tree.map(lambda x: x.sum(axis=0), tallies)

    def _play_step(self, networks: AgentNetworks, pool: PartnerPool, trials: Trials, draw):
        uniforms, fresh_states, step_keys, partner_keys = draw
        observations = over_grid(self.environment.observe)(trials.env_states)
        inputs = self._features(trials, observations)
        logits, actor_memory = networks.actor.step(inputs, trials.actor_memory)
        values, critic_memory = networks.critic.step(inputs, trials.critic_memory)
        action = sample_actions(logits, uniforms)
        percepts = Percept(observations[:, :, 1 - self.seat], trials.reward, trials.first)
        partner_action, partner_memories = pool.act(partner_keys, percepts, trials.partner_memories)
        seats = (action, partner_action) if self.seat == 0 else (partner_action, action)
        outcome = over_grid(self.environment.step)(step_keys, trials.env_states, jnp.stack(seats, axis=-1))
        ended = outcome.terminated | outcome.truncated
        trial_over = ended & (trials.episode + 1 >= self.settings.episodes_per_trial)
        returns = trials.returns + outcome.reward
        step = AgentSteps(
            inputs, trials.fresh, action, log_probabilities(logits, action), values[..., 0], outcome.reward, trial_over
        )
        place = jax.nn.one_hot(trials.episode, self.settings.episodes_per_trial) * ended[..., None]
        tally = (place.sum(axis=1), (place * returns[..., None]).sum(axis=1))
        forget = lambda memory: jax.tree.map(lambda m: jnp.where(trial_over[..., None], 0.0, m), memory)  # noqa: E731
        next_trials = Trials(
            env_states=over_grid(autoreset)(outcome, fresh_states),
            reward=jnp.where(trial_over, 0.0, outcome.reward),
            first=ended,
            fresh=trial_over,
            last_action=jnp.where(trial_over, -1, action),
            actor_memory=forget(actor_memory),
            critic_memory=forget(critic_memory),
            partner_memories=pool.renew(partner_memories, trial_over),
            episode=jnp.where(trial_over, 0, trials.episode + ended),
            returns=jnp.where(ended, 0.0, returns),
        )
        return next_trials, step, tally

    def _features(self, trials: Trials, observations: Float[Array, "P n 2 d"]) -> Float[Array, "P n f"]:
        scaled = trials.reward * self.settings.reward_scale
        percept = Percept(observations[:, :, self.seat], scaled, trials.first)
        return features(percept, trials.last_action, self.num_actions, recurrent=self.recurrent)

    def _value_now(self, critic: MemoryNetwork, trials: Trials) -> Float[Array, "P n"]:
        observations = over_grid(self.environment.observe)(trials.env_states)
        return critic.step(self._features(trials, observations), trials.critic_memory)[0][..., 0]

    def improve(
        self, key: PRNGKey, state: AgentState, batch: AgentBatch, progress: Scalar
    ) -> tuple[AgentNetworks, PyTree, Scalar, Scalar]:
        """`epochs` passes, each split over environments into `minibatches`: sequences stay whole."""
        s, count = self.settings, batch.target.shape[1]
        orders = jax.vmap(lambda k: jax.random.permutation(k, count))(jax.random.split(key, s.epochs))
        bonus = explore_then_settle(s.entropy, s.entropy_final, progress)
        fall = 1.0 - progress if s.anneal else 1.0
        rates = AgentNetworks(s.learning_rate * fall, s.critic_learning_rate * fall)  # pyright: ignore

        def optimise(carry, chosen: Int[Array, "m"]):
            networks, moments = carry
            part = batch.take(chosen) if s.minibatches > 1 else batch
            gradients, losses = jax.grad(self._loss, has_aux=True)(networks, part, bonus)
            updated = [
                adam_step(*together, per_member=False, max_norm=s.max_grad_norm)
                for together in zip(rates, networks, moments, gradients, strict=True)
            ]
            return tuple(AgentNetworks(*column) for column in zip(*updated, strict=True)), losses

        carry = (state.networks, state.moments)
        (networks, moments), losses = jax.lax.scan(optimise, carry, orders.reshape(-1, count // s.minibatches))
        return networks, moments, losses[0].mean(), losses[1].mean()

    def _loss(self, networks: AgentNetworks, batch: AgentBatch, bonus: Scalar) -> tuple[Scalar, tuple[Scalar, Scalar]]:
        logits = networks.actor.unroll(batch.features, batch.actor_memory, batch.fresh)
        values = networks.critic.unroll(batch.features, batch.critic_memory, batch.fresh)[..., 0]
        log_p = log_probabilities(logits, batch.actions)
        gain = clipped_surrogate(log_p, batch.log_p, batch.advantage, clip=self.settings.clip).mean()
        entropies = entropy(logits).mean()
        critic_loss = jnp.square(values - batch.target).mean()
        return critic_loss - gain - bonus * entropies, (entropies, critic_loss)


def _flatten(batch: AgentBatch) -> AgentBatch:
    """[T, P, n, ...] -> [T, N, ...], memories [P, n, ...] -> [N, ...]."""
    *sequences, actor_memory, critic_memory = batch
    memories = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (actor_memory, critic_memory))
    return AgentBatch(*(x.reshape(x.shape[0], -1, *x.shape[3:]) for x in sequences), *memories)  # pyright: ignore
