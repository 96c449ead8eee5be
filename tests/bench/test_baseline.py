"""The baseline computes what the pair grid computes, so that a comparison of their speed compares nothing else."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.bench.baseline import GATHER_AND_MASK, gathered_logits, masked_loss
from coverset.pipeline.generate import make_plan
from coverset.teammates.collect import Memories, collect, grid_logits
from coverset.teammates.method import as_pair_weights
from coverset.teammates.ppo import grid_loss
from coverset.teammates.trainer import Trainer

SMALL = {
    "population_size": 3,
    "envs_per_pair": 2,
    "extra_self_play": 1,
    "hidden_sizes": (8, 8),
    "rollout_length": 4,
    "minibatches": 2,
    "epochs": 2,
    "chunk_steps": 1,
}
BONUSES = jnp.array([0.1, 0.2, 0.3])
WEIGHTS = jnp.array([[2.0, -0.5, -0.3], [-0.2, 1.5, -0.6], [-0.7, -0.1, 3.0]])


AS_IN_FORAGING = {"share_pair_parameters": True, "fourier_bandwidth": 2.0, "restart_patience": 1}


@pytest.fixture(scope="module", params=[{}, AS_IN_FORAGING], ids=["plain", "as in foraging"])
def trainer(request) -> Trainer:
    """Two policies a pair with plain ReLU networks; or one policy a pair with Fourier features and restarts."""
    return make_plan("matrix", **SMALL, **request.param).trainer


@pytest.fixture(scope="module")
def state(trainer):
    """A run before its first update."""
    return jax.jit(trainer.init)(jax.random.key(3))


@pytest.fixture(scope="module")
def batch(trainer, state):
    """A rollout, with weights that differ in every pair."""

    def roll_out(state):
        networks = state.optimised.networks
        steps, _, _ = collect(jax.random.key(1), trainer.environment, trainer.grid, networks, state.playing, length=4)
        return trainer.batch(state, steps, as_pair_weights(WEIGHTS))[0]

    return jax.jit(roll_out)(state)


@pytest.fixture(scope="module")
def learned(state):
    """Other parameters than those that made the data, so that ratios are not 1 and some are clipped."""

    def shifted(networks):
        leaves, tree = jax.tree.flatten(networks)
        keys = jax.random.split(jax.random.key(7), len(leaves))
        moved = [x + 0.3 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
        return jax.tree.unflatten(tree, moved)

    return jax.jit(shifted)(state.optimised.networks)


@partial(jax.jit, static_argnums=(0, 1))
def gradient(loss, grid, networks, batch):
    return jax.grad(loss, has_aux=True)(networks, grid, batch, (BONUSES, BONUSES), 0.2)


def test_gathered_parameters_act_like_the_grid(trainer, learned) -> None:
    grid = trainer.grid
    shape = (grid.rows, grid.row_size, 2, trainer.environment.observation_size)
    both = jax.random.normal(jax.random.key(0), shape)
    observations = (both[..., 0, :], both[..., 1, :])
    ours, theirs = (
        jax.jit(act, static_argnums=1)(learned, grid, observations, Memories((), ()))[0]
        for act in (grid_logits, gathered_logits)
    )
    for seat in (0, 1):
        np.testing.assert_allclose(ours[seat], theirs[seat], rtol=1e-5, atol=1e-5)


def test_masked_losses_have_the_gradients_of_the_grid(trainer, learned, batch) -> None:
    ours, our_losses = gradient(grid_loss, trainer.grid, learned, batch)
    theirs, their_losses = gradient(masked_loss, trainer.grid, learned, batch)
    np.testing.assert_allclose(our_losses.entropy, their_losses.entropy, rtol=1e-5)
    np.testing.assert_allclose(our_losses.critic, their_losses.critic, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert float(jnp.abs(a).max()) > 0
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)


def test_ratios_on_the_data_of_others_cannot_spoil_a_gradient(trainer, learned, batch) -> None:
    mine = batch.best_responses
    unlikely = batch._replace(best_responses=mine._replace(log_p=mine.log_p.at[0].set(-200.0)))
    found, _ = gradient(masked_loss, trainer.grid, learned, unlikely)
    for leaf in jax.tree.leaves(found.best_responses):
        assert jnp.isfinite(leaf[1:]).all()


def test_a_whole_update_by_either_arithmetic_ends_alike(trainer, state) -> None:
    s = trainer.settings
    baseline = replace(trainer, arithmetic=GATHER_AND_MASK)
    (ours, our_report), (theirs, their_report) = (jax.jit(one.update)(state) for one in (trainer, baseline))
    np.testing.assert_array_equal(our_report.tally.returns, their_report.tally.returns)
    np.testing.assert_allclose(our_report.pair_values, their_report.pair_values, rtol=1e-3, atol=1e-4)
    # Adam divides by the gradient's size: where a gradient is all but zero, rounding may turn its sign.
    furthest = 2 * s.epochs * s.minibatches * max(s.learning_rate, s.critic_learning_rate)
    for a, b in zip(jax.tree.leaves(ours.optimised.networks), jax.tree.leaves(theirs.optimised.networks), strict=True):
        apart = np.abs(np.asarray(a) - np.asarray(b))
        assert np.mean(apart > 1e-4) < 0.05
        assert apart.max() < furthest
