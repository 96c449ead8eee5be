"""Units of values: moments against a slow loop, and values that stay the same when their units move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.learning.value_scale import SLOWEST_RATE, follow_targets, output_correction, start_value_scale
from coverset.policies.network import NetworkSpec, network_class


def test_moments_equal_a_slow_loop() -> None:
    draw = np.random.default_rng(0)
    scale, mean, variance = start_value_scale(1), 0.0, 1.0
    for update in range(60):
        targets = draw.normal(3.0 + update, 2.0, size=16).astype(np.float32)
        scale = follow_targets(scale, jnp.asarray(targets)[:, None])
        rate = max(1.0 / (update + 1), SLOWEST_RATE)
        before, mean = mean, mean + rate * (targets.mean() - mean)
        variance = (1 - rate) * (variance + (before - mean) ** 2) + rate * np.mean((targets - mean) ** 2)
        np.testing.assert_allclose([scale.mean[0], scale.variance[0]], [mean, variance], rtol=1e-4)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_units_follow_scale_and_shift_of_targets(factor: float) -> None:
    targets = jnp.asarray(np.random.default_rng(1).normal(size=(64, 1)), jnp.float32)
    plain = follow_targets(start_value_scale(1), targets)
    other = follow_targets(start_value_scale(1), factor * targets + 5.0 * factor)
    np.testing.assert_allclose(other.deviation, factor * plain.deviation, rtol=1e-4)
    np.testing.assert_allclose(other.mean, factor * (plain.mean + 5.0), rtol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "gru", "lstm"])
def test_values_stay_the_same_in_new_units(kind: str) -> None:
    network = network_class(kind).build(jax.random.key(0), NetworkSpec((3,), 2, (8,), 4))
    inputs, memory = jnp.asarray([[0.1, -1.0, 2.0]]), network.initial_memory(1)
    before = follow_targets(start_value_scale(2), jnp.asarray([[0.0, 1.0], [4.0, -3.0]]))
    after = follow_targets(before, jnp.asarray([[100.0, 7.0], [40.0, 3.0]]))
    rescaled = network.rescale_outputs(*output_correction(before, after))

    def values(network, scale):
        return network.step(inputs, memory)[0] * scale.deviation[None] + scale.mean[None]

    np.testing.assert_allclose(values(rescaled, after), values(network, before), rtol=1e-4)


def test_the_first_units_are_taken_as_they_are() -> None:
    """Outputs mean nothing before the first targets: keeping their values would keep noise of a wrong size."""
    first = follow_targets(start_value_scale(1), jnp.asarray([[1e6], [1e6 + 10.0]]))
    gain, offset = output_correction(start_value_scale(1), first)
    assert (float(gain[0]), float(offset[0])) == (1.0, 0.0)
