"""MAVEN's bound: the closed form of the best discriminator, a slow loop, and where gradients go."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.policies.networks.dense import MLP
from coverset.teammates.methods.maven import MAVEN, recognition
from small_world import play_rollout, small_world

METHOD = MAVEN(information_weight=0.3, discriminator_size=8)
WORLD = small_world(2, MatrixGame(horizon=2), envs_per_pair=2)
POLICIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])


def linear(weights: np.ndarray) -> MLP:
    """A discriminator of one layer that reads a constant observation and probabilities."""
    full = np.concatenate([np.zeros((1, weights.shape[1])), weights])
    return MLP((jnp.asarray(full, jnp.float32),), (jnp.zeros(weights.shape[1]),))


def test_pairs_that_are_told_apart_have_the_full_information_and_equal_ones_none() -> None:
    """Deterministic policies of two pairs: a discriminator that reads them well reaches log 2, a blind one 0."""
    observations = jnp.ones((2, 5, 1))
    chances = jnp.broadcast_to(jnp.eye(2)[:, None], (2, 5, 2))
    bound = np.log(2) + np.asarray(recognition(linear(50 * np.eye(2)), observations, chances)).mean()
    np.testing.assert_allclose(bound, np.log(2), rtol=1e-5)
    blind = np.log(2) + np.asarray(recognition(linear(np.zeros((2, 2))), observations, chances)).mean()
    np.testing.assert_allclose(blind, 0.0, atol=1e-6)


def test_no_discriminator_exceeds_the_information_that_there_is() -> None:
    """Half of the observations of both pairs are the same: log q of the best one is log(1/2) there, 0 elsewhere."""
    best = MLP((jnp.array([[40.0, 0.0], [0.0, 40.0]]),), (jnp.zeros(2),))
    shared, own = jnp.zeros((1, 2)), jnp.eye(2)
    seen = jnp.stack([jnp.concatenate([shared, own[k : k + 1]]) for k in range(2)])
    nothing = jnp.zeros((2, 2, 0))
    np.testing.assert_allclose(recognition(best, seen, nothing).mean(), 0.5 * np.log(0.5), rtol=1e-5)
    random = np.random.default_rng(0)
    for _ in range(20):
        other = MLP(
            (jnp.asarray(random.normal(size=(2, 2)) * 5, jnp.float32),),
            (jnp.asarray(random.normal(size=2), jnp.float32),),
        )
        assert float(recognition(other, seen, nothing).mean()) <= 0.5 * np.log(0.5) + 1e-5


@pytest.fixture(scope="module")
def parameters():
    drawn = METHOD.init_parameters(jax.random.key(3), WORLD)
    return jax.tree.map(lambda x: 3.0 * x, drawn)


def test_the_bonus_is_the_recognition_of_both_policies_of_a_pair(parameters) -> None:
    rollout = play_rollout(METHOD, WORLD, scale=300.0)
    found, steps = np.asarray(METHOD.bonus(parameters, jnp.eye(2), rollout)), rollout.steps
    for place in np.ndindex(*steps.reward.shape):
        wanted = 0.0
        for seat, stack in enumerate((rollout.networks.best_responses, rollout.networks.teammates)):
            policy = jax.tree.map(lambda x, k=place[1]: x[k], stack)
            seen = steps.observations[place][seat]
            logits = parameters[seat](jnp.concatenate([seen, jax.nn.softmax(policy(seen))]))
            wanted += 0.5 * float(jax.nn.log_softmax(logits)[place[1]])
        np.testing.assert_allclose(found[place], 0.3 * (wanted + np.log(2)), rtol=1e-3, atol=1e-5)


def make_batch():
    side = SimpleNamespace(observations=jnp.ones((2, 4, 3, 1)), share=jnp.ones((2, 4, 3)))
    logits = jnp.broadcast_to(jnp.log(jnp.asarray(POLICIES, jnp.float32))[:, None, None], (2, 4, 3, 3))
    return (side, side), (logits, logits)


def test_the_discriminator_learns_at_any_weight_and_policies_by_the_weight(parameters) -> None:
    batch, logits = make_batch()

    def gradients(weight: float):
        method = MAVEN(information_weight=weight, discriminator_size=8)
        return jax.grad(lambda p, x: method.loss(p, jnp.eye(2), batch, x)[0], argnums=(0, 1))(parameters, logits)

    (none, still), (some, moved), (_, twice) = map(gradients, (0.0, 0.3, 0.6))
    for left, right in zip(jax.tree.leaves(none), jax.tree.leaves(some), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5)
    assert all(np.any(np.asarray(x) != 0) for x in jax.tree.leaves(none))
    assert not np.any(np.asarray(still[0]))
    np.testing.assert_allclose(2 * np.asarray(moved[0]), twice[0], rtol=1e-4, atol=1e-8)


def test_a_trained_discriminator_tells_two_policies_apart(parameters) -> None:
    batch, logits = make_batch()
    step = jax.jit(
        lambda p: jax.tree.map(
            lambda x, g: x - 0.5 * g, p, jax.grad(lambda q: METHOD.loss(q, jnp.eye(2), batch, logits)[0])(p)
        )
    )
    before = METHOD.loss(parameters, jnp.eye(2), batch, logits)[1]["mutual_information"]
    for _ in range(100):
        parameters = step(parameters)
    after = METHOD.loss(parameters, jnp.eye(2), batch, logits)[1]["mutual_information"]
    assert before < 0.5 < after < np.log(2) + 1e-6


@pytest.mark.parametrize("changes", [{"information_weight": -1.0}, {"discriminator_size": 0}])
def test_settings_are_checked(changes: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        MAVEN(**changes)
