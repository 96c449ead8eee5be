"""AgentInteraction of Algorithm 1, in every cell of the pair grid at once."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from coverset.envs.base import Environment, autoreset
from coverset.learning.losses import log_probabilities, sample_actions
from coverset.learning.vectorised import over_grid
from coverset.policies.networks.dense import MLP
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.types import Outcome, PairMatrix, PRNGKey, PyTree


class Playing(NamedTuple):
    """Episodes under way on the grid; axes [K, B]."""

    env_states: PyTree
    returns: Float[Array, "K B"]
    """Undiscounted return so far."""


class Steps(NamedTuple):
    """A rollout over the grid; axes [T, K, B], with two seats where both matter."""

    observations: Float[Array, "*t K B 2 d"]
    actions: Int[Array, "*t K B 2"]
    log_p: Float[Array, "*t K B 2"]
    reward: Float[Array, "*t K B"]
    terminated: Bool[Array, "*t K B"]
    truncated: Bool[Array, "*t K B"]
    final_observations: Float[Array, "*t K B 2 d"]
    """Observations of the state that the step led to, before any reset."""


class Tally(NamedTuple):
    """Sums over the episodes that ended."""

    episodes: PairMatrix
    returns: PairMatrix
    conventions: Float[Array, "2 K c"]
    """How often best response i (first) and teammate i followed each convention in their self-play."""


Logits: TypeAlias = tuple[Float[Array, "K B a0"], Float[Array, "K B a1"]]
"""Of both seats' actions in every environment of the grid."""


def grid_logits(networks: Networks, grid: PairGrid, observations: Float[Array, "K B 2 d"]) -> Logits:
    """Two batched products: all best responses on their rows, all teammates on their columns."""
    rows = jax.vmap(MLP.__call__)(networks.best_responses, observations[:, :, 0])
    columns = jax.vmap(MLP.__call__)(networks.teammates, grid.by_teammate(observations[:, :, 1]))
    return rows, grid.by_teammate(columns)


def start_playing(key: PRNGKey, environment: Environment, grid: PairGrid) -> Playing:
    """A fresh episode in every environment of the grid."""
    shape = (grid.population_size, grid.row_size)
    return Playing(over_grid(environment.reset)(jax.random.split(key, shape)), jnp.zeros(shape))


def collect(
    key: PRNGKey,
    environment: Environment,
    grid: PairGrid,
    networks: Networks,
    playing: Playing,
    *,
    length: int,
    act: Callable[..., Logits] = grid_logits,
) -> tuple[Steps, Tally, Playing]:
    """Play `length` steps in every environment; `act` computes what `grid_logits` does.

    All random numbers and fresh starts are drawn in one go: a draw per step would cost more than the step.
    """
    shape = (length, grid.population_size, grid.row_size)
    action_key, reset_key, step_key = jax.random.split(key, 3)
    draws = (
        jax.random.uniform(action_key, (*shape, 2)),
        jax.vmap(over_grid(environment.reset))(jax.random.split(reset_key, shape)),
        jax.random.split(step_key, shape),
    )

    def play(playing: Playing, draw) -> tuple[Playing, tuple[Steps, Tally]]:
        uniforms, fresh_states, step_keys = draw
        step, outcome = _play_step(environment, partial(act, networks, grid), playing.env_states, uniforms, step_keys)
        returns = playing.returns + step.reward
        tally = _tally(environment, grid, outcome, returns)
        going_on = ~(step.terminated | step.truncated)
        return Playing(over_grid(autoreset)(outcome, fresh_states), returns * going_on), (step, tally)

    playing, (steps, tallies) = jax.lax.scan(play, playing, draws)
    return steps, jax.tree.map(lambda x: x.sum(axis=0), tallies), playing


def _play_step(
    environment: Environment,
    act: Callable[..., Logits],
    env_states: PyTree,
    uniforms: Float[Array, "K B 2"],
    keys: Key[Array, "K B"],
) -> tuple[Steps, Outcome]:
    observations = over_grid(environment.observe)(env_states)
    logits = act(observations)
    actions = [sample_actions(logits[seat], uniforms[:, :, seat]) for seat in (0, 1)]
    log_p = [log_probabilities(logits[seat], actions[seat]) for seat in (0, 1)]
    joint = jnp.stack(actions, axis=-1)
    outcome = over_grid(environment.step)(keys, env_states, joint)
    step = Steps(
        observations=observations,
        actions=joint,
        log_p=jnp.stack(log_p, axis=-1),
        reward=outcome.reward,
        terminated=outcome.terminated,
        truncated=outcome.truncated,
        final_observations=over_grid(environment.observe)(outcome.state),
    )
    return step, outcome


def _tally(environment: Environment, grid: PairGrid, outcome: Outcome, returns: Float[Array, "K B"]) -> Tally:
    ended = (outcome.terminated | outcome.truncated).astype(jnp.float32)
    in_self_play = ended * (grid.best_responses() == grid.teammates())
    num_conventions = len(environment.conventions) + 1
    followed = [over_grid(partial(environment.convention, seat=seat))(outcome.state) for seat in (0, 1)]
    counts = [jnp.einsum("kb,kbc->kc", in_self_play, jax.nn.one_hot(index, num_conventions)) for index in followed]
    return Tally(grid.cell_sums(ended), grid.cell_sums(ended * returns), jnp.stack(counts))
