"""The baseline of `coverset bench`: the same update without the pair grid.

Parameters are gathered for every environment, and every policy's loss runs over the data of all policies, masked to its
own: the plain way to train 2K policies in one program, as public implementations of these methods do. Networks, data
and gradients equal those of the pair grid; only the amount of arithmetic and memory traffic differs.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities
from coverset.policies.network import Network
from coverset.teammates.batches import Batch, SeatBatch
from coverset.teammates.collect import Memories, Sides
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.ppo import Losses, MethodLoss, critic_loss
from coverset.teammates.trainer import Arithmetic
from coverset.types import Scalar


def gathered_logits(
    networks: Networks, grid: PairGrid, observations: Sides, memories: Memories
) -> tuple[Sides, Memories]:
    """Logits of every environment from its own copy of its two policies' parameters."""
    first, second = (seen.reshape(-1, seen.shape[-1]) for seen in observations)
    rows = _act(networks.best_responses, grid.best_responses().reshape(-1), first)
    columns = _act(networks.teammates, grid.teammates().reshape(-1), second)
    shape = observations[0].shape[:2]
    return (rows.reshape(*shape, -1), columns.reshape(*shape, -1)), memories


def _act(actors: Network, member: Int[Array, "N"], observations: Float[Array, "N d"]) -> Float[Array, "N a"]:
    own = jax.tree.map(lambda x: x[member], actors)
    return jax.vmap(lambda actor, seen: actor.step(seen, ())[0])(own, observations)


def masked_loss(
    networks: Networks,
    grid: PairGrid,
    batch: Batch,
    bonuses: tuple[Array, Array],
    clip: float,
    method_loss: MethodLoss | None = None,
) -> tuple[Scalar, Losses]:
    """The value of `ppo.grid_loss`, with every actor's loss masked from the data of all actors.

    Args:
      networks: actors and critic.
      grid: the pair grid that the batch comes from.
      batch: a minibatch of all pairs.
      bonuses: entropy weights of the best responses and of the teammates.
      clip: clipping range of the probability ratio.
      method_loss: ignored; the compared methods have none.
    """
    del method_loss
    row_loss, row_entropy = masked_actor_loss(networks.best_responses, batch.best_responses, bonuses[0], clip)
    column_loss, column_entropy = masked_actor_loss(networks.teammates, batch.teammates, bonuses[1], clip)
    value_loss = critic_loss(networks.critic, grid, batch.critic)
    return row_loss + column_loss + value_loss, Losses((row_entropy, column_entropy), value_loss, {})


def masked_actor_loss(
    actors: Network, batch: SeatBatch, bonuses: Float[Array, "*k"], clip: float
) -> tuple[Scalar, Float[Array, "K"]]:
    """The value of `ppo.actor_loss`: each policy is applied to the data of all policies and masked to its own."""
    size, *per_member = batch.actions.shape
    owner = jnp.broadcast_to(jnp.arange(size)[:, None, None], batch.actions.shape)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), batch)
    own_count = per_member[0] * per_member[1]

    def one(actor: Network, member: Int[Array, ""]) -> tuple[Scalar, Scalar]:
        logits, _ = actor.step(flat.observations, ())
        own = owner.reshape(-1) == member
        # Ratios on other policies' data may overflow, and 0 * inf is NaN: mask before computing them.
        log_p = jnp.where(own, log_probabilities(logits, flat.actions), flat.log_p)
        gain = clipped_surrogate(log_p, flat.log_p, flat.weighted_advantage, clip=clip)
        mask = own.astype(jnp.float32) * flat.share / own_count
        return jnp.sum(mask * gain), jnp.sum(mask * entropy(logits))

    gains, entropies = jax.vmap(one)(actors, jnp.arange(size))
    return -jnp.sum(gains + bonuses * entropies), entropies


GATHER_AND_MASK = Arithmetic(gathered_logits, masked_loss)
