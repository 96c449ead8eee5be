"""MAPPO on the pair grid: advantages, the weighted clipped objective of every policy, and the critic's loss.

Each policy learns from its own row (best responses) or column (teammates) of the grid and from nothing else: its data
is one contiguous block, its gradient is clipped on its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities
from coverset.learning.optimiser import ADAM, adam_step
from coverset.learning.returns import advantages
from coverset.policies.networks.dense import MLP
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Steps
from coverset.teammates.critic import PairCritic
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PairMatrix, PRNGKey, PyTree, Scalar

SMALLEST_SCALE = 1e-6


class Learner(NamedTuple):
    """The networks and Adam's moments of each of them."""

    networks: Networks
    moments: PyTree


class SeatBatch(NamedTuple):
    """What one population learns from; axes [K, T, B], a policy's own data in its own row."""

    observations: Float[Array, "K t B d"]
    actions: Int[Array, "K t B"]
    log_p: Float[Array, "K t B"]
    weighted_advantage: Float[Array, "K t B"]
    share: Float[Array, "K t B"]


class CriticBatch(NamedTuple):
    """What the critic learns from; axes [K, T, B]."""

    observations: Float[Array, "K t B 2 d"]
    target: Float[Array, "K t B"]


class Batch(NamedTuple):
    """One rollout, as each of the learners sees it."""

    best_responses: SeatBatch
    teammates: SeatBatch
    critic: CriticBatch


class Pace(NamedTuple):
    """How freely policies explore and how fast all networks learn at one moment of a run."""

    entropy: Scalar
    """The entropy bonus, in units of the self-play weight."""
    rate: Scalar
    """Share of the learning rates, from 0 to 1."""


class Losses(NamedTuple):
    """What is worth logging of an optimiser step."""

    entropy: Float[Array, "*u 2 K"]
    critic: Float[Array, "*u"]


def init_learner(networks: Networks) -> Learner:
    """Networks that have not learned anything yet."""
    return Learner(networks, Networks(*(ADAM.init(network) for network in networks)))  # pyright: ignore[reportArgumentType]


def estimate(
    grid: PairGrid, critic: PairCritic, steps: Steps, settings: GenerateSettings
) -> tuple[Float[Array, "T K B"], Float[Array, "T K B"]]:
    """Advantages of a rollout by a critic, and the value targets that go with them."""
    identity = critic.identity(grid.best_responses(), grid.teammates())
    values = critic(steps.observations, identity)
    advantage = advantages(
        steps.reward,
        values,
        critic(steps.final_observations, identity),
        steps.terminated,
        steps.truncated,
        discount=settings.discount,
        decay=settings.gae_lambda,
    )
    return advantage, advantage + values


def advantage_scales(grid: PairGrid, advantage: Float[Array, "T K B"]) -> Float[Array, "2 K"]:
    """Root mean square advantage of every best response and teammate, each of its cells having the same say."""
    per_env = jnp.mean(jnp.square(advantage), axis=0) * grid.cell_shares()
    return jnp.sqrt(jnp.stack([per_env.mean(axis=1), grid.by_teammate(per_env).mean(axis=1)]))


def seat_batch(
    seat: int,
    grid: PairGrid,
    steps: Steps,
    advantage: Float[Array, "T K B"],
    pair_weights: PairMatrix,
    settings: GenerateSettings,
) -> SeatBatch:
    """One population's own data; the pair weight multiplies the advantage (Algorithm 1) and touches nothing else."""
    view = jax.vmap(grid.by_teammate) if seat else (lambda x: x)
    weighted = view(advantage * grid.spread(pair_weights))
    if settings.normalise_advantages:
        weighted = weighted / (advantage_scales(grid, advantage)[seat, :, None] + SMALLEST_SCALE)
    if settings.normalise_pair_weights:
        weighted = weighted / jnp.diagonal(pair_weights)[:, None]
    fields = (
        view(steps.observations[..., seat, :]),
        view(steps.actions[..., seat]),
        view(steps.log_p[..., seat]),
        weighted,
        view(jnp.broadcast_to(grid.cell_shares(), advantage.shape)),
    )
    return SeatBatch(*(members_first(field) for field in fields))


def members_first(x: Array) -> Array:
    """[T, K, B, ...] -> [K, T, B, ...]: a policy's data becomes one contiguous block."""
    return jnp.swapaxes(x, 0, 1)


def grid_loss(
    networks: Networks, grid: PairGrid, batch: Batch, bonuses: Float[Array, "*k"], clip: float
) -> tuple[Scalar, Losses]:
    """The three losses added up: no network appears in two of them."""
    row_loss, row_entropy = actor_loss(networks.best_responses, batch.best_responses, bonuses, clip)
    column_loss, column_entropy = actor_loss(networks.teammates, batch.teammates, bonuses, clip)
    value_loss = critic_loss(networks.critic, grid, batch.critic)
    losses = Losses(jnp.stack([row_entropy, column_entropy]), value_loss)
    return row_loss + column_loss + value_loss, losses


def actor_loss(
    actors: MLP, batch: SeatBatch, bonuses: Float[Array, "*k"], clip: float
) -> tuple[Scalar, Float[Array, "K"]]:
    """Sum over policies of the negative clipped objective and entropy bonus; and the entropies."""
    logits = jax.vmap(MLP.__call__)(actors, batch.observations)
    log_p = log_probabilities(logits, batch.actions)
    gain = clipped_surrogate(log_p, batch.log_p, batch.weighted_advantage, clip=clip)
    entropies = jnp.mean(batch.share * entropy(logits), axis=(1, 2))
    objective = jnp.mean(batch.share * gain, axis=(1, 2)) + bonuses * entropies
    return -jnp.sum(objective), entropies


def critic_loss(critic: PairCritic, grid: PairGrid, batch: CriticBatch) -> Scalar:
    """Mean squared distance to the targets, every pair having the same say."""
    identity = critic.identity(grid.best_responses(), grid.teammates())
    values = critic(batch.observations, identity[:, None])
    return jnp.mean(grid.cell_shares()[:, None] * jnp.square(values - batch.target))


def improve(
    key: PRNGKey,
    grid: PairGrid,
    learner: Learner,
    batch: Batch,
    pair_weights: PairMatrix,
    pace: Pace,
    settings: GenerateSettings,
    *,
    loss: Callable[..., tuple[Scalar, Losses]] = grid_loss,
) -> tuple[Learner, Losses]:
    """`epochs` passes over the rollout, each split along time into `minibatches`: every part holds every pair.

    `loss` computes what `grid_loss` does.
    """
    # The paper multiplies the entropy weight by w_ii; in units of w_ii that factor is 1.
    bonuses = pace.entropy * (1.0 if settings.normalise_pair_weights else jnp.diagonal(pair_weights))
    rate, critic_rate = settings.learning_rate * pace.rate, settings.critic_learning_rate * pace.rate

    def optimise(learner: Learner, times: Int[Array, "t"]) -> tuple[Learner, Losses]:
        part = at_times(batch, times, settings)
        gradients, losses = jax.grad(loss, has_aux=True)(learner.networks, grid, part, bonuses, settings.clip)
        if settings.share_pair_parameters:
            both = jax.tree.map(jnp.add, gradients.best_responses, gradients.teammates)
            gradients = gradients._replace(best_responses=both)

        def adam(role: str, rate: Scalar) -> tuple[PyTree, PyTree]:
            network, moments, gradient = (getattr(each, role) for each in (*learner, gradients))
            norm = settings.max_grad_norm
            return adam_step(rate, network, moments, gradient, per_member=role != "critic", max_norm=norm)

        rows = adam("best_responses", rate)
        columns = rows if settings.share_pair_parameters else adam("teammates", rate)
        updated = zip(rows, columns, adam("critic", critic_rate), strict=True)
        return Learner(*(Networks(*each) for each in updated)), losses

    learner, losses = jax.lax.scan(optimise, learner, minibatch_times(key, settings))
    return learner, jax.tree.map(lambda x: x.mean(axis=0), losses)


def minibatch_times(key: PRNGKey, settings: GenerateSettings) -> Int[Array, "n t"]:
    """The steps of a rollout that each optimiser step learns from: every epoch has all of them, in another order."""
    length = settings.rollout_length
    orders = jax.vmap(lambda k: jax.random.permutation(k, length))(jax.random.split(key, settings.epochs))
    return orders.reshape(-1, length // settings.minibatches)


def at_times(batch: Batch, times: Int[Array, "t"], settings: GenerateSettings) -> Batch:
    """A part of a rollout, of every pair; all of it, as it lies, where there is only one."""
    return jax.tree.map(lambda x: x[:, times], batch) if settings.minibatches > 1 else batch
