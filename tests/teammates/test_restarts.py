"""Pairs that stay where others are start anew: who, when, and what is left of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.networks import init_networks
from coverset.teammates.ppo import init_learner
from coverset.teammates.registry import make_rule
from coverset.teammates.restarts import judge, renew
from coverset.teammates.trainer import Trainer

APART = jnp.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 2.0]])
SHARED = jnp.array([[3.0, 0.0, 0.0], [0.0, 3.0, 2.9], [0.0, 2.9, 2.8]])
"""Pairs 1 and 2 go well together."""
SETTINGS = GenerateSettings(population_size=3, total_steps=1, hidden_sizes=(4,), envs_per_pair=2, rollout_length=2)


def verdict(stuck: list[int], values: jax.Array, updates_left: int = 6):
    found = judge(jnp.array(stuck), values, jnp.int32(updates_left), margin=0.5, patience=3)
    return np.flatnonzero(found.fresh).tolist(), found.stuck.tolist()


def test_violations_are_counted_in_a_row() -> None:
    assert verdict([0, 0, 0], SHARED) == ([], [0, 1, 1])
    assert verdict([2, 1, 1], APART) == ([], [0, 0, 0])


def test_of_two_that_share_a_convention_the_poorer_starts_anew_and_all_counts_do() -> None:
    assert verdict([1, 2, 2], SHARED) == ([2], [0, 0, -3])


def test_nobody_starts_anew_shortly_before_the_end() -> None:
    assert verdict([1, 2, 2], SHARED, updates_left=5) == ([], [0, 3, 3])


def test_a_new_pair_has_time_of_grace() -> None:
    assert verdict([0, 0, -3], SHARED) == ([], [0, 1, -2])


def test_a_fresh_pair_has_new_networks_and_empty_moments_and_the_others_keep_theirs() -> None:
    old, drawn = (init_networks(jax.random.key(seed), MatrixGame(), SETTINGS) for seed in (0, 1))
    learner = init_learner(old)
    learner = learner._replace(moments=jax.tree.map(lambda x: x + 1, learner.moments))
    renewed = renew(learner, drawn, jnp.array([False, True, False]))
    for role in ("best_responses", "teammates"):
        wanted = np.array(getattr(old, role).weights[0])
        wanted[1] = getattr(drawn, role).weights[0][1]
        np.testing.assert_array_equal(getattr(renewed.networks, role).weights[0], wanted)
        moments = getattr(renewed.moments, role)
        assert moments.count == 1
        np.testing.assert_array_equal(moments.mu.weights[0][:, 0, 0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(renewed.networks.critic.mlp.weights[0], old.critic.mlp.weights[0])


def test_multipliers_of_a_fresh_pair_start_high_and_fade_until_it_earns() -> None:
    rule = LBRDiv(margin=0.5, rate=0.1, start=0.7, ripeness=2.0, fading=0.25, renewed=0.4)
    fresh = rule.renew(rule.init(3), jnp.array([False, False, True]))
    for multipliers in fresh:
        np.testing.assert_allclose(multipliers, [[0.0, 0.7, 0.0], [0.7, 0.0, 0.0], [0.4, 0.4, 0.0]], atol=1e-6)
    nothing_earned = jnp.diag(jnp.array([3.0, 3.0, 0.0]))
    for multipliers in rule.update(fresh, nothing_earned):
        np.testing.assert_allclose(multipliers[2], [0.3, 0.3, 0.0], atol=1e-6)


def test_a_pair_that_cannot_part_is_renewed_in_training() -> None:
    """Nobody can beat cross-play by a margin that exceeds every payoff, so all pairs are always stuck."""
    settings = replace(SETTINGS, margin=100.0, restart_patience=2, total_steps=10 * 36, chunk_steps=10 * 36)
    assert settings.updates_per_chunk == 10
    trainer = Trainer(MatrixGame(), make_rule("lbrdiv", settings), settings)
    _, metrics = jax.jit(trainer.train_chunk)(trainer.init(jax.random.key(0)))
    assert int(metrics.fresh.sum()) >= 2, "at updates 2, 4 and 6, never the same pair twice in a row"
