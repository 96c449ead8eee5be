"""What every population learns from: a rollout with its advantages and targets, each policy's data in one block.

`teammates.ppo` has the objective of which these are the factors.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.seats import Seating, split_seats
from coverset.learning.returns import advantages
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Steps
from coverset.teammates.critic import PairCritic, Values
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PRNGKey, PyTree

SMALLEST_SCALE = 1e-6
TINY = 1e-30
"""In place of it where nothing may depend on the scale of rewards."""


class SeatBatch(NamedTuple):
    """What one population learns from; a policy's own data in its own row.

    Axes are [K, T, B], and a last one of seats, s, for teammates that play several.
    """

    observations: Float[Array, "K t B *s d"]
    actions: Int[Array, "K t B *s"]
    log_p: Float[Array, "K t B *s"]
    weighted_advantage: Float[Array, "K t B *s"]
    share: Float[Array, "K t B *s"]
    legal: Bool[Array, "K t B *s a"] | None
    """Legal actions; None where nothing is masked."""
    fresh: Bool[Array, "K t B *s"] | None
    """Where episodes start; None for networks without memory."""
    memory: PyTree
    """Before the rollout, [K, B]."""


class CriticBatch(NamedTuple):
    """What the critic learns from; axes [R, T, B]."""

    observations: Float[Array, "R t B seats d"]
    target: Float[Array, "R t B *h"]
    """With an axis of heads where the critic has several."""
    share: Float[Array, "R t B"] | None
    """None where it is that of the grid's cells, the same at all steps."""
    fresh: Bool[Array, "R t B"] | None
    teams: Int[Array, "R 1 B"] | None
    """Index of every environment's team; None where the batch holds all environments, as they lie."""
    memory: PyTree


class Batch(NamedTuple):
    """One rollout, as each of the learners sees it."""

    best_responses: SeatBatch
    teammates: SeatBatch
    critic: CriticBatch


def estimate(
    grid: PairGrid,
    critic: PairCritic,
    steps: Steps,
    memory: PyTree,
    settings: GenerateSettings,
    bonus: Float[Array, "T R B"] | None = None,
) -> tuple[Float[Array, "T R B *h"], Float[Array, "T R B *h"], PyTree]:
    """Advantages of a rollout by a critic, the value targets that go with them, and the critic's memory after it.

    Advantages have an axis of heads where the critic has: the ego's first, then those of the teammates' objectives.

    Args:
      grid: the pair grid.
      critic: estimates values.
      steps: a rollout.
      memory: of the critic, before the rollout.
      settings: of the run.
      bonus: what the method and the game's shaping add to the reward of every step, if anything.
    """
    identity = critic.identity(grid.best_responses(), grid.teams())
    values: Values = critic.evaluate(steps.observations, steps.final_observations, memory, steps.fresh, identity)
    of_return = partial(advantages, discount=settings.discount, decay=settings.gae_lambda)
    if values.present.ndim > steps.reward.ndim:
        rewards = objective_rewards(steps, bonus, settings)
        of_return = jax.vmap(of_return, in_axes=(-1, -1, -1, None, None), out_axes=-1)
    else:
        rewards = _add_bonus(steps.reward, bonus)
    advantage = of_return(rewards, values.present, values.following, steps.terminated, steps.truncated)
    return advantage, advantage + values.present, values.memory


def _add_bonus(reward: Float[Array, "T R B"], bonus: Float[Array, "T R B"] | None) -> Float[Array, "T R B"]:
    return reward if bonus is None else reward + bonus


def add_rewards(one: Float[Array, "T R B"] | None, other: Float[Array, "T R B"] | None) -> Float[Array, "T R B"] | None:
    """The sum of two additional rewards, each of which may be missing."""
    return other if one is None else _add_bonus(one, other)


def objective_rewards(
    steps: Steps, bonus: Float[Array, "T R B"] | None, settings: GenerateSettings
) -> Float[Array, "T R B seats"]:
    """What each seat maximises in self-play: the ego its reward, teammates theirs, scaled and mixed with the ego's."""
    assert steps.team_rewards is not None
    ego, share = _add_bonus(steps.reward, bonus), settings.ego_reward_share
    own = settings.own_reward_scale * steps.team_rewards
    own = own if bonus is None else own + bonus[..., None]
    return jnp.concatenate([ego[..., None], (1.0 - share) * own + share * ego[..., None]], axis=-1)


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
    return jnp.sqrt(per_env.mean(axis=1)), jnp.sqrt(grid.teammate_means(per_env))


def largest_weights(weights: Float[Array, "K P"]) -> Float[Array, "K"]:
    """The unit of each policy's objective: its largest weight, w_ii in the paper's methods; never zero."""
    largest = jnp.max(weights, axis=1)
    magnitude = jnp.maximum(jnp.max(jnp.abs(weights), axis=1), SMALLEST_SCALE)
    return jnp.where(largest > 0.0, largest, magnitude)


def weighted_advantages(
    side: int, grid: PairGrid, advantage: Float[Array, "T R B *h"], weights: Float[Array, "R teams"]
) -> Float[Array, "T R B *s"]:
    """w_ij A_ij; for teammates with an objective of their own, w_ij A_ij + [i = j] (A^U_ij - A_ij), for each seat."""
    ego = _ego_advantage(advantage)
    weighted = ego * grid.spread(weights)[None]
    if (importance := grid.importance(side)) is not None:
        weighted = weighted * importance[None]
    if side == 0 or advantage.ndim == ego.ndim:
        return weighted
    in_self_play = grid.in_self_play().astype(jnp.float32)[None, :, :, None]
    by_seat = weighted[..., None] + in_self_play * (advantage[..., 1:] - ego[..., None])
    return by_seat[..., 0] if by_seat.shape[-1] == 1 else by_seat


def _ego_advantage(advantage: Float[Array, "T R B *h"]) -> Float[Array, "T R B"]:
    return advantage[..., 0] if advantage.ndim > 3 else advantage


def _magnitude(side: int, advantage: Float[Array, "T R B *h"]) -> Float[Array, "T R B"]:
    """The size of what a side's policies weigh: the ego's advantage, for teammates together with their own."""
    if side == 0 or advantage.ndim == 3:
        return _ego_advantage(advantage)
    return jnp.sqrt(jnp.mean(jnp.square(advantage), axis=-1))


def normalising_scale(
    side: int,
    grid: PairGrid,
    steps: Steps,
    advantage: Float[Array, "T R B *h"],
    settings: GenerateSettings,
    last_scale: Float[Array, "K"] | None = None,
) -> Float[Array, "K"]:
    """s_i of `teammates.ppo`: what every policy's advantages are divided by with `normalise_advantages`.

    Args:
      side: 0 for best responses, 1 for teammates.
      grid: the pair grid.
      steps: a rollout.
      advantage: of its steps.
      settings: of the run.
      last_scale: the result of the update before; not needed without `advantage_scale_memory`.
    """
    shares = None if steps.is_data is None else data_shares(grid, steps)
    scale = advantage_scales(grid, _magnitude(side, advantage), shares)[side]
    if last_scale is None or not settings.advantage_scale_memory:
        return scale + SMALLEST_SCALE
    return jnp.maximum(jnp.maximum(scale, settings.advantage_scale_memory * last_scale), TINY)


def seat_batch(
    side: int,
    seats: Seating,
    grid: PairGrid,
    steps: Steps,
    advantage: Float[Array, "T R B *h"],
    weights: Float[Array, "R teams"],
    memory: PyTree,
    settings: GenerateSettings,
    *,
    scale: Float[Array, "K"] | None = None,
    recurrent: bool = False,
) -> SeatBatch:
    """One population's own data; the pair weight multiplies the advantage (Algorithm 1) and touches nothing else.

    Args:
      side: 0 for best responses, 1 for teammates.
      seats: who sits where.
      grid: the pair grid.
      steps: a rollout.
      advantage: of its steps.
      weights: of the pairs, as this population sees them, and of mixed teams if there are any.
      memory: of its networks, before the rollout.
      settings: of the run.
      scale: what each policy's advantages are divided by with `normalise_advantages`; that of this rollout by default.
      recurrent: whether its networks have memory.
    """
    view = jax.vmap(grid.by_teammate) if side else (lambda x: x)
    to_seats = jax.vmap(lambda x: grid.to_seats(x, seats.for_team)) if side else (lambda x: x)
    shares = data_shares(grid, steps)
    legal = seats.mask(steps.legal)[side]
    weighted = weighted_advantages(side, grid, advantage, weights)
    weighted = (to_seats if weighted.ndim == shares.ndim else view)(weighted)
    per_member = (None, slice(None), *(None,) * (weighted.ndim - 2))
    if settings.normalise_advantages:
        scale = normalising_scale(side, grid, steps, advantage, settings) if scale is None else scale
        weighted = weighted / scale[per_member]
    if settings.normalise_pair_weights:
        pair_weights, _ = grid.split_teams(weights)
        weighted = weighted / largest_weights(pair_weights.T if side else pair_weights)[per_member]
    return SeatBatch(
        observations=members_first(view(seats.observations(steps.observations)[side])),
        actions=members_first(view(split_seats(steps.actions)[side])),
        log_p=members_first(view(split_seats(steps.log_p)[side])),
        weighted_advantage=members_first(weighted),
        share=members_first(to_seats(shares)),
        legal=None if legal is None else members_first(view(legal)),
        fresh=members_first(to_seats(steps.fresh)) if recurrent else None,
        memory=memory,
    )


def critic_batch(
    grid: PairGrid, steps: Steps, target: Float[Array, "T R B *h"], memory: PyTree, *, recurrent: bool = False
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
        teams=grid.teams()[:, None] if recurrent else None,
        memory=memory,
    )


def members_first(x: Array) -> Array:
    """[T, K, B, ...] -> [K, T, B, ...]: a policy's data becomes one contiguous block."""
    return jnp.swapaxes(x, 0, 1)


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
