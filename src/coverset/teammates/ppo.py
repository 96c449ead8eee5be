"""PPO on the pair grid: advantages, the weighted clipped objective of every policy, and the critic's loss.

Best response i maximises, over its own row of the grid (teammate j likewise over its column),

    mean_j mean_{cell ij} min(ratio A', clip(ratio, 1 - clip, 1 + clip) A') + w_ent u_i H(pi_i)

    A'   = w_ij A_ij / (s_i u_i)
    A_ij   generalised advantage of the pair's reward, and the method's bonus if it has one, under V^{i,-j}
    w_ij   weight of the pair, from the method
    s_i    root mean square of A over the row with `normalise_advantages`, else 1
    u_i    in the first term, the row's largest weight (w_ii) with `normalise_pair_weights`, else 1; in the entropy term
           the other way round: the paper's bonus is w_ent w_ii, and in units of w_ii that factor is 1

and descends the loss of the method, where it has one. Every policy's data is one contiguous block, and its gradient is
clipped on its own. The critic descends its mean squared error, weighted equally over pairs.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities
from coverset.learning.optimiser import ADAM, adam_step
from coverset.learning.returns import advantages
from coverset.policies.network import Network
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Steps
from coverset.teammates.critic import PairCritic, Values
from coverset.teammates.method import Frozen, PairWeights
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PRNGKey, PyTree, Scalar

SMALLEST_SCALE = 1e-6

Logits: TypeAlias = tuple[Float[Array, "R t B a0"], Float[Array, "C t D a1"]]
"""Of best responses and of teammates, each on its own data."""
MethodLoss: TypeAlias = Callable[[PyTree, "Batch", Logits], tuple[Scalar, dict[str, Scalar]] | None]
"""`Method.loss` with the method's state filled in."""


class Optimised(NamedTuple):
    """The networks and Adam's moments of each of them."""

    networks: Networks
    moments: Networks


class SeatBatch(NamedTuple):
    """What one population learns from; axes [K, T, B], a policy's own data in its own row."""

    observations: Float[Array, "K t B d"]
    actions: Int[Array, "K t B"]
    log_p: Float[Array, "K t B"]
    weighted_advantage: Float[Array, "K t B"]
    share: Float[Array, "K t B"]
    fresh: Bool[Array, "K t B"] | None
    """Where episodes start; None for networks without memory."""
    memory: PyTree
    """Before the rollout, [K, B]."""


class CriticBatch(NamedTuple):
    """What the critic learns from; axes [R, T, B]."""

    observations: Float[Array, "R t B 2 d"]
    target: Float[Array, "R t B"]
    share: Float[Array, "R t B"] | None
    """None where it is that of the grid's cells, the same at all steps."""
    fresh: Bool[Array, "R t B"] | None
    teammates: Int[Array, "R 1 B"] | None
    """Index j of every environment's teammate; None where the batch holds all environments, as they lie."""
    memory: PyTree


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

    entropy: tuple[Float[Array, "*u R"], Float[Array, "*u C"]]
    critic: Float[Array, "*u"]
    method: dict[str, Float[Array, "*u"]]


def init_moments(networks: Networks) -> Optimised:
    """Networks that have not learned anything yet."""
    return Optimised(networks, Networks(*(ADAM.init(network) for network in networks)))  # pyright: ignore[reportArgumentType]


def estimate(
    grid: PairGrid,
    critic: PairCritic,
    steps: Steps,
    memory: PyTree,
    settings: GenerateSettings,
    bonus: Float[Array, "T R B"] | None = None,
) -> tuple[Float[Array, "T R B"], Float[Array, "T R B"], PyTree]:
    """Advantages of a rollout by a critic, the value targets that go with them, and the critic's memory after it.

    Args:
      grid: the pair grid.
      critic: estimates values.
      steps: a rollout.
      memory: of the critic, before the rollout.
      settings: of the run.
      bonus: the method's reward for every step, if it has one.
    """
    identity = critic.identity(grid.best_responses(), grid.teammates())
    values: Values = critic.evaluate(steps.observations, steps.final_observations, memory, steps.fresh, identity)
    advantage = advantages(
        steps.reward if bonus is None else steps.reward + bonus,
        values.present,
        values.following,
        steps.terminated,
        steps.truncated,
        discount=settings.discount,
        decay=settings.gae_lambda,
    )
    return advantage, advantage + values.present, values.memory


def data_shares(grid: PairGrid, steps: Steps) -> Float[Array, "T R B"]:
    """Factor that weights every cell of a row equally, whatever it holds of environments and of steps that are data."""
    shares = jnp.broadcast_to(grid.cell_shares(), steps.reward.shape)
    if steps.is_data is None:
        return shares
    data = steps.is_data.astype(jnp.float32)
    counts = grid.cell_sums(jnp.ones((grid.rows, grid.row_size)))
    fraction = grid.cell_sums(data.mean(axis=0)) / counts
    return shares * data / jnp.maximum(grid.spread(fraction), SMALLEST_SCALE)[None]


def advantage_scales(
    grid: PairGrid, advantage: Float[Array, "T R B"], shares: Float[Array, "T R B"] | None = None
) -> tuple[Float[Array, "R"], Float[Array, "C"]]:
    """Root mean square advantage of every best response and teammate, each of its cells weighted equally.

    `shares` are those of `data_shares` where not all steps are data.
    """
    if shares is None:
        per_env = jnp.mean(jnp.square(advantage), axis=0) * grid.cell_shares()
    else:
        per_env = jnp.mean(jnp.square(advantage) * shares, axis=0)
    return jnp.sqrt(per_env.mean(axis=1)), jnp.sqrt(grid.by_teammate(per_env).mean(axis=1))


def largest_weights(weights: Float[Array, "K P"]) -> Float[Array, "K"]:
    """The unit of each policy's objective: its largest weight, w_ii in the paper's methods; never zero."""
    largest = jnp.max(weights, axis=1)
    magnitude = jnp.maximum(jnp.max(jnp.abs(weights), axis=1), SMALLEST_SCALE)
    return jnp.where(largest > 0.0, largest, magnitude)


def seat_batch(
    seat: int,
    grid: PairGrid,
    steps: Steps,
    advantage: Float[Array, "T R B"],
    weights: Float[Array, "R C"],
    memory: PyTree,
    settings: GenerateSettings,
    *,
    recurrent: bool = False,
) -> SeatBatch:
    """One population's own data; the pair weight multiplies the advantage (Algorithm 1) and touches nothing else.

    Args:
      seat: 0 for best responses, 1 for teammates.
      grid: the pair grid.
      steps: a rollout.
      advantage: of its steps.
      weights: of the pairs, as this population sees them.
      memory: of its networks, before the rollout.
      settings: of the run.
      recurrent: whether its networks have memory.
    """
    view = jax.vmap(grid.by_teammate) if seat else (lambda x: x)
    weighted, shares = view(advantage * grid.spread(weights)[None]), data_shares(grid, steps)
    if settings.normalise_advantages:
        scales = advantage_scales(grid, advantage, None if steps.is_data is None else shares)
        weighted = weighted / (scales[seat][None, :, None] + SMALLEST_SCALE)
    if settings.normalise_pair_weights:
        weighted = weighted / largest_weights(weights.T if seat else weights)[None, :, None]
    return SeatBatch(
        observations=members_first(view(steps.observations[..., seat, :])),
        actions=members_first(view(steps.actions[..., seat])),
        log_p=members_first(view(steps.log_p[..., seat])),
        weighted_advantage=members_first(weighted),
        share=members_first(view(shares)),
        fresh=members_first(view(steps.fresh)) if recurrent else None,
        memory=memory,
    )


def critic_batch(
    grid: PairGrid, steps: Steps, target: Float[Array, "T R B"], memory: PyTree, *, recurrent: bool = False
) -> CriticBatch:
    """The critic's own data.

    Args:
      grid: the pair grid.
      steps: a rollout.
      target: of the values.
      memory: of the critic, before the rollout.
      recurrent: whether batches are split over environments.
    """
    return CriticBatch(
        observations=members_first(steps.observations),
        target=members_first(target),
        share=members_first(data_shares(grid, steps)) if recurrent or steps.is_data is not None else None,
        fresh=members_first(steps.fresh) if recurrent else None,
        teammates=grid.teammates()[:, None] if recurrent else None,
        memory=memory,
    )


def members_first(x: Array) -> Array:
    """[T, K, B, ...] -> [K, T, B, ...]: a policy's data becomes one contiguous block."""
    return jnp.swapaxes(x, 0, 1)


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
) -> tuple[Scalar, Float[Array, "K"], Float[Array, "K t B a"]]:
    """Sum over policies of the negative clipped objective and entropy bonus; the entropies; the logits."""
    logits = jax.vmap(type(actors).unroll)(actors, batch.observations, batch.memory, batch.fresh)
    log_p = log_probabilities(logits, batch.actions)
    gain = clipped_surrogate(log_p, batch.log_p, batch.weighted_advantage, clip=clip)
    entropies = jnp.mean(batch.share * entropy(logits), axis=(1, 2))
    objective = jnp.mean(batch.share * gain, axis=(1, 2)) + bonuses * entropies
    return -jnp.sum(objective), entropies, logits


def critic_loss(critic: PairCritic, grid: PairGrid, batch: CriticBatch) -> Scalar:
    """Mean squared distance to the targets, every pair weighted equally."""
    share = grid.cell_shares()[:, None] if batch.share is None else batch.share
    if batch.fresh is None or batch.teammates is None:
        identity = critic.identity(grid.best_responses(), grid.teammates())
        values = critic.unroll(batch.observations, batch.memory, None, identity[:, None])
    else:
        teammates = batch.teammates[:, 0]
        best_responses = jnp.broadcast_to(jnp.arange(grid.rows)[:, None], teammates.shape)
        identity = critic.identity(best_responses, teammates)
        observations, fresh = members_first(batch.observations), members_first(batch.fresh)
        values = members_first(critic.unroll(observations, batch.memory, fresh, identity))
    return jnp.mean(share * jnp.square(values - batch.target))


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


def minibatch_order(key: PRNGKey, size: int, settings: GenerateSettings) -> Int[Array, "n t"]:
    """Which steps, or environments, each optimiser step learns from: every epoch has all of them, in another order."""
    orders = jax.vmap(lambda k: jax.random.permutation(k, size))(jax.random.split(key, settings.epochs))
    return orders.reshape(-1, size // settings.minibatches)


def take_part(batch: Batch, chosen: Int[Array, "n"], settings: GenerateSettings, *, recurrent: bool) -> Batch:
    """A part of a rollout, of every pair: some steps, or some environments where memory runs along the steps.

    All of it, as it lies, where there is only one part.
    """
    if settings.minibatches == 1:
        return batch
    if not recurrent:
        return jax.tree.map(lambda x: x[:, chosen], batch)

    def environments(part: SeatBatch | CriticBatch) -> SeatBatch | CriticBatch:
        memory = jax.tree.map(lambda x: x[:, chosen], part.memory)
        return jax.tree.map(lambda x: x[:, :, chosen], part._replace(memory=()))._replace(memory=memory)

    return Batch(*map(environments, batch))  # pyright: ignore[reportArgumentType]
