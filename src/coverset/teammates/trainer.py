"""Algorithm 1 of Rahman, Cui and Stone 2024, for any pair-weight rule: the one loop of every method.

    collect    every best response i plays with every teammate j on the pair grid
    estimate   the critic V^{i,-j} gives advantages, its target network the critic's targets
    improve    each policy ascends sum_ij w_ij A_ij, the critic descends its squared error
    weigh      every few updates the rule moves w by the critic's estimate of the pair returns
    renew      a pair that stays where others are starts anew, in presets that ask for it (not in the paper)

`train_chunk` is one compiled dispatch. All that it carries is in `TrainState`, and all of that is arrays, so it can be
stacked over seeds and written to disk.

Differs from the paper: pairs are stratified over a fixed grid instead of drawn anew for every rollout, and data of a
pair updates the two policies that made it (Algorithm 1 writes theta_j and theta_-j).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.base import Environment
from coverset.learning.optimiser import explore_then_settle
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Logits, Playing, Steps, Tally, collect, grid_logits, start_playing
from coverset.teammates.critic import PairCritic
from coverset.teammates.method import PairWeightRule, violated
from coverset.teammates.networks import init_networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.ppo import (
    Batch,
    CriticBatch,
    Learner,
    Losses,
    Pace,
    estimate,
    grid_loss,
    improve,
    init_learner,
    members_first,
    seat_batch,
)
from coverset.teammates.restarts import judge, renew
from coverset.types import PairMatrix, PRNGKey, PyTree, Scalar


class TrainState(NamedTuple):
    """All that one training run carries from update to update."""

    key: PRNGKey
    update: Int[Array, ""]
    learner: Learner
    target_critic: PairCritic
    rule: PyTree
    """What the pair-weight rule remembers: L-BRDiv's multipliers."""
    stuck: Int[Array, "K"]
    """For how many updates each pair has not been settled; only counted where pairs may start anew."""
    held: Int[Array, ""]
    """For how many updates in a row every pair has been settled."""
    playing: Playing


class Metrics(NamedTuple):
    """What one update, or a chunk of them, reports."""

    tally: Tally
    pair_values: PairMatrix
    """The critic's estimate of every pair's discounted return."""
    entropy: Float[Array, "*u 2 K"]
    critic_loss: Float[Array, "*u"]
    finite: Bool[Array, "*u"]
    fresh: Bool[Array, "*u K"]
    """Pairs that started anew."""


class Arithmetic(NamedTuple):
    """How the policies' products are computed; what they are is the same in all ways. A benchmark compares two."""

    act: Callable[..., Logits] = grid_logits
    loss: Callable[..., tuple[Scalar, Losses]] = grid_loss


ON_THE_GRID = Arithmetic()


@dataclass(frozen=True)
class Trainer:
    """The static parts of a run."""

    environment: Environment
    rule: PairWeightRule
    settings: GenerateSettings
    arithmetic: Arithmetic = ON_THE_GRID

    @property
    def grid(self) -> PairGrid:
        s = self.settings
        return PairGrid(s.population_size, s.envs_per_pair, s.extra_self_play)

    def init(self, key: PRNGKey) -> TrainState:
        """Untrained networks and fresh episodes."""
        key, network_key, env_key = jax.random.split(key, 3)
        networks = init_networks(network_key, self.environment, self.settings)
        return TrainState(
            key=key,
            update=jnp.int32(0),
            learner=init_learner(networks),
            target_critic=networks.critic,
            rule=self.rule.init(self.settings.population_size),
            stuck=jnp.zeros(self.settings.population_size, jnp.int32),
            held=jnp.int32(0),
            playing=start_playing(env_key, self.environment, self.grid),
        )

    def progress(self, state: TrainState) -> Scalar:
        """How far a run has come, from 0 to 1: by its updates, or by how long all pairs have been settled."""
        s = self.settings
        return jnp.maximum(state.update / (s.num_chunks * s.updates_per_chunk), self.patience_used(state))

    def patience_used(self, state: TrainState) -> Scalar:
        """Share of `stop_patience` for which all pairs have been settled."""
        patience = self.settings.stop_patience
        return jnp.minimum(state.held / patience, 1.0) if patience else jnp.float32(0.0)

    def pace(self, state: TrainState) -> Pace:
        """Explore, then settle; and where settled pairs end the run, learn ever less until then.

        At the full rate a single update now and then spoils a policy for a while, and that while may be the end.
        """
        s, progress = self.settings, self.progress(state)
        fall = 1.0 - progress if s.anneal else 1.0
        return Pace(
            entropy=explore_then_settle(s.entropy, s.entropy_final, progress),
            rate=fall * explore_then_settle(1.0, 0.0, self.patience_used(state)),
        )

    def train_chunk(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """`updates_per_chunk` updates, and their log: sums of episodes, means of losses, the last pair values.

        A run that has ended stays as it is: other seeds of the same program may go on.
        """
        over, before = self.progress(state) >= 1.0, state
        state, rows = jax.lax.scan(lambda s, _: self.update(s), state, length=self.settings.updates_per_chunk)
        if self.settings.stop_patience:
            state = jax.tree.map(lambda old, new: jnp.where(over, old, new), before, state)
        return state, Metrics(
            tally=jax.tree.map(lambda x: x.sum(axis=0), rows.tally),
            pair_values=rows.pair_values[-1],
            entropy=rows.entropy.mean(axis=0),
            critic_loss=rows.critic_loss.mean(),
            finite=rows.finite.all(),
            fresh=rows.fresh.any(axis=0),
        )

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One turn of Algorithm 1's outer loop."""
        grid, s, arithmetic = self.grid, self.settings, self.arithmetic
        key, collect_key, improve_key, value_key = jax.random.split(state.key, 4)
        networks = state.learner.networks
        steps, tally, playing = collect(
            collect_key, self.environment, grid, networks, state.playing, length=s.rollout_length, act=arithmetic.act
        )
        pair_weights = self.rule.weights(state.rule)
        batch = self.batch(state, steps, pair_weights)
        learner, losses = improve(
            improve_key, grid, state.learner, batch, pair_weights, self.pace(state), s, loss=arithmetic.loss
        )
        critic = learner.networks.critic
        pair_values = self.pair_values(value_key, critic, steps)
        next_state = TrainState(
            key=key,
            update=state.update + 1,
            learner=learner,
            target_critic=optax.incremental_update(critic, state.target_critic, s.target_update_rate),  # pyright: ignore
            rule=self.weigh(state, pair_values),
            stuck=state.stuck,
            held=jnp.where(violated(pair_values, s.settled_margin).any(), 0, state.held + 1),
            playing=playing,
        )
        fresh = jnp.zeros_like(state.stuck, bool)
        if s.restart_patience:
            next_state, fresh = self._renew(jax.random.fold_in(value_key, 1), next_state, pair_values)
        finite = jnp.isfinite(losses.critic) & jnp.isfinite(pair_values).all() & jnp.isfinite(losses.entropy).all()
        return next_state, Metrics(tally, pair_values, losses.entropy, losses.critic, finite, fresh)

    def batch(self, state: TrainState, steps: Steps, pair_weights: PairMatrix) -> Batch:
        """A rollout with its advantages and targets, each policy's data in one block."""
        grid, s = self.grid, self.settings
        advantage, target = estimate(grid, state.learner.networks.critic, steps, s)
        if s.target_update_rate < 1.0:
            _, target = estimate(grid, state.target_critic, steps, s)
        return Batch(
            best_responses=seat_batch(0, grid, steps, advantage, pair_weights, s),
            teammates=seat_batch(1, grid, steps, advantage, pair_weights, s),
            critic=CriticBatch(members_first(steps.observations), members_first(target)),
        )

    def pair_values(self, key: PRNGKey, critic: PairCritic, steps: Steps) -> PairMatrix:
        """The critic's word on every pair's expected return, over states that all pairs share."""
        s, members = self.settings, jnp.arange(self.settings.population_size)
        if s.value_states == "initial":
            fresh = jax.vmap(self.environment.reset)(jax.random.split(key, s.value_samples))
            observations = jax.vmap(self.environment.observe)(fresh)
        else:
            visited = steps.observations.reshape(-1, *steps.observations.shape[-2:])
            observations = visited[jax.random.randint(key, (s.value_samples,), 0, visited.shape[0])]
        pairs = jnp.meshgrid(members, members, indexing="ij")
        return critic(observations, critic.identity(*pairs)[:, :, None]).mean(axis=-1)

    def weigh(self, state: TrainState, pair_values: PairMatrix) -> PyTree:
        """The rule's memory after this update."""
        due = (state.update + 1) % self.settings.multiplier_interval == 0
        moved = self.rule.update(state.rule, pair_values)
        return jax.tree.map(lambda new, old: jnp.where(due, new, old), moved, state.rule)

    def _renew(self, key: PRNGKey, state: TrainState, pair_values: PairMatrix) -> tuple[TrainState, Bool[Array, "K"]]:
        """Fresh networks for a pair that has been stuck for too long; and which pair, if any."""
        s = self.settings
        left = s.num_chunks * s.updates_per_chunk - state.update
        fresh, stuck = judge(state.stuck, pair_values, left, margin=s.settled_margin, patience=s.restart_patience)
        learner = renew(state.learner, init_networks(key, self.environment, s), fresh)
        return state._replace(learner=learner, rule=self.rule.renew(state.rule, fresh), stuck=stuck), fresh
