"""MEP's bonus against a slow loop and a closed form, and the grid on which pairs play with themselves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.teammates.methods.mep import LEAST_PROBABILITY, MEP, population_surprise
from coverset.teammates.self_play import SelfPlayGrid, self_play_likelihoods
from coverset.teammates.trainer import Trainer
from small_world import play_rollout, small_world

GAME = MatrixGame(horizon=2)
METHOD = MEP(alpha=0.3)
WORLD = small_world(3, GAME, envs_per_pair=2, extra_self_play=1)


@pytest.fixture(scope="module")
def rollout():
    return play_rollout(METHOD, WORLD, scale=300.0)


def test_every_environment_of_a_row_is_its_own_pairs() -> None:
    grid = METHOD.grid(WORLD.settings)
    assert (grid.row_size, grid.column_size, grid.num_envs) == (7, 7, 21)
    np.testing.assert_array_equal(grid.teammates(), grid.best_responses())
    assert grid.in_self_play().all()
    np.testing.assert_array_equal(grid.cell_sums(jnp.ones((3, 7))), 7 * np.eye(3))
    np.testing.assert_array_equal(grid.is_played(), np.eye(3, dtype=bool))


def test_the_bonus_is_the_surprise_of_the_mean_policies(rollout) -> None:
    """Policy by policy, step by step."""
    networks, steps = rollout.networks, rollout.steps
    found = METHOD.bonus((), jnp.eye(3), rollout)
    assert float(jnp.std(found)) > 0
    for place in np.ndindex(*steps.reward.shape):
        wanted = 0.0
        for seat, stack in enumerate((networks.best_responses, networks.teammates)):
            chances = []
            for member in range(3):
                policy = jax.tree.map(lambda x, k=member: x[k], stack)
                logits = np.asarray(policy(steps.observations[place][seat]), float)
                chances.append(np.exp(logits)[int(steps.actions[place][seat])] / np.exp(logits).sum())
            wanted -= 0.3 * np.log(np.mean(chances)) / 2
        np.testing.assert_allclose(found[place], wanted, rtol=1e-4)


def test_likelihoods_of_own_policies_are_those_of_the_rollout(rollout) -> None:
    for seat, log_p in enumerate(self_play_likelihoods(rollout)):
        own = np.stack([log_p[k, :, k] for k in range(3)], axis=1)
        np.testing.assert_allclose(own, rollout.steps.log_p[..., seat], rtol=1e-4)


def test_in_expectation_the_bonus_is_the_entropy_of_the_mean_policy() -> None:
    policies = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    surprise = population_surprise(jnp.log(jnp.asarray(policies, jnp.float32)))
    mean = policies.mean(axis=0)
    np.testing.assert_allclose(
        (policies * np.asarray(surprise)[None]).sum(axis=1).mean(), -(mean * np.log(mean)).sum(), rtol=1e-5
    )


def test_probabilities_have_a_floor() -> None:
    np.testing.assert_allclose(population_surprise(jnp.full((4,), -1e6)), -np.log(LEAST_PROBABILITY), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"network": "gru"}, r"^network must be one without memory for mep, which asks every policy, got 'gru'\.$"),
        ({"restart_patience": 3}, r"^restart_patience must be 0 for a method whose pairs play with themselves alone"),
        ({"stop_patience": 3}, r"^stop_patience must be 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Trainer(GAME, METHOD, small_world(2, **changes).settings)


def test_presets_with_restarts_are_changed() -> None:
    from coverset.presets import resolve_generation

    settings, method = resolve_generation("foraging", "mep", "fast")
    assert (settings.restart_patience, settings.stop_patience, settings.share_pair_parameters) == (0, 0, True)
    assert isinstance(Trainer(GAME, method, settings).grid, SelfPlayGrid)
