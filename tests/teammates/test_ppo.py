"""The weighted objective of every policy: whose data it uses, how much each cell counts, which way it points."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from coverset.envs.seats import Seating, Side
from coverset.learning.losses import log_probabilities
from coverset.policies.network import NetworkSpec
from coverset.policies.networks.dense import MLP
from coverset.settings import GenerateSettings
from coverset.teammates.batches import Batch, SeatBatch, critic_batch, estimate, seat_batch
from coverset.teammates.collect import Steps
from coverset.teammates.critic import PairCritic
from coverset.teammates.method import PairWeights
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.ppo import Losses, Optimised, Pace, actor_loss, critic_loss, improve, init_moments

K, LENGTH, FEATURES, ACTIONS = 3, 2, 2, (3, 2)
GRID = PairGrid(K, K, 2, 1)
SEATS = Seating(0, (1,), *(Side(1, actions, (FEATURES,)) for actions in ACTIONS))
WEIGHTS = jnp.array([[3.0, -0.5, -2.0], [-1.0, 4.0, -0.25], [0.0, -3.0, 2.0]])
CLIP = 0.2
NO_BONUS = jnp.zeros(K)


def settings(**changes: Any) -> GenerateSettings:
    chosen = {"population_size": K, "total_steps": 1, "rollout_length": LENGTH, "envs_per_pair": 2, **changes}
    return GenerateSettings(**chosen)


def draw_networks() -> Networks:
    keys = jax.random.split(jax.random.key(5), 3)
    rows, columns = (
        jax.vmap(lambda key, n=count: MLP.create(key, (FEATURES, 4, n)))(jax.random.split(keys[seat], K))
        for seat, count in enumerate(ACTIONS)
    )
    return Networks(rows, columns, PairCritic.create(keys[2], "dense", NetworkSpec((2 * FEATURES,), 1, (4,)), K, K))


def own_log_p(networks: Networks, grid: PairGrid, observations, actions) -> jax.Array:
    """Log-probabilities of what the pairs did, by gathering each environment's two policies."""

    def one(i, j, seen, done):
        pair = (networks.best_responses, i), (networks.teammates, j)
        members = [jax.tree.map(lambda x, index=index: x[index], stack) for stack, index in pair]
        return jnp.stack([log_probabilities(members[s](seen[s]), done[s]) for s in (0, 1)])

    over_grid = jax.vmap(jax.vmap(one))
    return jax.vmap(lambda seen, done: over_grid(grid.best_responses(), grid.teammates(), seen, done))(
        observations, actions
    )


compiled_log_p = jax.jit(own_log_p, static_argnums=1)


def draw_steps(networks: Networks, grid: PairGrid = GRID, seed: int = 0) -> Steps:
    random = np.random.default_rng(seed)
    shape = (LENGTH, grid.rows, grid.row_size)
    observations, final = random.normal(size=(2, *shape, 2, FEATURES)).astype(np.float32)
    actions = jnp.asarray(np.stack([random.integers(0, n, size=shape) for n in ACTIONS], axis=-1), jnp.int32)
    observations = jnp.asarray(observations)
    return Steps(
        observations=observations,
        actions=actions,
        log_p=compiled_log_p(networks, grid, observations, actions),
        reward=jnp.asarray(random.normal(size=shape), jnp.float32),
        terminated=jnp.asarray(random.random(shape) < 0.3),
        truncated=jnp.zeros(shape, bool),
        final_observations=jnp.asarray(final),
        fresh=jnp.zeros(shape, bool),
        is_data=None,
    )


def actors(networks: Networks, seat: int) -> MLP:
    return networks[seat]


def policy_gradient(networks: Networks, steps: Steps, seat: int, chosen: GenerateSettings) -> MLP:
    advantage, _, _ = estimate(GRID, networks.critic, steps, (), chosen)
    batch = seat_batch(seat, SEATS, GRID, steps, advantage, WEIGHTS, (), chosen)
    return jax.grad(lambda stack: actor_loss(stack, batch, NO_BONUS, CLIP)[0])(actors(networks, seat))


compiled_gradient = jax.jit(policy_gradient, static_argnums=(2, 3))


def member_norms(tree: Any) -> np.ndarray:
    return np.asarray(jax.vmap(optax.tree.norm)(tree))


@pytest.fixture(scope="module")
def networks() -> Networks:
    return draw_networks()


@pytest.fixture(scope="module")
def steps(networks: Networks) -> Steps:
    return draw_steps(networks)


@pytest.mark.parametrize("seat", [0, 1])
def test_data_of_a_pair_moves_its_two_policies_and_no_other(networks: Networks, steps: Steps, seat: int) -> None:
    best_response, teammate = 0, 2
    chosen = settings(normalise_advantages=True)
    before = compiled_gradient(networks, steps, seat, chosen)
    own = (GRID.best_responses() == best_response) & (GRID.teammates() == teammate)
    changed = steps._replace(
        observations=jnp.where(own[:, :, None, None], -steps.observations, steps.observations),
        reward=jnp.where(own, steps.reward + 3.0, steps.reward),
        actions=jnp.where(own[:, :, None], 1 - jnp.minimum(steps.actions, 1), steps.actions),
    )
    moved = member_norms(jax.tree.map(jnp.subtract, compiled_gradient(networks, changed, seat, chosen), before)) > 0
    np.testing.assert_array_equal(moved, np.arange(K) == (best_response, teammate)[seat])


@pytest.mark.parametrize(("seat", "scaled", "relative"), [(0, False, False), (1, False, True), (1, True, False)])
def test_at_ratio_one_the_gradient_is_the_weighted_policy_gradient(networks, steps, seat, scaled, relative) -> None:
    """A loop over environments and steps: w_ij A / (K cells, environments of the cell, steps) times grad log pi."""
    chosen = settings(normalise_advantages=scaled, normalise_pair_weights=relative)
    advantage = np.asarray(estimate(GRID, networks.critic, steps, (), chosen)[0])
    pairs = np.stack([GRID.best_responses(), GRID.teammates()], axis=-1)
    in_cell = {tuple(pair): np.all(pairs == pair, axis=-1) for pair in pairs.reshape(-1, 2).tolist()}
    observations, actions, stack = jax.device_get((steps.observations, steps.actions, actors(networks, seat)))
    wanted = jax.tree.map(np.zeros_like, stack)
    scale = np.zeros(K)
    for pair, where in in_cell.items():
        scale[pair[seat]] += np.mean(np.square(advantage[:, where])) / K
    for t, row, place in np.ndindex(*advantage.shape):
        i, j = pair = tuple(pairs[row, place].tolist())
        member = pair[seat]
        coefficient = float(WEIGHTS[i, j]) * advantage[t, row, place] / (K * in_cell[pair].sum() * LENGTH)
        if scaled:
            coefficient /= np.sqrt(scale[member])
        if relative:
            coefficient /= float(WEIGHTS[member, member])
        policy = jax.tree.map(lambda x, m=member: x[m], stack)
        seen, done = observations[t, row, place, seat], actions[t, row, place, seat]
        direction = jax.device_get(log_p_gradient(policy, seen, done))
        for total, part in zip(jax.tree.leaves(wanted), jax.tree.leaves(direction), strict=True):
            total[member] -= coefficient * part
    found = compiled_gradient(networks, steps, seat, chosen)
    for left, right in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)


@jax.jit
def log_p_gradient(policy: MLP, observation, action) -> MLP:
    return jax.grad(lambda p: log_probabilities(p(observation), action))(policy)


def test_extra_self_play_leaves_the_objective_as_it_is(networks: Networks) -> None:
    """The extra environments repeat the ones of their cell: the same cell means, the same losses."""
    plain, extended = PairGrid(K, K, 1), PairGrid(K, K, 1, 3)
    steps = draw_steps(networks, plain)

    def extend(x):
        own = x[:, jnp.arange(K), jnp.arange(K)][:, :, None]
        return jnp.concatenate([x, own, own, own], axis=2)

    more = jax.tree.map(extend, steps)
    chosen = settings(normalise_advantages=True, envs_per_pair=1)
    losses = [objectives(grid, networks, data, chosen) for grid, data in ((plain, steps), (extended, more))]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@partial(jax.jit, static_argnums=(0, 3))
def objectives(grid: PairGrid, networks: Networks, steps: Steps, chosen: GenerateSettings) -> jax.Array:
    advantage, target, _ = estimate(grid, networks.critic, steps, (), chosen)
    seats = [seat_batch(seat, SEATS, grid, steps, advantage, WEIGHTS, (), chosen) for seat in (0, 1)]
    losses = [actor_loss(actors(networks, s), seats[s], jnp.full(K, 0.3), CLIP)[0] for s in (0, 1)]
    return jnp.stack([*losses, critic_loss(networks.critic, grid, critic_batch(grid, steps, target, ()))])


@jax.jit
def value(critic: PairCritic, pair, observations) -> jax.Array:
    """One pair's value of one joint observation."""
    identity = critic.identity(*(jnp.asarray(index, jnp.int32) for index in pair))
    return critic.step(observations, (), identity)[0]


def test_the_critic_weights_every_pair_equally(networks: Networks, steps: Steps) -> None:
    target = jnp.asarray(np.random.default_rng(1).normal(size=steps.reward.shape), jnp.float32)
    found = critic_loss(networks.critic, GRID, critic_batch(GRID, steps, target, ()))
    errors = np.zeros((LENGTH, K, GRID.row_size))
    rows, columns = np.asarray(GRID.best_responses()), np.asarray(GRID.teammates())
    for place in np.ndindex(*errors.shape):
        pair = rows[place[1:]], columns[place[1:]]
        errors[place] = (value(networks.critic, pair, steps.observations[place]) - target[place]) ** 2
    cells = [np.mean(errors[:, (rows == i) & (columns == j)]) for i in range(K) for j in range(K)]
    np.testing.assert_allclose(found, np.mean(cells), rtol=1e-4)


def test_the_entropy_bonus_weights_every_cell_equally(networks: Networks, steps: Steps) -> None:
    chosen = settings()
    nothing = jnp.zeros(steps.reward.shape)
    batch = seat_batch(1, SEATS, GRID, steps, nothing, WEIGHTS, (), chosen)
    bonuses = jnp.array([0.0, 1.0, 2.0])
    loss, entropies, logits = actor_loss(networks.teammates, batch, bonuses, CLIP)
    np.testing.assert_allclose(loss, -jnp.sum(bonuses * entropies), rtol=1e-5)
    shares = np.asarray(GRID.by_teammate(GRID.cell_shares()))
    np.testing.assert_allclose(logits, jax.vmap(MLP.__call__)(networks.teammates, batch.observations), rtol=1e-5)
    log_p = np.asarray(jax.nn.log_softmax(logits))
    wanted = np.mean(shares[:, None] * -(np.exp(log_p) * log_p).sum(axis=-1), axis=(1, 2))
    np.testing.assert_allclose(entropies, wanted, rtol=1e-5)


@partial(jax.jit, static_argnums=2)
def whole_batch(networks: Networks, steps: Steps, chosen: GenerateSettings) -> Batch:
    advantage, target, _ = estimate(GRID, networks.critic, steps, (), chosen)
    return Batch(
        *(seat_batch(seat, SEATS, GRID, steps, advantage, WEIGHTS, (), chosen) for seat in (0, 1)),
        critic_batch(GRID, steps, target, ()),
    )


@jax.jit
def actor_gradient(stack: MLP, batch: SeatBatch, bonuses: jax.Array) -> MLP:
    return jax.grad(lambda stack: actor_loss(stack, batch, bonuses, CLIP)[0])(stack)


def bonus_settings(*, relative: bool) -> GenerateSettings:
    """One optimiser step, unclipped."""
    return settings(epochs=1, normalise_pair_weights=relative, max_grad_norm=1e6, normalise_advantages=False)


@partial(jax.jit, static_argnums=3)
def improve_once(networks: Networks, batch: Batch, pace: Pace, chosen: GenerateSettings) -> tuple[Optimised, Losses]:
    """The optimiser steps of one rollout, from empty moments."""
    return improve(jax.random.key(0), GRID, init_moments(networks), batch, PairWeights(WEIGHTS, WEIGHTS), pace, chosen)


@pytest.mark.parametrize(("relative", "bonus"), [(True, [0.3] * K), (False, [0.3 * 3, 0.3 * 4, 0.3 * 2])])
def test_the_entropy_bonus_is_measured_in_self_play_weights(
    networks: Networks, steps: Steps, relative: bool, bonus: list[float]
) -> None:
    """After one optimiser step Adam's first moment is a tenth of the gradient."""
    chosen = bonus_settings(relative=relative)
    batch = whole_batch(networks, steps, chosen)
    improved, _ = improve_once(networks, batch, Pace(jnp.float32(0.3), jnp.float32(1.0)), chosen)
    for seat in (0, 1):
        wanted = actor_gradient(networks[seat], batch[seat], jnp.array(bonus))
        for moment, gradient in zip(jax.tree.leaves(improved.moments[seat].mu), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(moment, 0.1 * gradient, rtol=1e-3, atol=1e-6)


def test_minibatches_part_the_rollout_along_time(networks: Networks, steps: Steps) -> None:
    """Two steps in two parts: every epoch uses both once, so the losses' mean is that of both steps."""
    assert LENGTH == 2
    chosen = settings(epochs=3, minibatches=2, learning_rate=1e-12, critic_learning_rate=1e-12)
    batch = whole_batch(networks, steps, chosen)
    optimised, losses = improve_once(networks, batch, Pace(jnp.float32(0.0), jnp.float32(1.0)), chosen)
    np.testing.assert_allclose(losses.critic, critic_loss(networks.critic, GRID, batch.critic), rtol=1e-4)
    assert int(optimised.moments.critic.count) == 3 * 2


def test_a_step_is_as_long_as_its_share_of_the_learning_rates(networks: Networks, steps: Steps) -> None:
    chosen = bonus_settings(relative=True)
    batch = whole_batch(networks, steps, chosen)

    def size_of_step(rate: float) -> float:
        optimised, _ = improve_once(networks, batch, Pace(jnp.float32(0.3), jnp.float32(rate)), chosen)
        return float(optax.tree.norm(jax.tree.map(jnp.subtract, optimised.networks, networks)))

    np.testing.assert_allclose(size_of_step(0.25), 0.25 * size_of_step(1.0), rtol=1e-2)
    assert size_of_step(0.0) == 0.0


def test_advantages_use_the_values_of_each_environments_own_pair(networks: Networks, steps: Steps) -> None:
    chosen = settings(gae_lambda=0.0, discount=0.5)
    advantage, target, _ = estimate(GRID, networks.critic, steps, (), chosen)
    place = (0, 1, 5)
    own_value = partial(value, networks.critic, (1, 2))
    goes_on = 0.0 if steps.terminated[place] else 1.0
    wanted = steps.reward[place] + 0.5 * goes_on * own_value(steps.final_observations[place])
    np.testing.assert_allclose(target[place], wanted, rtol=1e-4)
    np.testing.assert_allclose(advantage[place], wanted - own_value(steps.observations[place]), rtol=1e-4)
