"""AgentInteraction of Algorithm 1, in every cell of the pair grid at once."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from coverset.envs.base import Environment, autoreset
from coverset.envs.seats import (
    action_mask,
    followed_conventions,
    for_team,
    has_common_reward,
    join_seats,
    seating,
    split_seats,
    team_axis,
)
from coverset.learning.losses import log_probabilities, sample_actions
from coverset.learning.vectorised import over_grid
from coverset.policies.network import Network, clear_memory, initial_memories
from coverset.policy import mask_logits
from coverset.teammates.method import Prefix
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.prefixes import (
    continue_prefixes,
    draw_prefixes,
    gather_prefix_networks,
    play_prefixes,
    start_prefixes,
)
from coverset.types import Outcome, PRNGKey, PyTree


class Memories(NamedTuple):
    """What recurrent policies remember of the episodes under way; nothing, where networks have no memory."""

    best_responses: PyTree
    """[R, B]."""
    teammates: PyTree
    """[C, D] or [C, D, S]: grouped by teammate."""


class Playing(NamedTuple):
    """Episodes under way on the grid; axes [R, B]."""

    env_states: PyTree
    returns: Float[Array, "R B"]
    """Undiscounted return so far, of the steps that are data."""
    fresh: Bool[Array, "R B"]
    """Whether an episode starts."""
    memories: Memories
    prefixes: PyTree
    """`PrefixPlay`, where episodes begin with another pair; else nothing."""


class Steps(NamedTuple):
    """A rollout over the grid; axes [T, R, B], with an axis of seats where all matter."""

    observations: Float[Array, "*t R B seats d"]
    actions: Int[Array, "*t R B seats"]
    log_p: Float[Array, "*t R B seats"]
    reward: Float[Array, "*t R B"]
    """The ego's."""
    terminated: Bool[Array, "*t R B"]
    truncated: Bool[Array, "*t R B"]
    final_observations: Float[Array, "*t R B seats d"]
    """Observations of the state that the step led to, before any reset."""
    fresh: Bool[Array, "*t R B"]
    """Whether an episode starts with this step."""
    is_data: Bool[Array, "*t R B"] | None
    """Whether the cell's own pair plays, where episodes begin with another pair; None where everything is data."""
    team_rewards: Float[Array, "*t R B S"] | None = None
    """Rewards of all seats but the ego's; None where all seats share one."""
    legal: Bool[Array, "*t R B seats a"] | None = None
    """Legal actions; None where nothing is masked."""
    shaping: Float[Array, "*t R B"] | None = None
    """The game's shaped reward; None where it has none."""


class Tally(NamedTuple):
    """Sums over the episodes that ended."""

    episodes: Float[Array, "*u R teams"]
    returns: Float[Array, "*u R teams"]
    """The ego's."""
    conventions: Float[Array, "*u 2 K c"]
    """How often best response (first) and teammate of each matched pair followed each convention in self-play."""


Sides: TypeAlias = tuple[Array, Array]
"""An array of the ego's side, [R, B, ...], and one of the team's, [R, B, ...], or [R, B, S, ...] with several seats."""


def grid_logits(networks: Networks, grid: PairGrid, observations: Sides, memories: Memories) -> tuple[Sides, Memories]:
    """Two batched products: all best responses on their rows, all teammates on their columns."""
    rows, row_memory = _step_members(networks.best_responses, observations[0], memories.best_responses)
    seen = grid.by_teammate(observations[1])
    columns, column_memory = _step_members(networks.teammates, seen, memories.teammates)
    return (rows, grid.by_best_response(columns)), Memories(row_memory, column_memory)


def _step_members(networks: Network, observations: Float[Array, "K n *s d"], memory: PyTree) -> tuple[Array, PyTree]:
    """Every member of a population acts in its own environments."""
    return jax.vmap(type(networks).step)(networks, observations, memory)


def start_playing(
    key: PRNGKey, environment: Environment, grid: PairGrid, networks: Networks, prefix: Prefix | None = None
) -> Playing:
    """A fresh episode in every environment of the grid.

    Args:
      key: of the random numbers.
      environment: the game.
      grid: the pair grid.
      networks: of all policies.
      prefix: who plays the first steps of which cells.
    """
    shape = (grid.rows, grid.row_size)
    prefixes = () if prefix is None else start_prefixes(key, environment, grid, networks, prefix)
    return Playing(
        env_states=over_grid(environment.reset)(jax.random.split(key, shape)),
        returns=jnp.zeros(shape),
        fresh=jnp.ones(shape, bool),
        memories=_initial_memories(networks, environment, grid),
        prefixes=prefixes,
    )


def _initial_memories(networks: Networks, environment: Environment, grid: PairGrid) -> Memories:
    return Memories(
        initial_memories(networks.best_responses, grid.rows, grid.row_size),
        initial_memories(networks.teammates, grid.columns, grid.column_size, *team_axis(environment)),
    )


def collect(
    key: PRNGKey,
    environment: Environment,
    grid: PairGrid,
    networks: Networks,
    playing: Playing,
    *,
    length: int,
    prefix: Prefix | None = None,
    act: Callable[..., tuple[Sides, Memories]] = grid_logits,
) -> tuple[Steps, Tally, Playing]:
    """Play some steps in every environment.

    All random numbers and fresh starts are drawn in one go: a draw per step would cost more than the step.

    Args:
      key: of the random numbers.
      environment: the game.
      grid: who plays with whom.
      networks: of all policies.
      playing: the episodes under way.
      length: number of steps.
      prefix: who plays the first steps of episodes, where that is another pair.
      act: computes what `grid_logits` does.
    """
    shape = (length, grid.rows, grid.row_size)
    action_key, reset_key, step_key = jax.random.split(key, 3)
    draws = (
        jax.random.uniform(action_key, (*shape, environment.num_seats)),
        jax.vmap(over_grid(environment.reset))(jax.random.split(reset_key, shape)),
        jax.random.split(step_key, shape),
        None if prefix is None else draw_prefixes(key, environment, grid, prefix, length),
    )
    seats = seating(environment)
    gathered = None if prefix is None else gather_prefix_networks(networks, prefix)

    def play(playing: Playing, draw) -> tuple[Playing, tuple[Steps, Tally]]:
        uniforms, fresh_states, step_keys, prefix_draws = draw
        observations = over_grid(environment.observe)(playing.env_states)
        legal = over_grid(partial(action_mask, environment))(playing.env_states)
        seen, masks = seats.observations(observations), seats.mask(legal)
        logits, memories = act(networks, grid, seen, playing.memories)
        logits = mask_logits(logits[0], masks[0]), mask_logits(logits[1], masks[1])
        actions = join_seats(*map(sample_actions, logits, split_seats(uniforms), masks))
        prefixes, is_data = playing.prefixes, None
        if gathered is not None:
            is_data = prefixes.clock >= prefixes.switch
            actions, prefixes = play_prefixes(gathered, grid, prefixes, prefix_draws, (seen, masks), actions)
        step, outcome = _take_step(environment, playing, (observations, legal), logits, actions, step_keys, is_data)
        returns = playing.returns + (step.reward if is_data is None else jnp.where(is_data, step.reward, 0.0))
        ended = step.terminated | step.truncated
        following = Playing(
            env_states=over_grid(autoreset)(outcome, fresh_states),
            returns=jnp.where(ended, 0.0, returns),
            fresh=ended,
            memories=_clear_memories(memories, networks, environment, grid, ended),
            prefixes=()
            if gathered is None
            else continue_prefixes(prefixes, networks, environment, grid, prefix_draws, ended),
        )
        return following, (step, _tally(environment, grid, outcome, returns))

    playing, (steps, tallies) = jax.lax.scan(play, playing, draws)
    return steps, jax.tree.map(lambda x: x.sum(axis=0), tallies), playing


def _clear_memories(
    memories: Memories, networks: Networks, environment: Environment, grid: PairGrid, ended: Bool[Array, "R B"]
) -> Memories:
    """Policies forget an episode when it ends.

    Args:
      memories: after the step.
      networks: of all policies.
      environment: the game.
      grid: who plays with whom.
      ended: where the step ended an episode.
    """
    initial = _initial_memories(networks, environment, grid)
    return Memories(
        clear_memory(memories.best_responses, initial.best_responses, ended),
        clear_memory(memories.teammates, initial.teammates, grid.to_seats(ended, partial(for_team, environment))),
    )


def _take_step(
    environment: Environment,
    playing: Playing,
    seen: tuple[Float[Array, "R B seats d"], Bool[Array, "R B seats a"] | None],
    logits: Sides,
    actions: Int[Array, "R B seats"],
    keys: Key[Array, "R B"],
    is_data: Bool[Array, "R B"] | None,
) -> tuple[Steps, Outcome]:
    outcome = over_grid(environment.step)(keys, playing.env_states, actions)
    common = has_common_reward(environment)
    step = Steps(
        observations=seen[0],
        actions=actions,
        log_p=join_seats(*map(log_probabilities, logits, split_seats(actions))),
        reward=outcome.reward if common else outcome.reward[..., 0],
        team_rewards=None if common else outcome.reward[..., 1:],
        legal=seen[1],
        terminated=outcome.terminated,
        truncated=outcome.truncated,
        final_observations=over_grid(environment.observe)(outcome.state),
        fresh=playing.fresh,
        is_data=is_data,
        shaping=outcome.shaping,
    )
    return step, outcome


def _tally(environment: Environment, grid: PairGrid, outcome: Outcome, returns: Float[Array, "R B"]) -> Tally:
    ended = (outcome.terminated | outcome.truncated).astype(jnp.float32)
    num_conventions = len(environment.conventions) + 1
    followed = over_grid(partial(followed_conventions, environment))(outcome.state)

    def count(side: int) -> Float[Array, "K c"]:
        counted = ended[..., None] * jax.nn.one_hot(followed[..., side], num_conventions)
        return jax.vmap(grid.cell_sums, in_axes=-1, out_axes=-1)(counted)[grid.pairs()]

    return Tally(grid.cell_sums(ended), grid.cell_sums(ended * returns), jnp.stack([count(0), count(1)]))
