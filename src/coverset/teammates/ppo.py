"""PPO on the pair grid: advantages, the weighted clipped objective of every policy, and the critic's loss.

Best response i maximises, over its own row of the grid (teammate j likewise over its column),

    mean_j mean_{cell ij} min(ratio A', clip(ratio, 1 - clip, 1 + clip) A') + w_ent u_i H(pi_i)

    A'   = w_ij A_ij / (s_i u_i)
    A_ij   generalised advantage of the pair's reward, and the method's bonus if it has one, under V^{i,-j}
    w_ij   weight of the pair, from the method
    s_i    root mean square of A over the row with `normalise_advantages`, else 1; with `advantage_scale_memory` m the
           larger of it and m times the s_i of the update before, so that rollouts without reward do not amplify noise
    u_i    in the first term, the row's largest weight (w_ii) with `normalise_pair_weights`, else 1; in the entropy term
           the other way round: the paper's bonus is w_ent w_ii, and in units of w_ii that factor is 1

and descends the loss of the method, where it has one. Every policy's data is one contiguous block, and its gradient is
clipped on its own. The critic descends its mean squared error, weighted equally over pairs.

Where mixed teams play (`mixed_grid`), they are further cells of the row, with weights of their own. The first term is
then the sum over all cells, divided by the number of teammates as before, so that a mixed team of weight 0 changes
nothing in it; H is the mean over all cells. A teammate's term is the mean over the seats of the sums over the cells in
which it plays that seat.

Where seats have rewards of their own, A is the ego's. The constraints are on the ego's return for everybody, but the 1
in w_ii, which stands for self-play itself, weighs what teammate j wants in self-play: U_j, its own return or a mixture
with the ego's (`ego_reward_share`). For teammates w_ij A_ij becomes w_ij A_ij + [i = j] (A^U_ij - A_ij).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities
from coverset.learning.optimiser import ADAM, adam_step
from coverset.policies.network import Network
from coverset.policy import mask_logits
from coverset.settings import GenerateSettings
from coverset.teammates.batches import (
    Batch,
    CriticBatch,
    SeatBatch,
    largest_weights,
    members_first,
    minibatch_order,
    take_part,
)
from coverset.teammates.critic import PairCritic
from coverset.teammates.method import Frozen, PairWeights
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PRNGKey, PyTree, Scalar

Logits: TypeAlias = tuple[Float[Array, "R t B a0"], Float[Array, "C t D *s a1"]]
"""Of best responses and of teammates, each on its own data."""
MethodLoss: TypeAlias = Callable[[PyTree, "Batch", Logits], tuple[Scalar, dict[str, Scalar]] | None]
"""`Method.loss` with the method's state filled in."""


class Optimised(NamedTuple):
    """The networks and Adam's moments of each of them."""

    networks: Networks
    moments: Networks


class Pace(NamedTuple):
    """How freely policies explore and how fast all networks learn at one moment of a run."""

    entropy: Scalar
    """The entropy bonus, in units of the self-play weight."""
    rate: Scalar
    """Share of the learning rates, from 0 to 1."""


class Losses(NamedTuple):
    """What is worth logging of an optimiser step."""

    entropy: tuple[Float[Array, "*u R"], Float[Array, "*u C"]]
    critic: Float[Array, "*u"]
    method: dict[str, Float[Array, "*u"]]


def init_moments(networks: Networks) -> Optimised:
    """Networks that have not learned anything yet."""
    return Optimised(networks, Networks(*(ADAM.init(network) for network in networks)))  # pyright: ignore[reportArgumentType]


def grid_loss(
    networks: Networks,
    grid: PairGrid,
    batch: Batch,
    bonuses: tuple[Array, Array],
    clip: float,
    method_loss: MethodLoss | None = None,
) -> tuple[Scalar, Losses]:
    """All losses added up: no network appears in two of them, but for what a method adds.

    Args:
      networks: all that learns.
      grid: the pair grid.
      batch: a minibatch.
      bonuses: weight of the entropy of every best response and teammate.
      clip: range of the probability ratio.
      method_loss: the method's own loss.
    """
    row_loss, row_entropy, row_logits = actor_loss(networks.best_responses, batch.best_responses, bonuses[0], clip)
    column_loss, column_entropy, column_logits = actor_loss(networks.teammates, batch.teammates, bonuses[1], clip)
    value_loss = critic_loss(networks.critic, grid, batch.critic)
    total = row_loss + column_loss + value_loss
    own = method_loss(networks.method, batch, (row_logits, column_logits)) if method_loss else None
    if own is None:
        return total, Losses((row_entropy, column_entropy), value_loss, {})
    return total + own[0], Losses((row_entropy, column_entropy), value_loss, own[1])


def actor_loss(
    actors: Network, batch: SeatBatch, bonuses: Float[Array, "*k"], clip: float
) -> tuple[Scalar, Float[Array, "K"], Float[Array, "K t B *s a"]]:
    """Sum over policies of the negative clipped objective and entropy bonus; the entropies; the logits."""
    logits = jax.vmap(type(actors).unroll)(actors, batch.observations, batch.memory, batch.fresh)
    logits = mask_logits(logits, batch.legal)
    log_p = log_probabilities(logits, batch.actions)
    gain = clipped_surrogate(log_p, batch.log_p, batch.weighted_advantage, clip=clip)
    own_data = tuple(range(1, gain.ndim))
    entropies = jnp.mean(batch.share * entropy(logits), axis=own_data)
    objective = jnp.mean(batch.share * gain, axis=own_data) + bonuses * entropies
    return -jnp.sum(objective), entropies, logits


def critic_loss(critic: PairCritic, grid: PairGrid, batch: CriticBatch) -> Scalar:
    """Mean squared distance to the targets, every pair weighted equally."""
    share = grid.cell_shares()[:, None] if batch.share is None else batch.share
    if batch.fresh is None or batch.teams is None:
        identity = critic.identity(grid.best_responses(), grid.teams())
        values = critic.unroll(batch.observations, batch.memory, None, identity[:, None])
    else:
        teams = batch.teams[:, 0]
        best_responses = jnp.broadcast_to(jnp.arange(grid.rows)[:, None], teams.shape)
        identity = critic.identity(best_responses, teams)
        observations, fresh = members_first(batch.observations), members_first(batch.fresh)
        values = members_first(critic.unroll(observations, batch.memory, fresh, identity))
    errors = jnp.square(critic.in_units(values - batch.target))
    return jnp.mean(share * (errors.mean(axis=-1) if errors.ndim > share.ndim else errors))


def improve(
    key: PRNGKey,
    grid: PairGrid,
    optimised: Optimised,
    batch: Batch,
    pair_weights: PairWeights,
    pace: Pace,
    settings: GenerateSettings,
    *,
    frozen: Frozen | None = None,
    method_loss: MethodLoss | None = None,
    loss: Callable[..., tuple[Scalar, Losses]] = grid_loss,
) -> tuple[Optimised, Losses]:
    """`epochs` passes over the rollout, each split into `minibatches`: every part holds every pair.

    Args:
      key: of the minibatches' order.
      grid: the pair grid.
      optimised: networks and moments.
      batch: a rollout.
      pair_weights: of both populations.
      pace: entropy bonus and learning rates.
      settings: of the run.
      frozen: policies that do not learn.
      method_loss: the method's own loss.
      loss: computes what `grid_loss` does.
    """
    recurrent = any(part.fresh is not None for part in batch)
    units = (largest_weights(pair_weights.best_responses), largest_weights(pair_weights.teammates.T))
    bonuses = tuple(pace.entropy * (jnp.ones_like(u) if settings.normalise_pair_weights else u) for u in units)

    def optimise(optimised: Optimised, chosen: Int[Array, "n"]) -> tuple[Optimised, Losses]:
        part = take_part(batch, chosen, settings, recurrent=recurrent)
        gradients, losses = jax.grad(loss, has_aux=True)(
            optimised.networks, grid, part, bonuses, settings.clip, method_loss
        )
        return descend(optimised, gradients, pace, settings, frozen), losses

    size = grid.row_size if recurrent else settings.rollout_length
    order = minibatch_order(key, size, settings)
    optimised, losses = jax.lax.scan(optimise, optimised, order)
    return optimised, jax.tree.map(lambda x: x.mean(axis=0), losses)


def descend(
    optimised: Optimised, gradients: Networks, pace: Pace, settings: GenerateSettings, frozen: Frozen | None
) -> Optimised:
    """One step of Adam for every network, each policy's gradient clipped on its own.

    Args:
      optimised: networks and moments.
      gradients: of the loss in the networks.
      pace: share of the learning rates.
      settings: of the run.
      frozen: policies that do not learn.
    """
    if settings.share_pair_parameters:
        both = jax.tree.map(jnp.add, gradients.best_responses, gradients.teammates)
        gradients = gradients._replace(best_responses=both)
    rates = {"critic": settings.critic_learning_rate, "method": settings.critic_learning_rate}

    def adam(role: str) -> tuple[PyTree, PyTree]:
        network, moments, gradient = (getattr(each, role) for each in (*optimised, gradients))
        if not jax.tree.leaves(network):
            return network, moments
        rate = rates.get(role, settings.learning_rate) * pace.rate
        norm = settings.max_grad_norm
        return adam_step(rate, network, moments, gradient, per_member=role not in rates, max_norm=norm)

    rows = _keep_frozen(optimised, "best_responses", adam("best_responses"), frozen)
    if settings.share_pair_parameters:
        columns = rows
    else:
        columns = _keep_frozen(optimised, "teammates", adam("teammates"), frozen)
    updated = zip(rows, columns, adam("critic"), adam("method"), strict=True)
    return Optimised(*(Networks(*each) for each in updated))


def _keep_frozen(
    optimised: Optimised, role: str, updated: tuple[PyTree, PyTree], frozen: Frozen | None
) -> tuple[PyTree, PyTree]:
    """Frozen members stay as they are."""
    if frozen is None:
        return updated
    before = (getattr(optimised.networks, role), getattr(optimised.moments, role))
    return jax.tree.map(lambda old, new: select_members(getattr(frozen, role), old, new), before, updated)


def select_members(chosen: Bool[Array, "K"], these: Array, others: Array) -> Array:
    """Entries of chosen members from the first array; what has no axis of members, Adam's count, from the second."""
    if others.ndim == 0:
        return others
    return jnp.where(chosen.reshape(-1, *(1,) * (others.ndim - 1)), these, others)
