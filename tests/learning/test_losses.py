"""Sampling and the pieces of the clipped objective against plain numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.learning.losses import clipped_surrogate, entropy, log_probabilities, sample_actions

JUST_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))
NEVER = -1e4
"""A logit whose probability is exactly zero in float32."""


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_even_uniforms_draw_actions_at_their_probabilities() -> None:
    logits = np.array([0.3, -1.0, 2.0, 0.0], np.float32)
    uniforms = jnp.linspace(0, 1, 10_000, endpoint=False)
    actions = sample_actions(jnp.broadcast_to(logits, (10_000, 4)), uniforms)
    frequencies = np.bincount(actions, minlength=4) / 10_000
    np.testing.assert_allclose(frequencies, softmax(logits), atol=2e-4)


def test_each_row_draws_from_its_own_logits() -> None:
    logits = jnp.array([[0.0, NEVER, NEVER], [NEVER, 0.0, NEVER], [NEVER, NEVER, 0.0]])
    np.testing.assert_array_equal(sample_actions(logits, jnp.full(3, 0.5)), [0, 1, 2])


@pytest.mark.parametrize("uniform", [0.0, 0.5, JUST_BELOW_ONE])
@pytest.mark.parametrize("possible", [0, 1, 2])
def test_an_impossible_action_is_never_drawn(possible: int, uniform: float) -> None:
    logits = jnp.full(3, NEVER).at[possible].set(0.0)
    assert sample_actions(logits, jnp.float32(uniform)) == possible


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_actions_stay_in_range_at_the_ends_of_the_unit_interval(seed: int) -> None:
    """Rounded cumulative sums may end below 1."""
    logits = jnp.asarray(np.random.default_rng(seed).normal(size=(64, 7)) * 5, jnp.float32)
    for uniform in (0.0, JUST_BELOW_ONE):
        actions = np.asarray(sample_actions(logits, jnp.full(64, uniform, jnp.float32)))
        assert actions.min() >= 0
        assert actions.max() < 7
    assert np.all(np.asarray(sample_actions(logits, jnp.zeros(64))) == 0)


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=25, deadline=None)
def test_log_probabilities_and_entropy_equal_numpy(seed: int, scale: float) -> None:
    draw = np.random.default_rng(seed)
    logits = (scale * draw.normal(size=(5, 3))).astype(np.float32)
    actions = draw.integers(0, 3, size=5)
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    found = log_probabilities(jnp.asarray(logits), jnp.asarray(actions, jnp.int32))
    np.testing.assert_allclose(found, log_p[np.arange(5), actions], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(entropy(jnp.asarray(logits)), -(np.exp(log_p) * log_p).sum(axis=-1), atol=1e-5)


def test_entropy_of_the_uniform_distribution_is_its_maximum() -> None:
    np.testing.assert_allclose(entropy(jnp.zeros(4)), np.log(4), rtol=1e-6)


@pytest.mark.parametrize("advantage", [2.0, -2.0])
@pytest.mark.parametrize("ratio", [0.1, 0.79, 0.9, 1.0, 1.1, 1.21, 5.0])
def test_clipped_surrogate_equals_a_hand_loop(ratio: float, advantage: float) -> None:
    bounded = min(max(ratio, 0.8), 1.2)
    wanted = min(ratio * advantage, bounded * advantage)
    found = clipped_surrogate(jnp.log(jnp.float32(ratio)), jnp.float32(0.0), jnp.float32(advantage), clip=0.2)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("ratio", "advantage", "pulls"),
    [(1.5, 1.0, False), (0.5, 1.0, True), (1.5, -1.0, True), (0.5, -1.0, False), (1.0, 1.0, True), (1.0, -1.0, True)],
)
def test_the_gradient_vanishes_only_where_the_policy_has_moved_far_enough(ratio, advantage, pulls) -> None:
    gradient = jax.grad(lambda log_p: clipped_surrogate(log_p, jnp.float32(0.0), jnp.float32(advantage), clip=0.2))
    found = gradient(jnp.log(jnp.float32(ratio)))
    np.testing.assert_allclose(found, ratio * advantage if pulls else 0.0, rtol=1e-5)
