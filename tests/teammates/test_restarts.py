"""Restarts of pairs that follow another pair's convention: which pair, when, and what is left of it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.method import World
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.networks import init_networks
from coverset.teammates.ppo import init_moments
from coverset.teammates.restarts import decide_restarts, restart_pairs
from coverset.teammates.trainer import Trainer

APART = jnp.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 2.0]])
SHARED = jnp.array([[3.0, 0.0, 0.0], [0.0, 3.0, 2.9], [0.0, 2.9, 2.8]])
"""Pairs 1 and 2 go well together."""
SETTINGS = GenerateSettings(population_size=3, total_steps=1, hidden_sizes=(4,), envs_per_pair=2, rollout_length=2)
WORLD = World(MatrixGame(), SETTINGS, 3, 3)


def decision(stuck: list[int], values: jax.Array, updates_left: int = 6):
    found = decide_restarts(jnp.array(stuck), values, jnp.int32(updates_left), margin=0.5, patience=3)
    return np.flatnonzero(found.restarted).tolist(), found.stuck.tolist()


def test_violations_are_counted_in_a_row() -> None:
    assert decision([0, 0, 0], SHARED) == ([], [0, 1, 1])
    assert decision([2, 1, 1], APART) == ([], [0, 0, 0])


def test_of_two_pairs_that_share_a_convention_the_poorer_restarts_and_all_counts_are_reset() -> None:
    assert decision([1, 2, 2], SHARED) == ([2], [0, 0, -3])


def test_no_pair_restarts_shortly_before_the_end() -> None:
    assert decision([1, 2, 2], SHARED, updates_left=5) == ([], [0, 3, 3])


def test_a_restarted_pair_has_a_grace_period() -> None:
    assert decision([0, 0, -3], SHARED) == ([], [0, 1, -2])


def test_a_restarted_pair_has_new_networks_and_empty_moments_and_the_others_keep_theirs() -> None:
    old, drawn = (init_networks(jax.random.key(seed), MatrixGame(), SETTINGS, (3, 3)) for seed in (0, 1))
    optimised = init_moments(old)
    optimised = optimised._replace(moments=jax.tree.map(lambda x: x + 1, optimised.moments))
    restarted = restart_pairs(optimised, drawn, jnp.array([False, True, False]))
    for role in ("best_responses", "teammates"):
        wanted = np.array(getattr(old, role).weights[0])
        wanted[1] = getattr(drawn, role).weights[0][1]
        np.testing.assert_array_equal(getattr(restarted.networks, role).weights[0], wanted)
        moments = getattr(restarted.moments, role)
        assert moments.count == 1
        np.testing.assert_array_equal(moments.mu.weights[0][:, 0, 0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(restarted.networks.critic.network.weights[0], old.critic.network.weights[0])


def test_multipliers_of_a_restarted_pair_start_high_and_decay_until_it_earns() -> None:
    method = LBRDiv(multiplier_learning_rate=0.1, max_multiplier=0.4, multiplier_growth_exponent=2.0)
    before = jax.tree.map(lambda x: 0.7 * (1.0 - jnp.eye(3)), method.init(jax.random.key(0), WORLD))
    restarted = method.restart(before, jnp.array([False, False, True]))
    for multipliers in restarted:
        np.testing.assert_allclose(multipliers, [[0.0, 0.7, 0.0], [0.7, 0.0, 0.0], [0.4, 0.4, 0.0]], atol=1e-6)
    nothing_earned = jnp.diag(jnp.array([3.0, 3.0, 0.0]))
    for multipliers in method.descend(restarted, nothing_earned, margin=0.5, decay=0.25):
        np.testing.assert_allclose(multipliers[2], [0.3, 0.3, 0.0], atol=1e-6)


def test_a_pair_that_cannot_separate_restarts_in_training() -> None:
    """Nobody can beat cross-play by a margin that exceeds every payoff, so all pairs are always stuck."""
    settings = replace(SETTINGS, margin=100.0, restart_patience=2, total_steps=10 * 36, chunk_steps=10 * 36)
    trainer = Trainer(MatrixGame(), LBRDiv(), settings)
    assert trainer.schedule.updates_per_chunk == 10
    _, metrics = jax.jit(trainer.train_chunk)(trainer.init(jax.random.key(0)))
    assert int(metrics.restarted.sum()) >= 2, "at updates 2, 4 and 6, never the same pair twice in a row"
