"""Target entropies: targets, the loop that holds them, and the gradient of the entropy term."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.presets import resolve_generation
from coverset.settings import GenerateSettings
from coverset.teammates.methods.edrqn import EDRQN
from coverset.teammates.trainer import Trainer
from small_world import seen_values, small_world

WORLD = small_world(3, MatrixGame(payoffs=((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0))))


def test_targets_are_spaced_evenly_in_shares_of_the_largest_entropy_of_each_seat() -> None:
    targets = EDRQN(lowest_entropy=0.1, highest_entropy=0.5).targets(WORLD)
    np.testing.assert_allclose(targets, np.outer(np.log([2, 4]), [0.1, 0.3, 0.5]), rtol=1e-5)


def test_temperatures_follow_the_error_of_the_entropies_within_their_bounds() -> None:
    method = EDRQN(lowest_entropy=0.0, highest_entropy=1.0, temperature_learning_rate=0.5, max_temperature=0.3)
    state = method.init(jax.random.key(0), WORLD)._replace(temperatures=jnp.full((2, 3), 0.2))
    surprise = np.array([[0.1, 0.2], [0.4, 0.6], [0.7, 1.0]])  # [pair, seat]
    log_p = jnp.broadcast_to(-jnp.asarray(surprise, jnp.float32)[None, :, None], (5, 3, 2, 2))
    seen = seen_values(jnp.zeros((3, 3)), world=WORLD, steps=SimpleNamespace(log_p=log_p))
    moved = method.update(state, seen)
    wanted = np.clip(0.2 - 0.5 * (surprise.T - np.outer(np.log([2, 4]), [0.0, 0.5, 1.0])), 0.0, 0.3)
    np.testing.assert_allclose(moved.temperatures, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moved.entropies, surprise.T, rtol=1e-5)


def test_the_loss_weighs_every_policys_entropy_by_its_temperature() -> None:
    method, random = EDRQN(), np.random.default_rng(0)
    temperatures = jnp.asarray(random.uniform(size=(2, 3)), jnp.float32)
    state = method.init(jax.random.key(0), WORLD)._replace(temperatures=temperatures)
    logits = [jnp.asarray(random.normal(size=(3, 4, 2, size)), jnp.float32) for size in (2, 4)]
    share = jnp.asarray(random.uniform(size=(3, 4, 2)), jnp.float32)
    batch = (SimpleNamespace(share=share),) * 2
    wanted = 0.0
    for side, k, t, b in np.ndindex(2, 3, 4, 2):
        p = np.exp(np.asarray(logits[side][k, t, b], float))
        p /= p.sum()
        wanted += float(temperatures[side, k]) * float(share[k, t, b]) * np.sum(p * np.log(p)) / 8
    np.testing.assert_allclose(method.loss((), state, batch, logits)[0], wanted, rtol=1e-4)


def test_a_run_holds_its_target_entropies() -> None:
    """Entropies of single rollouts, which are noisy."""
    settings = GenerateSettings(
        population_size=3, total_steps=120_000, chunk_steps=120_000, hidden_sizes=(8,), envs_per_pair=4,
        rollout_length=4, epochs=2, learning_rate=0.005, entropy=0.0, normalise_advantages=False,
    )  # fmt: skip
    method = EDRQN(lowest_entropy=0.2, highest_entropy=0.8)
    trainer = Trainer(MatrixGame(), method, settings)
    state, _ = jax.jit(trainer.train_chunk)(trainer.init(jax.random.key(0)))
    shares = np.asarray(state.method.entropies) / np.log(3)
    np.testing.assert_allclose(shares.mean(axis=0), [0.2, 0.5, 0.8], atol=0.2)


def test_presets_leave_the_entropy_to_the_temperatures() -> None:
    settings, _ = resolve_generation("reaching", "edrqn", "fast")
    assert (settings.entropy, settings.entropy_final, settings.restart_patience) == (0.0, None, 0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lowest_entropy": 0.6}, r"^lowest_entropy must be at most highest_entropy, 0\.5, got 0\.6\.$"),
        ({"highest_entropy": 1.5}, "highest_entropy must lie between 0 and 1"),
        ({"temperature_learning_rate": -1.0}, "temperature_learning_rate must be at least 0"),
    ],
)
def test_settings_are_checked(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        EDRQN(**changes)
