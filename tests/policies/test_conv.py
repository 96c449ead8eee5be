"""Convolutional networks: the same numbers as XLA's convolution, seats as channels, and observations with a shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.policies.network import NetworkSpec, network_class
from coverset.policies.networks.conv import Conv, convolve
from coverset.policies.team import build_networks
from coverset.settings import GenerateSettings
from coverset.teammates.critic import PairCritic, joint_shape
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.trainer import Trainer

SHAPE = (4, 3, 2)
SPEC = NetworkSpec(SHAPE, 5, (6,))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_convolution_equals_that_of_xla_with_zero_padding(size: int) -> None:
    images = jax.random.normal(jax.random.key(0), (2, *SHAPE))
    kernel = jax.random.normal(jax.random.key(1), (size, size, SHAPE[-1], 4))
    before = size // 2
    padding = "SAME" if size % 2 else ((before, size - 1 - before),) * 2
    wanted = jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(convolve(images, kernel), wanted, rtol=1e-4, atol=1e-5)


def test_a_network_reads_flat_observations_with_any_leading_axes() -> None:
    network = network_class("conv").build(jax.random.key(0), SPEC)
    flat = jax.random.normal(jax.random.key(1), (2, 3, int(np.prod(SHAPE))))
    outputs, memory = network.step(flat, ())
    assert (outputs.shape, memory) == ((2, 3, 5), ())
    np.testing.assert_allclose(network.unroll(flat, (), None), outputs)
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(network.step(flat[place], ())[0], outputs[place], rtol=1e-4, atol=1e-5)


def test_a_stack_of_networks_is_each_of_them() -> None:
    stacked = build_networks("conv", jax.random.split(jax.random.key(0), 2), SPEC)
    flat = jax.random.normal(jax.random.key(1), (2, 3, int(np.prod(SHAPE))))
    outputs = jax.vmap(Conv.step)(stacked, flat, ())[0]
    for member in range(2):
        alone = jax.tree.map(lambda x, m=member: x[m], stacked)
        np.testing.assert_allclose(alone.step(flat[member], ())[0], outputs[member], rtol=1e-4, atol=1e-5)


def test_a_critic_sees_the_seats_images_side_by_side_as_channels() -> None:
    critic = PairCritic.create(jax.random.key(0), "conv", NetworkSpec(joint_shape(SHAPE, 2), 1, (6,)), 2, 2)
    images = jax.random.normal(jax.random.key(1), (3, 2, *SHAPE))
    identity = critic.identity(jnp.array([0, 1, 1]), jnp.array([0, 0, 1]))
    values, _ = critic.step(images.reshape(3, 2, -1), (), identity)
    joined = jnp.concatenate([images[:, 0], images[:, 1]], axis=-1)
    assert joined.shape == (3, 4, 3, 4)
    wanted, _ = critic.network.step(joined.reshape(3, -1), (), identity)
    np.testing.assert_allclose(values, wanted[:, 0], rtol=1e-5)


def test_a_pairs_identity_moves_a_conv_critics_value() -> None:
    critic = PairCritic.create(jax.random.key(0), "conv", NetworkSpec(joint_shape(SHAPE, 2), 1, (6,)), 2, 2)
    seen = jnp.ones((2, int(np.prod(SHAPE))))
    pairs = jnp.meshgrid(jnp.arange(2), jnp.arange(2), indexing="ij")
    values, _ = critic.step(seen, (), critic.identity(*pairs))
    assert len(np.unique(np.asarray(values))) == 4


@pytest.mark.parametrize("which", ["network", "critic_network"])
def test_a_game_without_an_observation_shape_is_told_in_one_sentence(which: str) -> None:
    settings = GenerateSettings(**{"population_size": 2, "total_steps": 1, which: "conv"})
    wanted = r"^network 'conv' needs observations with a shape \(rows, columns, channels\): .*, got \(1,\)\.$"
    with pytest.raises(ValueError, match=wanted):
        Trainer(MatrixGame(), LBRDiv(), settings)
