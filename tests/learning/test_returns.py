"""Advantages against a slow loop, and what episode ends do to them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.learning.returns import advantages

compiled = jax.jit(advantages, static_argnames=("discount", "decay"))


def slow_advantages(rewards, values, next_values, terminated, truncated, *, discount, decay):
    """Discounted sums of one-step errors up to the end of each episode, written as a double loop for each start."""
    errors = rewards + discount * np.where(terminated, 0.0, next_values) - values
    result = np.zeros_like(errors)
    for start in range(len(errors)):
        for later in range(start, len(errors)):
            result[start] += (discount * decay) ** (later - start) * errors[later]
            if terminated[later] or truncated[later]:
                break
    return result


@settings(max_examples=40, deadline=None)
@given(
    length=st.sampled_from([1, 2, 9]),
    seed=st.integers(0, 2**32 - 1),
    ends=st.sampled_from([0.0, 0.3, 1.0]),
    decay=st.sampled_from([0.0, 0.9, 1.0]),
)
def test_advantages_equal_a_slow_loop(length: int, seed: int, ends: float, decay: float) -> None:
    draw = np.random.default_rng(seed)
    rewards, values, next_values = draw.normal(size=(3, length)).astype(np.float32)
    kind = draw.choice(3, size=length, p=[1 - ends, ends / 2, ends / 2])
    arguments = (rewards, values, next_values, kind == 1, kind == 2)
    found = compiled(*map(jnp.asarray, arguments), discount=0.8, decay=decay)
    np.testing.assert_allclose(found, slow_advantages(*arguments, discount=0.8, decay=decay), atol=1e-5)


def test_batch_axes_are_independent() -> None:
    draw = np.random.default_rng(0)
    rewards, values, next_values = draw.normal(size=(3, 6, 2, 3)).astype(np.float32)
    kind = draw.choice(3, size=(6, 2, 3))
    arguments = (rewards, values, next_values, kind == 1, kind == 2)
    found = np.asarray(compiled(*map(jnp.asarray, arguments), discount=0.8, decay=0.9))
    for place in np.ndindex(2, 3):
        alone = slow_advantages(*(x[:, *place] for x in arguments), discount=0.8, decay=0.9)
        np.testing.assert_allclose(found[:, *place], alone, atol=1e-5)


def test_decay_zero_is_the_one_step_advantage_of_algorithm_1() -> None:
    rewards, values, next_values = jnp.array([1.0, 2.0]), jnp.array([0.5, 7.0]), jnp.array([10.0, 20.0])
    never = jnp.zeros(2, bool)
    found = compiled(rewards, values, next_values, never, never, discount=0.9, decay=0.0)
    np.testing.assert_allclose(found, [1 + 9 - 0.5, 2 + 18 - 7], rtol=1e-6)


@pytest.mark.parametrize(("terminated", "first"), [(True, 1.0 - 3.0), (False, 1.0 + 0.9 * 5.0 - 3.0)])
def test_a_time_limit_is_bootstrapped_and_the_end_of_the_game_is_not(terminated: bool, first: float) -> None:
    """Nothing of the next episode, whose advantage is large, reaches the one that ended."""
    ends = jnp.array([True, False])
    never = jnp.zeros(2, bool)
    run = partial(compiled, jnp.array([1.0, 1000.0]), jnp.array([3.0, 0.0]), jnp.array([5.0, 0.0]))
    found = run(*((ends, never) if terminated else (never, ends)), discount=0.9, decay=1.0)
    np.testing.assert_allclose(found, [first, 1000.0], rtol=1e-6)
