"""Dense networks: Fourier features separate near observations, by a cheap sine, and are saved and loaded."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP, sine_wave
from coverset.policies.population import Population, load_population, save_population

WIDE = 20_000


def test_a_sine_wave_is_nearly_a_sine() -> None:
    turns = jnp.linspace(-3, 3, 4001)
    sine = 2**0.5 * np.sin(2 * np.pi * np.asarray(turns))
    assert np.abs(np.asarray(sine_wave(turns)) - sine).max() < 0.08
    np.testing.assert_allclose(sine_wave(turns + 1), sine_wave(turns), atol=1e-5)
    slopes = np.asarray(jax.vmap(jax.grad(sine_wave))(turns))
    assert np.abs(np.diff(slopes)).max() < 0.1, "no kinks"


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 2.0])
def test_bandwidth_says_how_alike_two_observations_look(bandwidth: float) -> None:
    mlp = MLP.create(jax.random.key(0), (3, WIDE, 1), fourier_bandwidth=bandwidth)
    seen = jnp.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    hidden = np.asarray(sine_wave(seen @ mlp.weights[0] + mlp.biases[0][None]))
    lengths = np.linalg.norm(hidden, axis=1)
    alike = hidden @ hidden.T / np.outer(lengths, lengths)
    wanted = [np.exp(-(bandwidth**2) * squared / 2) for squared in (0, 1, 2)]
    np.testing.assert_allclose(alike[0], wanted, atol=0.03)


def test_relu_networks_confuse_what_fourier_features_separate() -> None:
    """Two observations that differ in one of four bits: cosine between their hidden layers."""
    seen = jnp.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]])

    def similarity(bandwidth: float) -> float:
        mlp = MLP.create(jax.random.key(0), (4, WIDE, 1), fourier_bandwidth=bandwidth)
        before = seen @ mlp.weights[0] + mlp.biases[0][None]
        hidden = np.asarray(sine_wave(before) if mlp.fourier else jax.nn.relu(before))
        return float(hidden[0] @ hidden[1] / np.linalg.norm(hidden[0]) / np.linalg.norm(hidden[1]))

    assert similarity(0.0) > 0.8
    assert similarity(2.0) < 0.2


def test_fourier_features_are_saved_and_loaded(tmp_path: Path) -> None:
    def stack(seed: int) -> ActorPolicy:
        keys = jax.random.split(jax.random.key(seed), 2)
        return dense_policy(jax.vmap(lambda key: MLP.create(key, (3, 4, 2), fourier_bandwidth=1.0))(keys))

    population = Population(stack(0), stack(1))
    save_population(tmp_path / "policies.safetensors", population, {"env": "matrix", "env_parameters": {}})
    loaded, _ = load_population(tmp_path / "policies.safetensors")
    assert loaded.teammates.network.fourier  # pyright: ignore[reportAttributeAccessIssue]
    seen = jnp.ones((2, 3))
    for mine, theirs in zip(population, loaded, strict=True):
        answers = [jax.vmap(MLP.__call__)(policy.network, seen) for policy in (mine, theirs)]
        np.testing.assert_array_equal(*answers)
