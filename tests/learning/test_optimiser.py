"""Gradient clipping in front of Adam, seen through its first moment: a tenth of the clipped gradient."""

import jax
import jax.numpy as jnp
import numpy as np

from coverset.learning.optimiser import ADAM, adam_step


def test_each_members_gradient_is_clipped_on_its_own() -> None:
    network = {"w": jnp.ones((3, 2)), "b": jnp.ones((3, 1))}
    gradient = {"w": jnp.array([[3.0, 0.0], [0.03, 0.0], [0.0, 0.0]]), "b": jnp.array([[4.0], [0.04], [0.0]])}
    _, moments = adam_step(0.1, network, ADAM.init(network), gradient, per_member=True, max_norm=0.5)
    kept = jax.tree.map(lambda m: m / 0.1, moments.mu)
    np.testing.assert_allclose(kept["w"], [[0.3, 0.0], [0.03, 0.0], [0.0, 0.0]], rtol=1e-4)
    np.testing.assert_allclose(kept["b"], [[0.4], [0.04], [0.0]], rtol=1e-4)


def test_the_critics_gradient_is_clipped_as_a_whole() -> None:
    network = {"w": jnp.ones(2), "b": jnp.ones(1)}
    gradient = {"w": jnp.array([3.0, 0.0]), "b": jnp.array([4.0])}
    moved, moments = adam_step(0.1, network, ADAM.init(network), gradient, per_member=False, max_norm=0.5)
    np.testing.assert_allclose(moments.mu["w"] / 0.1, [0.3, 0.0], rtol=1e-4)
    np.testing.assert_allclose(moments.mu["b"] / 0.1, [0.4], rtol=1e-4)
    np.testing.assert_allclose(moved["w"], [0.9, 1.0], rtol=1e-4)
