"""Algorithm 1 of Rahman, Cui and Stone 2024, for any method: the one loop of teammate generation.

    collect    every best response i plays with every teammate j on the pair grid
    estimate   the critic V^{i,-j} gives advantages, its target network the critic's targets
    improve    each policy ascends sum_ij w_ij A_ij, the critic descends its squared error
    restart    a pair that cannot separate from another gets fresh networks, if a preset asks for it (not in the paper)
    update     the method moves w by the critic's estimate of the pair returns

`train_chunk` is one compiled dispatch. All that it carries is in `TrainState`, and all of that is arrays, so it can be
stacked over seeds and written to disk.

Differs from the paper: pairs are stratified over a fixed grid instead of drawn anew for every rollout, and data of a
pair updates the two policies that made it (Algorithm 1 writes theta_j and theta_-j).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.base import Environment
from coverset.envs.seats import seating
from coverset.learning.optimiser import explore_then_settle, shaping_weight
from coverset.policies.actor import ActorPolicy
from coverset.policies.population import Population
from coverset.settings import GenerateSettings, Schedule
from coverset.teammates.batches import (
    Batch,
    SeatBatch,
    add_rewards,
    critic_batch,
    estimate,
    normalising_scale,
    seat_batch,
)
from coverset.teammates.collect import Playing, Steps, Tally, collect, grid_logits, start_playing
from coverset.teammates.critic import PairCritic
from coverset.teammates.fit import check_fit
from coverset.teammates.method import Method, PairWeights, Rollout, Seen, World, as_pair_weights, violates_constraints
from coverset.teammates.mixed_grid import add_mixed_teams
from coverset.teammates.networks import Networks, actor_spec, init_networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.ppo import Losses, Optimised, Pace, grid_loss, improve, init_moments
from coverset.teammates.restarts import decide_restarts, restart_pairs
from coverset.teammates.team_values import TeamValues, estimate_team_values
from coverset.teammates.units import Units, start_units
from coverset.types import PRNGKey, PyTree, Scalar

METHOD_STREAM = 29
"""Folded into keys for what a method draws: one that draws nothing leaves all other random numbers as they are."""


class CriticMemories(NamedTuple):
    """What a recurrent critic and its target network remember of the episodes under way, [R, B]."""

    critic: PyTree
    target: PyTree


class TrainState(NamedTuple):
    """All that one training run carries from update to update."""

    key: PRNGKey
    update: Int[Array, ""]
    optimised: Optimised
    target_critic: PairCritic
    critic_memories: CriticMemories
    method: PyTree
    """What the method remembers: L-BRDiv's multipliers."""
    stuck: Int[Array, "K"]
    """For how many updates each pair has not been settled; only counted where pairs may restart."""
    settled: Int[Array, ""]
    """For how many updates in a row every pair has been settled."""
    playing: Playing
    units: Units
    """Of what the run has seen so far."""


class Metrics(NamedTuple):
    """What one update, or a chunk of them, reports."""

    tally: Tally
    pair_values: Float[Array, "*u R C"]
    """The critic's estimate of every pair's discounted return."""
    losses: Losses
    finite: Bool[Array, "*u"]
    restarted: Bool[Array, "*u K"]
    """Pairs that restarted."""
    rewards_finite: Bool[Array, "*u"]
    """Whether the game paid finite rewards only, in episodes that have not ended yet, too."""
    mixed_values: Float[Array, "*u S K K"] | None = None
    """The critic's estimate of every mixed team's, where they play."""


class Arithmetic(NamedTuple):
    """How the policies' products are computed; what they are is the same in all ways. A benchmark compares two."""

    act: Callable[..., Any] = grid_logits
    loss: Callable[..., tuple[Scalar, Losses]] = grid_loss


ON_THE_GRID = Arithmetic()


@dataclass(frozen=True)
class Trainer:
    """The static parts of a run."""

    environment: Environment
    method: Method
    settings: GenerateSettings
    arithmetic: Arithmetic = ON_THE_GRID

    def __post_init__(self) -> None:
        self.method.check(self.world)
        check_fit(self.environment, self.settings, self.grid)

    @property
    def world(self) -> World:
        """What the method may know of the run."""
        return World(self.environment, self.settings, *self.method.grid_size(self.settings))

    @property
    def game(self) -> Environment:
        """What is played in training."""
        return self.method.training_environment(self.environment)

    @property
    def grid(self) -> PairGrid:
        grid, mixed = self.method.grid(self.settings), self.method.mixed_team_envs()
        return grid if not mixed else add_mixed_teams(grid, self.environment.num_seats - 1, mixed)

    @property
    def schedule(self) -> Schedule:
        """How the run is cut into dispatches."""
        s = self.settings
        return Schedule(s.total_steps, s.chunk_steps, self.grid.num_envs * s.rollout_length)

    @property
    def is_square(self) -> bool:
        """Whether best response i and teammate i are a pair, for all i."""
        return self.grid.rows == self.grid.columns

    @property
    def has_mixed_teams(self) -> bool:
        """Whether best responses also meet teams of several teammates."""
        return self.method.mixed_team_envs() > 0

    @property
    def has_stages(self) -> bool:
        """Whether the method replaces policies between two chunks."""
        return type(self.method).stage is not Method.stage

    def init(self, key: PRNGKey) -> TrainState:
        """Untrained networks and fresh episodes."""
        key, network_key, env_key = jax.random.split(key, 3)
        world = self.world
        state_key, parameter_key = jax.random.split(jax.random.fold_in(network_key, METHOD_STREAM))
        method = self.method.init(state_key, world)
        parameters = self.method.init_parameters(parameter_key, world)
        networks = self._draw_networks(network_key)
        return self._start(key, env_key, jnp.int32(0), method, networks._replace(method=parameters))

    def _draw_networks(self, key: PRNGKey) -> Networks:
        """Untrained ones, but for the method's own."""
        grid = self.grid
        networks = init_networks(key, self.environment, self.settings, (grid.rows, grid.columns), grid.num_teams)
        return self.method.prepare(jax.random.fold_in(key, METHOD_STREAM + 1), self.world, networks)

    def _start(
        self, key: PRNGKey, env_key: PRNGKey, update: Int[Array, ""], method: PyTree, networks: Networks
    ) -> TrainState:
        """Networks that have not learned anything yet, at the start of a run or of a stage.

        Args:
          key: of all that follows.
          env_key: of the first episodes.
          update: number of the next update.
          method: what the method remembers.
          networks: of all policies.
        """
        grid = self.grid
        memory = networks.critic.network.initial_memory(grid.rows, grid.row_size)
        return TrainState(
            key=key,
            update=update,
            optimised=init_moments(networks),
            target_critic=networks.critic,
            critic_memories=CriticMemories(memory, memory),
            method=method,
            stuck=jnp.zeros(max(grid.rows, grid.columns), jnp.int32),
            settled=jnp.int32(0),
            playing=start_playing(env_key, self.game, grid, networks, self.method.prefix(method)),
            units=start_units(grid.rows, grid.columns),
        )

    def next_stage(self, state: TrainState) -> TrainState:
        """The start of the method's next stage if the present one is over, else the same state.

        Called between two chunks, outside of compiled code.
        """
        stage = self.method.stage(state.method)
        if stage is None or not bool(stage.is_over) or bool(stage.is_last):
            return state
        key, stage_key, network_key, env_key = jax.random.split(state.key, 4)
        networks = self._draw_networks(network_key)
        method, (best_responses, teammates) = self.method.next_stage(
            stage_key, self.world, state.method, self._policies(state.optimised.networks), self._policies(networks)
        )
        networks = networks._replace(
            best_responses=best_responses.network,
            teammates=teammates.network,
            method=state.optimised.networks.method,
        )
        return self._start(key, env_key, state.update, method, networks)

    def progress(self, state: TrainState) -> Scalar:
        """How far a run has come, from 0 to 1: by its updates, or by how long all pairs have been settled.

        A run whose method has finished has come to its end.
        """
        progress = jnp.maximum(state.update / self.schedule.num_updates, self.patience_used(state))
        stage = self.method.stage(state.method)
        return progress if stage is None else jnp.where(stage.is_last, 1.0, progress)

    def patience_used(self, state: TrainState) -> Scalar:
        """Share of `stop_patience` for which all pairs have been settled."""
        patience = self.settings.stop_patience
        return jnp.minimum(state.settled / patience, 1.0) if patience else jnp.float32(0.0)

    def pace(self, state: TrainState) -> Pace:
        """Explore, then exploit; and where settled pairs end the run, or in a stage, learn ever less until then.

        At the full rate a single update now and then spoils a policy for a while, and that while may be the end.
        """
        s, stage = self.settings, self.method.stage(state.method)
        progress, settling = (
            (self.progress(state), self.patience_used(state)) if stage is None else (stage.progress, stage.progress)
        )
        fall = 1.0 - progress if s.anneal else 1.0
        return Pace(
            entropy=explore_then_settle(s.entropy, s.entropy_final, progress),
            rate=fall * explore_then_settle(1.0, 0.0, settling),
        )

    def shaping(self, state: TrainState, steps: Steps) -> Float[Array, "T R B"] | None:
        """The game's shaped reward with its present weight; None where there is none."""
        share, stage = self.settings.shaping_share, self.method.stage(state.method)
        if steps.shaping is None or share == 0.0:
            return None
        progress = self.progress(state) if stage is None else stage.progress
        return shaping_weight(share, progress) * steps.shaping

    def train_chunk(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """`updates_per_chunk` updates, and their log: sums of episodes, means of losses, the last pair values.

        A run that has ended stays as it is: other seeds of the same program may go on.
        """
        over, before = self.progress(state) >= 1.0, state
        state, rows = jax.lax.scan(lambda s, _: self.update(s), state, length=self.schedule.updates_per_chunk)
        if self.settings.stop_patience or self.has_stages:
            state = jax.tree.map(lambda old, new: jnp.where(over, old, new), before, state)
        return state, Metrics(
            tally=jax.tree.map(lambda x: x.sum(axis=0), rows.tally),
            pair_values=rows.pair_values[-1],
            losses=jax.tree.map(lambda x: x.mean(axis=0), rows.losses),
            finite=rows.finite.all(),
            restarted=rows.restarted.any(axis=0),
            rewards_finite=rows.rewards_finite.all(),
            mixed_values=None if rows.mixed_values is None else rows.mixed_values[-1],
        )

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One turn of Algorithm 1's outer loop."""
        s, method = self.settings, self.method
        key, collect_key, improve_key, value_key = jax.random.split(state.key, 4)
        steps, tally, playing = collect(
            collect_key,
            self.game,
            self.grid,
            state.optimised.networks,
            state.playing,
            length=s.rollout_length,
            prefix=method.prefix(state.method),
            act=self.arithmetic.act,
        )
        weights = as_pair_weights(method.weights(state.method))
        batch, critic_memories, scales = self.batch(state, steps, weights)
        networks = state.optimised.networks
        networks = networks._replace(critic=networks.critic.follow_targets(batch.critic.target))
        optimised, losses = improve(
            improve_key,
            self.grid,
            state.optimised._replace(networks=networks),
            batch,
            weights,
            self.pace(state),
            s,
            frozen=method.frozen(state.method),
            method_loss=lambda parameters, *data: method.loss(parameters, state.method, *data),
            loss=self.arithmetic.loss,
        )
        critic = optimised.networks.critic
        values = pair_values, mixed_values = self.team_values(value_key, critic, steps)
        units = state.units.follow(pair_values, critic.deviation, scales)
        in_units = units.of_team_returns(values) if s.scale_free else values
        optimised, restarted, stuck = self.restart(jax.random.fold_in(value_key, 1), state, optimised, in_units)
        done, networks = self.progress(state), optimised.networks
        seen = Seen(self.world, state.update, done, in_units[0], steps, networks, restarted, in_units[1])
        next_state = TrainState(
            key=key,
            update=state.update + 1,
            optimised=optimised,
            target_critic=self._follow_critic(critic, state.target_critic, batch.critic.target),
            critic_memories=critic_memories,
            method=method.update(state.method, seen),
            stuck=stuck,
            settled=self._count_settled(state, in_units) if self.is_square else state.settled,
            playing=playing,
            units=units,
        )
        finite, paid = _all_finite(losses, pair_values), jnp.isfinite(steps.reward).all()
        return next_state, Metrics(tally, pair_values, losses, finite, restarted, paid, mixed_values)

    def _follow_critic(self, critic: PairCritic, target_critic: PairCritic, targets: Array) -> PairCritic:
        """The target network a little closer to the critic, in the same units."""
        rate = self.settings.target_update_rate
        if rate == 1.0:
            return critic
        before = target_critic.follow_targets(targets)
        return optax.incremental_update(critic, before, rate)  # pyright: ignore[reportArgumentType, reportReturnType]

    def batch(
        self, state: TrainState, steps: Steps, weights: PairWeights
    ) -> tuple[Batch, CriticMemories, tuple[Array, Array]]:
        """A rollout with its advantages and targets, each policy's data in one block; the critics' memories; and what
        advantages were divided by."""
        grid, s, networks = self.grid, self.settings, state.optimised.networks
        rollout = Rollout(self.world, grid, steps, networks, self.progress(state))
        bonus = self.method.bonus(networks.method, state.method, rollout)
        bonus = add_rewards(bonus, self.shaping(state, steps))
        before = state.critic_memories
        advantage, target, memory = estimate(grid, networks.critic, steps, before.critic, s, bonus)
        target_memory = memory
        if s.target_update_rate < 1.0:
            _, target, target_memory = estimate(grid, state.target_critic, steps, before.target, s, bonus)
        seats, remembered = seating(self.environment), state.playing.memories
        actors_recur, critic_recurs = networks.best_responses.recurrent, networks.critic.network.recurrent
        recurrent = {"recurrent": actors_recur or critic_recurs}

        last = state.units.advantages
        scales = (
            normalising_scale(0, grid, steps, advantage, s, last[0]),
            normalising_scale(1, grid, steps, advantage, s, last[1]),
        )

        def of_side(side: int) -> SeatBatch:
            of_pairs = weights.teammates if side else weights.best_responses
            of_teams = grid.join_teams(of_pairs, weights.mixed_teams)
            return seat_batch(
                side, seats, grid, steps, advantage, of_teams, remembered[side], s, scale=scales[side], **recurrent
            )

        batch = Batch(of_side(0), of_side(1), critic_batch(grid, steps, target, before.critic, **recurrent))
        return batch, CriticMemories(memory, target_memory), scales

    def team_values(self, key: PRNGKey, critic: PairCritic, steps: Steps) -> TeamValues:
        """The critic's estimates for pairs and mixed teams."""
        return estimate_team_values(key, self.game, self.grid, critic, steps, self.settings)

    def restart(
        self, key: PRNGKey, state: TrainState, optimised: Optimised, values: TeamValues
    ) -> tuple[Optimised, Bool[Array, "K"], Int[Array, "K"]]:
        """Fresh networks for a pair that has been stuck for too long; which pair, if any; and all pairs' counts."""
        s = self.settings
        if not s.restart_patience:
            return optimised, jnp.zeros_like(state.stuck, bool), state.stuck
        left = self.schedule.num_updates - (state.update + 1)
        restarted, stuck = decide_restarts(
            state.stuck,
            values[0],
            left,
            margin=s.settled_margin,
            patience=s.restart_patience,
            mixed_values=values[1],
        )
        return restart_pairs(optimised, self._draw_networks(key), restarted), restarted, stuck

    def _count_settled(self, state: TrainState, values: TeamValues) -> Int[Array, ""]:
        pair_values, mixed_values = values
        violated = violates_constraints(pair_values, self.settings.settled_margin, mixed_values).any()
        return jnp.where(violated, 0, state.settled + 1)

    def report(self, state: TrainState) -> dict[str, Any]:
        """What the method tells of itself."""
        return self.method.report(state.method)

    def population(self, state: TrainState) -> Population:
        """The policies that are saved."""
        return self.method.population(state.method, self._policies(state.optimised.networks))

    def _policies(self, networks: Networks) -> Population:
        """The networks of the grid as policies."""
        s = self.settings
        rows, columns = (
            ActorPolicy(stack, s.network, actor_spec(self.environment, s, side))
            for side, stack in enumerate((networks.best_responses, networks.teammates))
        )
        return Population(rows, columns)

    def summarise(self, state: TrainState) -> dict[str, Any]:
        """Fields that the method adds to the summary."""
        return self.method.summarise(state.method)

    def margin(self, state: TrainState) -> float:
        """The margin by which the saved policies are judged, in units of reward."""
        margin = self.method.margin(state.method, self.settings)
        return margin * float(state.units.unit) if self.settings.scale_free else margin


def _all_finite(losses: Losses, pair_values: Array) -> Bool[Array, ""]:
    numbers = [*jax.tree.leaves(losses), pair_values]
    return jnp.stack([jnp.isfinite(each).all() for each in numbers]).all()
