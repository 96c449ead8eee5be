"""Training of the ad hoc agent with a pool of frozen partners, over trials (paper, Equation 1 and last appendix).

A trial is a series of episodes with one partner. For the learner it is one long task: memory is kept and credit flows
across its episodes, so that finding out whom it plays with pays; only the end of a trial is an end. A time limit within
a trial is followed by the next episode like any other end, so nothing needs to be bootstrapped past it.

Back-propagation is truncated to a rollout, which starts from the memory that the rollout before has left. Networks,
what they read and the loss that is optimised are those of an `OnPolicyLearner`.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.learner import (
    AgentBatch,
    AgentNetworks,
    AgentPace,
    AgentSpec,
    Decision,
    EpisodeTally,
    OnPolicyLearner,
    PartnerView,
    agent_spec,
)
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.teams import Teams, make_teams
from coverset.envs.base import Environment, autoreset
from coverset.envs.seats import Seating, action_mask, for_team, has_common_reward, seating, team_axis
from coverset.learning.losses import log_probabilities, sample_actions
from coverset.learning.optimiser import ADAM, adam_step, explore_then_settle, shaping_weight
from coverset.learning.returns import advantages
from coverset.learning.vectorised import over_grid
from coverset.policies.network import clear_memory
from coverset.policies.population import Population
from coverset.policy import Policy, mask_logits
from coverset.settings import Schedule, TrainSettings
from coverset.types import Outcome, Percept, PRNGKey, PyTree, Scalar

SMALLEST_SCALE = 1e-6
OWN_STREAM, LOSS_STREAM = 1, 2
"""Folded into a key, so that what a learner draws for its own state and losses changes nothing else."""


def training_schedule(settings: TrainSettings, num_rows: int) -> Schedule:
    """How training with so many rows of partners is cut into updates and chunks."""
    steps = num_rows * settings.envs_per_partner * settings.rollout_length
    return Schedule(settings.total_steps, settings.chunk_steps, steps)


class Trials(NamedTuple):
    """Trials under way; axes [P, n], partners first."""

    env_states: PyTree
    reward: Float[Array, "P n"]
    """The agent's reward of the step before."""
    partner_reward: Float[Array, "P n *s"]
    """The partners'."""
    first: Bool[Array, "P n"]
    """Whether an episode starts."""
    fresh: Bool[Array, "P n"]
    """Whether a trial starts."""
    last_action: Int[Array, "P n"]
    memory: PyTree
    """What the agent's networks remember."""
    partner_memories: tuple[PyTree, ...]
    answer_memories: tuple[PyTree, ...]
    """What the best responses to the partners remember, who look over the agent's shoulder; () unless needed."""
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
    learner: PyTree = ()
    """What the learner keeps beside its networks."""


class AgentSteps(NamedTuple):
    """A rollout; axes [T, P, n]."""

    inputs: Float[Array, "*t P n f"]
    fresh: Bool[Array, "*t P n"]
    first: Bool[Array, "*t P n"]
    actions: Int[Array, "*t P n"]
    log_p: Float[Array, "*t P n"]
    values: Float[Array, "*t P n"]
    reward: Float[Array, "*t P n"]
    trial_over: Bool[Array, "*t P n"]
    partner_observations: Float[Array, "..."]
    partner_actions: Int[Array, "..."]
    legal: Bool[Array, "*t P n a"] | None
    shaping: Float[Array, "*t P n"] | None
    """The game's shaped reward; None where it has none."""
    hidden: Float[Array, "*t P n h"] | None
    """What only the critic reads; None where the learner has no such thing."""
    answers: Float[Array, "*t P n a"] | None
    """With which probabilities the best response to the partner acts; None where the learner does not ask."""


class AgentMetrics(NamedTuple):
    """What one update, or a chunk of them, reports."""

    episodes: Float[Array, "*u P e"]
    """Episodes that ended, by partner and by their place in the trial."""
    returns: Float[Array, "*u P e"]
    """Sum of their returns."""
    losses: dict[str, Float[Array, "*u"]]
    """What the learner logs."""
    finite: Bool[Array, "*u"]


@dataclass(frozen=True)
class AgentTrainer:
    """The static parts of a run. The pool is an argument of every method: it holds arrays."""

    environment: Environment
    settings: TrainSettings
    learner: OnPolicyLearner
    spec: AgentSpec
    seat: int = 0
    """The agent's seat; partners take all others."""

    @classmethod
    def create(
        cls,
        environment: Environment,
        settings: TrainSettings,
        learner: OnPolicyLearner,
        seat: int = 0,
        population: Population | None = None,
        num_partners: int = 1,
    ) -> "AgentTrainer":
        """A trainer whose agent is specified by the environment and the settings.

        Args:
          environment: what is played.
          settings: how it is trained.
          learner: networks and loss.
          seat: the agent's.
          population: for learners that need it.
          num_partners: how many partners the pool has.
        """
        spec = agent_spec(learner, environment, settings, seat, population, num_partners=num_partners)
        return cls(environment, settings, learner, spec, seat)

    @property
    def seating(self) -> Seating:
        """Who sits where."""
        return seating(self.environment, self.seat)

    def schedule(self, pool: PartnerPool) -> Schedule:
        """How training with this pool is cut into updates and chunks."""
        return training_schedule(self.settings, self.learner.num_rows(len(pool)))

    def teams(self, pool: PartnerPool) -> Teams:
        """Which partners play together."""
        s = self.settings
        return make_teams(len(pool), s.envs_per_partner, self.environment.num_seats - 1, s.mixed_teams)

    def init(self, key: PRNGKey, pool: PartnerPool) -> AgentState:
        """An untrained agent, and a fresh trial in every environment."""
        key, network_key, env_key = jax.random.split(key, 3)
        networks = self.learner.init(network_key, self.spec)
        own = self.learner.init_state(jax.random.fold_in(network_key, OWN_STREAM), self.spec)
        pool = self.learner.partners(networks, own, pool, self.spec)
        shape = (len(pool), self.settings.envs_per_partner)
        # Trials start out of step with each other: every update sees early and late episodes.
        episode = jnp.arange(shape[1], dtype=jnp.int32) % self.settings.episodes_per_trial
        trials = Trials(
            env_states=over_grid(self.environment.reset)(jax.random.split(env_key, shape)),
            reward=jnp.zeros(shape),
            partner_reward=jnp.zeros((*shape, *team_axis(self.environment))),
            first=jnp.ones(shape, bool),
            fresh=jnp.ones(shape, bool),
            last_action=jnp.full(shape, -1, jnp.int32),
            memory=self.learner.initial_memory(networks, *shape),
            partner_memories=self.teams(pool).initial_memories(pool),
            answer_memories=pool.answer_memories(shape[1]) if self.learner.reads_answers else (),
            episode=jnp.broadcast_to(episode, shape),
            returns=jnp.zeros(shape),
        )
        moments = AgentNetworks(*map(ADAM.init, networks))
        return AgentState(key, jnp.int32(0), networks, moments, trials, own)

    def policy(self, networks: AgentNetworks) -> Policy:
        """The agent as others play with it."""
        return self.learner.policy(networks, self.spec)

    def train_chunk(self, state: AgentState, pool: PartnerPool) -> tuple[AgentState, AgentMetrics]:
        """The updates of one chunk, and their log."""
        length = self.schedule(pool).updates_per_chunk
        state, rows = jax.lax.scan(lambda s, _: self.update(s, pool), state, length=length)
        return state, AgentMetrics(
            episodes=rows.episodes.sum(axis=0),
            returns=rows.returns.sum(axis=0),
            losses={name: values.mean() for name, values in rows.losses.items()},
            finite=rows.finite.all(),
        )

    def update(self, state: AgentState, pool: PartnerPool) -> tuple[AgentState, AgentMetrics]:
        """One rollout and what is learned from it."""
        key, collect_key, improve_key = jax.random.split(state.key, 3)
        partners = self.learner.partners(state.networks, state.learner, pool, self.spec)
        steps, trials, tally = self.collect(collect_key, state, partners)
        progress = state.update / self.schedule(pool).num_updates
        batch = self.make_batch(state, self.add_shaping(steps, progress), trials)
        networks, moments, losses, finite = self.improve(improve_key, state, batch.flatten(), progress)
        own_key = jax.random.fold_in(improve_key, OWN_STREAM)
        own = self.learner.update_state(own_key, state.learner, tally, self.spec)
        next_state = AgentState(key, state.update + 1, networks, moments, trials, own)
        return next_state, AgentMetrics(tally.episodes, tally.returns, losses, finite)

    def add_shaping(self, steps: AgentSteps, progress: Scalar) -> AgentSteps:
        """Steps whose rewards include the game's shaped reward with its present weight."""
        share = self.settings.shaping_share
        if steps.shaping is None or share == 0.0:
            return steps
        return steps._replace(reward=steps.reward + shaping_weight(share, progress) * steps.shaping)

    def make_batch(self, state: AgentState, steps: AgentSteps, trials: Trials) -> AgentBatch:
        """What the rollout from `state` to `trials` teaches; axes [T, P, n], memory [P, n]."""
        s = self.settings
        _, _, last = self._decide(state.networks, trials, over_grid(self.environment.observe)(trials.env_states))
        advantage = advantages(
            steps.reward * s.value_scale,
            steps.values,
            jnp.concatenate([steps.values[1:], last.values[None]]),
            steps.trial_over,
            jnp.zeros_like(steps.trial_over),
            discount=s.discount,
            decay=s.gae_lambda,
        )
        return AgentBatch(
            inputs=steps.inputs,
            fresh=steps.fresh,
            first=steps.first,
            actions=steps.actions,
            log_p=steps.log_p,
            advantage=(advantage - advantage.mean()) / (advantage.std() + SMALLEST_SCALE),
            target=advantage + steps.values,
            partner_observations=steps.partner_observations,
            partner_actions=steps.partner_actions,
            legal=steps.legal,
            memory=state.trials.memory,
            row=jnp.broadcast_to(_rows(trials), steps.fresh.shape),
            rewards=steps.reward * s.reward_scale,
            hidden=steps.hidden,
            answers=steps.answers,
        )

    def collect(self, key: PRNGKey, state: AgentState, pool: PartnerPool) -> tuple[AgentSteps, Trials, EpisodeTally]:
        """Play `rollout_length` steps in every environment; also the episodes that ended."""
        shape = (self.settings.rollout_length, *state.trials.reward.shape)
        action_key, reset_key, step_key, partner_key = jax.random.split(key, 4)
        draws = (
            jax.random.uniform(action_key, shape),
            jax.vmap(over_grid(self.environment.reset))(jax.random.split(reset_key, shape)),
            jax.random.split(step_key, shape),
            jax.random.split(partner_key, (*shape, *team_axis(self.environment))),
        )

        def play(trials: Trials, draw):
            trials, step, ended_return = self._play_step(state.networks, pool, trials, draw)
            return trials, (step, ended_return)

        trials, (steps, tallies) = jax.lax.scan(play, state.trials, draws)
        return steps, trials, jax.tree.map(lambda x: x.sum(axis=0), tallies)

    def _play_step(self, networks: AgentNetworks, pool: PartnerPool, trials: Trials, draw):
        uniforms, fresh_states, step_keys, partner_keys = draw
        teams = self.teams(pool)
        observations = over_grid(self.environment.observe)(trials.env_states)
        mask = over_grid(partial(action_mask, self.environment))(trials.env_states)
        legal, partner_legal = self.seating.mask(mask)
        inputs, hidden, decision = self._decide(networks, trials, observations)
        logits = mask_logits(decision.logits, legal)
        action = sample_actions(logits, uniforms, legal)
        percepts = self._partner_percepts(trials, observations, partner_legal)
        partner_action, partner_memories = teams.act(pool, partner_keys, percepts, trials.partner_memories)
        answers, answer_memories = self._answers(pool, trials, observations, legal)
        actions = self.seating.join(action, partner_action)
        outcome = over_grid(self.environment.step)(step_keys, trials.env_states, actions)
        reward, partner_reward = self._rewards(outcome)
        ended = outcome.terminated | outcome.truncated
        trial_over = ended & (trials.episode + 1 >= self.settings.episodes_per_trial)
        returns = trials.returns + reward
        step = AgentSteps(
            inputs=inputs,
            fresh=trials.fresh,
            first=trials.first,
            actions=action,
            log_p=log_probabilities(logits, action),
            values=decision.values,
            reward=reward,
            trial_over=trial_over,
            partner_observations=percepts.observation,
            partner_actions=partner_action,
            legal=legal,
            shaping=outcome.shaping,
            hidden=hidden,
            answers=answers,
        )
        counted = (ended & jnp.asarray(teams.is_whole)[None]).astype(jnp.float32)
        place = jax.nn.one_hot(trials.episode, self.settings.episodes_per_trial) * counted[..., None]
        tally = EpisodeTally(*((place * returns[..., None] ** power).sum(axis=1) for power in range(3)))
        initial = self.learner.initial_memory(networks, *trial_over.shape)
        next_trials = Trials(
            env_states=over_grid(autoreset)(outcome, fresh_states),
            reward=jnp.where(trial_over, 0.0, reward),
            partner_reward=jnp.where(for_team(self.environment, trial_over), 0.0, partner_reward),
            first=ended,
            fresh=trial_over,
            last_action=jnp.where(trial_over, -1, action),
            memory=clear_memory(decision.memory, initial, trial_over),
            partner_memories=teams.renew(pool, partner_memories, trial_over),
            answer_memories=answer_memories,
            episode=jnp.where(trial_over, 0, trials.episode + ended.astype(jnp.int32)),
            returns=jnp.where(ended, 0.0, returns),
        )
        return next_trials, step, tally

    def _decide(
        self, networks: AgentNetworks, trials: Trials, observations: Float[Array, "P n seats d"]
    ) -> tuple[Float[Array, "P n f"], Float[Array, "P n h"] | None, Decision]:
        """What the networks read, what only the critic does, and what they say."""
        own, partner = self.seating.observations(observations)
        inputs = self.learner.inputs(Percept(own, trials.reward, trials.first), trials.last_action, self.spec)
        row = jnp.broadcast_to(_rows(trials), trials.reward.shape)
        hidden = self.learner.hidden(PartnerView(row, partner), self.spec)
        further = {} if hidden is None else {"hidden": hidden}
        return inputs, hidden, self.learner.step(networks, inputs, trials.memory, self.spec, **further)

    def _answers(
        self,
        pool: PartnerPool,
        trials: Trials,
        observations: Float[Array, "P n seats d"],
        legal: Bool[Array, "P n a"] | None,
    ) -> tuple[Float[Array, "P n a"] | None, tuple[PyTree, ...]]:
        """What the best responses to the partners would do in the agent's place, if the learner asks."""
        if not self.learner.reads_answers:
            return None, ()
        percepts = Percept(self.seating.observations(observations)[0], trials.reward, trials.first, legal)
        return pool.answer(percepts, trials.answer_memories, self.spec.num_actions)

    def _partner_percepts(
        self, trials: Trials, observations: Float[Array, "P n seats d"], legal: Bool[Array, "P n *s a"] | None
    ) -> Percept:
        """What the partners perceive, [P, n] or [P, n, S]."""
        seen = self.seating.observations(observations)[1]
        first, axis = for_team(self.environment, trials.first), team_axis(self.environment)
        places = jnp.broadcast_to(jnp.arange(1, 1 + axis[0], dtype=jnp.int32), first.shape) if axis else None
        return Percept(seen, trials.partner_reward, first, legal, places)

    def _rewards(self, outcome: Outcome) -> tuple[Float[Array, "P n"], Float[Array, "P n *s"]]:
        """The agent's reward and its partners'."""
        if has_common_reward(self.environment):
            return outcome.reward, for_team(self.environment, outcome.reward)
        return self.seating.split(outcome.reward)

    def improve(
        self, key: PRNGKey, state: AgentState, batch: AgentBatch, progress: Scalar
    ) -> tuple[AgentNetworks, PyTree, dict[str, Scalar], Bool[Array, ""]]:
        """`epochs` passes, each split over environments into `minibatches`: sequences stay whole.

        Returns networks, moments, what the learner logs, and whether all its losses are finite.
        """
        s, count = self.settings, batch.target.shape[1]
        orders = jax.vmap(lambda k: jax.random.permutation(k, count))(jax.random.split(key, s.epochs))
        pace = AgentPace(progress, explore_then_settle(s.entropy, s.entropy_final, progress), s.clip)
        fall = 1.0 - progress if s.anneal else 1.0
        rates = AgentNetworks(s.learning_rate * fall, s.critic_learning_rate * fall, s.learning_rate * fall)
        differentiate = jax.value_and_grad(self.learner.losses, has_aux=True)

        def optimise(carry, drawn: tuple[Int[Array, "m"], PRNGKey]):
            (networks, moments), (chosen, loss_key) = carry, drawn
            part = batch.take(chosen) if s.minibatches > 1 else batch
            (loss, logged), gradients = differentiate(networks, part, pace._replace(key=loss_key), self.spec)
            updated = [
                adam_step(*together, per_member=False, max_norm=s.max_grad_norm)
                for together in zip(rates, networks, moments, gradients, strict=True)
            ]
            return tuple(AgentNetworks(*column) for column in zip(*updated, strict=True)), (loss, logged)

        carry, parts = (state.networks, state.moments), orders.reshape(-1, count // s.minibatches)
        keys = jax.random.split(jax.random.fold_in(key, LOSS_STREAM), len(parts))
        (networks, moments), (losses, logged) = jax.lax.scan(optimise, carry, (parts, keys))
        means = {name: values.mean() for name, values in logged.items()}
        finite = jnp.isfinite(jnp.stack([losses.mean(), *means.values()])).all()
        return networks, moments, means, finite


def _rows(trials: Trials) -> Int[Array, "P 1"]:
    """The row of the pool that every environment belongs to."""
    return jnp.arange(trials.reward.shape[0], dtype=jnp.int32)[:, None]
