"""Prefix cells: episodes whose first steps are played by another pair, so that only what follows the switch is data.

Cross-play after a self-play prefix is what ADVERSITY (Cui et al. 2023) and self-play after mixed play what CoMeDi
(Sarkar et al. 2023) learn from: a policy cannot tell from its history that its partner has changed.

Policies of prefixes are gathered once per rollout, one pair for every cell, and act in a batched product over cells.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.base import Environment
from coverset.envs.seats import for_team, join_seats, split_seats, team_axis
from coverset.learning.losses import sample_actions
from coverset.policies.network import clear_memory, initial_memories
from coverset.policy import mask_logits
from coverset.teammates.method import Prefix
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PRNGKey, PyTree

PREFIX_STREAM = 17
"""Folded into a rollout's key: a run without prefixes draws the same numbers whether or not this file exists."""


class PrefixPlay(NamedTuple):
    """Where the episodes under way stand."""

    clock: Int[Array, "R B"]
    """Steps since the start of the episode."""
    switch: Int[Array, "R B"]
    """The step from which on the cell's own pair plays."""
    memories: tuple[PyTree, PyTree]
    """What both prefix policies remember, [R, C, n], with an axis of seats where the team has several."""


class PrefixDraws(NamedTuple):
    """Random numbers of one step."""

    uniforms: Float[Array, "*t R B seats"]
    """For the prefix policies' actions."""
    own: Bool[Array, "*t R B seats"]
    """Whether a seat's own action is played although it is the prefix."""
    switch: Int[Array, "*t R B"]
    """The switch of the episode that starts if this step ends one."""


def start_prefixes(
    key: PRNGKey, environment: Environment, grid: PairGrid, networks: Networks, prefix: Prefix
) -> PrefixPlay:
    """Fresh episodes.

    Args:
      key: of the random numbers.
      environment: the game.
      grid: the pair grid.
      networks: of all policies.
      prefix: who plays the first steps of which cells.
    """
    memories = _initial_memories(networks, environment, (grid.rows, grid.columns, grid.per_pair))
    clock = jnp.zeros((grid.rows, grid.row_size), jnp.int32)
    return PrefixPlay(
        clock, _draw_switches(jax.random.fold_in(key, PREFIX_STREAM), environment, grid, prefix, ()), memories
    )


def draw_prefixes(key: PRNGKey, environment: Environment, grid: PairGrid, prefix: Prefix, length: int) -> PrefixDraws:
    """Random numbers of a whole rollout.

    Args:
      key: of the random numbers.
      environment: the game.
      grid: the pair grid.
      prefix: who plays the first steps of which cells.
      length: number of steps.
    """
    action_key, own_key, switch_key = jax.random.split(jax.random.fold_in(key, PREFIX_STREAM), 3)
    shape = (length, grid.rows, grid.row_size, environment.num_seats)
    return PrefixDraws(
        jax.random.uniform(action_key, shape),
        jax.random.uniform(own_key, shape) < prefix.own_action_probability,
        _draw_switches(switch_key, environment, grid, prefix, (length,)),
    )


def _draw_switches(
    key: PRNGKey, environment: Environment, grid: PairGrid, prefix: Prefix, leading: tuple[int, ...]
) -> Int[Array, "*t R B"]:
    """Uniform over the steps up to the longest prefix; 0 where there is none.

    There is none in cells whose prefix is their own pair, in extra self-play, and in episodes drawn to have none.
    """
    shape = (*leading, grid.rows, grid.row_size)
    longest = jnp.maximum(1.0, jnp.round(prefix.longest_share * environment.horizon)).astype(jnp.int32)
    drawn = jax.random.randint(key, shape, 0, longest)
    begins = jax.random.uniform(jax.random.fold_in(key, 1), shape) < prefix.probability
    rows, columns = jnp.meshgrid(jnp.arange(grid.rows), jnp.arange(grid.columns), indexing="ij")
    has_prefix = (prefix.best_responses != rows) | (prefix.teammates != columns)
    in_cell = jnp.arange(grid.row_size) < grid.columns * grid.per_pair
    switching = grid.spread(has_prefix) & in_cell[None]
    return jnp.where(jnp.broadcast_to(switching, shape) & begins, drawn, 0)


def gather_prefix_networks(networks: Networks, prefix: Prefix) -> tuple[PyTree, PyTree]:
    """Both policies of every cell's prefix, stacked [R, C]."""
    rows = jax.tree.map(lambda x: x[prefix.best_responses], networks.best_responses)
    return rows, jax.tree.map(lambda x: x[prefix.teammates], networks.teammates)


def play_prefixes(
    gathered: tuple[PyTree, PyTree],
    grid: PairGrid,
    play: PrefixPlay,
    draws: PrefixDraws,
    seen: tuple[tuple[Array, Array], tuple[Array | None, Array | None]],
    own_actions: Int[Array, "R B seats"],
) -> tuple[Int[Array, "R B seats"], PrefixPlay]:
    """The actions that are played: the prefix policies' before the switch, but for those drawn to be the cell's own.

    Args:
      gathered: both prefix policies of every cell, from `gather_prefix_networks`.
      grid: the pair grid.
      play: where the episodes under way stand.
      draws: random numbers of this step.
      seen: what both sides observe, and their legal actions.
      own_actions: what the cell's own pair would do.
    """
    actions, memories = [], []
    uniforms, own = split_seats(draws.uniforms), split_seats(own_actions)
    for networks, memory, *side in zip(gathered, play.memories, *seen, uniforms, own, strict=True):
        observed, legal, drawn, otherwise = side
        chosen, memory = _act_in_cells(networks, grid, memory, (observed, legal, drawn))
        actions.append(jnp.concatenate([chosen, otherwise[:, chosen.shape[1] :]], axis=1))
        memories.append(memory)
    before = (play.clock < play.switch)[..., None] & ~draws.own
    return jnp.where(before, join_seats(*actions), own_actions), play._replace(memories=tuple(memories))


def _act_in_cells(networks: PyTree, grid: PairGrid, memory: PyTree, side: tuple) -> tuple[Array, PyTree]:
    """Actions [R, C n, ...] of one side's prefix policies, from observations, legal actions and uniform draws."""
    observed, legal, uniforms = jax.tree.map(lambda x: _by_cell(grid, x), side)
    logits, memory = jax.vmap(jax.vmap(type(networks).step))(networks, observed, memory)
    chosen = sample_actions(mask_logits(logits, legal), uniforms, legal)
    return chosen.reshape(grid.rows, -1, *chosen.shape[3:]), memory


def continue_prefixes(
    play: PrefixPlay,
    networks: Networks,
    environment: Environment,
    grid: PairGrid,
    draws: PrefixDraws,
    ended: Bool[Array, "R B"],
) -> PrefixPlay:
    """One step later; where an episode ended, another begins with a switch of its own.

    Args:
      play: where the episodes under way stand.
      networks: of all policies.
      environment: the game.
      grid: the pair grid.
      draws: random numbers of this step.
      ended: where an episode has just ended.
    """
    ended_cells = _by_cell(grid, ended)
    initial = _initial_memories(networks, environment, ended_cells.shape)
    cleared = (ended_cells, for_team(environment, ended_cells))
    memories = tuple(map(clear_memory, play.memories, initial, cleared))
    return PrefixPlay(
        clock=jnp.where(ended, 0, play.clock + 1),
        switch=jnp.where(ended, draws.switch, play.switch),
        memories=memories,
    )


def _initial_memories(networks: Networks, environment: Environment, cells: tuple[int, ...]) -> tuple[PyTree, PyTree]:
    """Of both sides, in environments of these axes."""
    team = initial_memories(networks.teammates, *cells, *team_axis(environment))
    return initial_memories(networks.best_responses, *cells), team


def _by_cell(grid: PairGrid, rows: Array) -> Array:
    """[R, B, ...] -> [R, C, n, ...], without extra self-play."""
    size = grid.columns * grid.per_pair
    return rows[:, :size].reshape(grid.rows, grid.columns, grid.per_pair, *rows.shape[2:])
