"""Waves in the first layer: a cheap sine that tells near observations apart, and survives a trip to the disk."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.policies.networks import MLP, NetworkPolicy, wave
from coverset.policies.population import Population, load_population, save_population

WIDE = 20_000


def test_a_wave_is_nearly_a_sine() -> None:
    turns = jnp.linspace(-3, 3, 4001)
    sine = 2**0.5 * np.sin(2 * np.pi * np.asarray(turns))
    assert np.abs(np.asarray(wave(turns)) - sine).max() < 0.08
    np.testing.assert_allclose(wave(turns + 1), wave(turns), atol=1e-5)
    slopes = np.asarray(jax.vmap(jax.grad(wave))(turns))
    assert np.abs(np.diff(slopes)).max() < 0.1, "no kinks"


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 2.0])
def test_bandwidth_says_how_alike_two_observations_look(bandwidth: float) -> None:
    mlp = MLP.create(jax.random.key(0), (3, WIDE, 1), waves=bandwidth)
    seen = jnp.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    hidden = np.asarray(wave(seen @ mlp.weights[0] + mlp.biases[0][None]))
    lengths = np.linalg.norm(hidden, axis=1)
    alike = hidden @ hidden.T / np.outer(lengths, lengths)
    wanted = [np.exp(-(bandwidth**2) * squared / 2) for squared in (0, 1, 2)]
    np.testing.assert_allclose(alike[0], wanted, atol=0.03)


def test_rectifiers_confuse_what_waves_tell_apart() -> None:
    """Two observations that differ in one of four bits: cosine between their hidden layers."""
    seen = jnp.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]])

    def likeness(waves: float) -> float:
        mlp = MLP.create(jax.random.key(0), (4, WIDE, 1), waves=waves)
        before = seen @ mlp.weights[0] + mlp.biases[0][None]
        hidden = np.asarray(wave(before) if mlp.waves else jax.nn.relu(before))
        return float(hidden[0] @ hidden[1] / np.linalg.norm(hidden[0]) / np.linalg.norm(hidden[1]))

    assert likeness(0.0) > 0.8
    assert likeness(2.0) < 0.2


def test_waves_are_saved_and_loaded(tmp_path: Path) -> None:
    def stack(seed: int) -> NetworkPolicy:
        keys = jax.random.split(jax.random.key(seed), 2)
        return NetworkPolicy(jax.vmap(lambda key: MLP.create(key, (3, 4, 2), waves=1.0))(keys))

    population = Population(stack(0), stack(1))
    save_population(tmp_path / "policies.safetensors", population, {"env": "matrix", "env_parameters": {}})
    loaded, _ = load_population(tmp_path / "policies.safetensors")
    assert loaded.teammates.mlp.waves
    seen = jnp.ones((2, 3))
    for mine, theirs in zip(population, loaded, strict=True):
        answers = [jax.vmap(MLP.__call__)(policy.mlp, seen) for policy in (mine, theirs)]
        np.testing.assert_array_equal(*answers)
