"""LIPO with the maximum: rivals, weights as the objective's gradient, and what it shares with the sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.teammates.methods.lipo import LIPO
from coverset.teammates.methods.lipo_max import LIPOMax, follow_compatibility, most_compatible
from small_world import seen_values, small_world

RETURNS = jnp.array([[9.0, 1.0, 4.0], [2.0, 8.0, 0.0], [0.0, 3.0, 7.0]])
RIVALS = [2, 0, 0]
"""C_01 = 3, C_02 = 4, C_12 = 3: pair 1 is as compatible with 0 as with 2, and the first counts."""


def test_the_rival_is_the_other_pair_with_the_highest_return_in_both_seats() -> None:
    assert most_compatible(RETURNS + RETURNS.T).tolist() == RIVALS


def test_the_diagonal_is_never_a_rival() -> None:
    assert most_compatible(jnp.diag(jnp.full(4, 100.0))).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_weights_are_the_gradient_of_every_agents_own_objective(alpha: float) -> None:
    method = LIPOMax(alpha=alpha)
    weights = method.weights(RETURNS + RETURNS.T)

    def objective(returns, agent: int):
        others = [returns[agent, j] + returns[j, agent] for j in range(3) if j != agent]
        return returns[agent, agent] - alpha * jnp.max(jnp.stack(others))

    for agent in (0, 2):  # pair 1 has a tie
        gradient = np.asarray(jax.grad(objective)(RETURNS, agent))
        np.testing.assert_allclose(weights.best_responses[agent], gradient[agent], atol=1e-6)
        np.testing.assert_allclose(weights.teammates[:, agent], gradient[:, agent], atol=1e-6)


def test_two_pairs_have_the_weights_of_the_sum() -> None:
    world = small_world(2)
    wanted = LIPO(alpha=0.3).init(jax.random.key(0), world)
    method = LIPOMax(alpha=0.3)
    for weights in method.weights(method.init(jax.random.key(0), world))[:2]:
        np.testing.assert_allclose(weights, wanted)


def test_the_mean_starts_with_the_first_estimate_and_then_moves_by_its_rate() -> None:
    first = follow_compatibility(jnp.full((3, 3), 50.0), RETURNS, 0.25, jnp.bool_(True))
    np.testing.assert_allclose(first, RETURNS + RETURNS.T)
    second = follow_compatibility(first, jnp.zeros((3, 3)), 0.25, jnp.bool_(False))
    np.testing.assert_allclose(second, 0.75 * (RETURNS + RETURNS.T))
    method = LIPOMax()
    begun = method.update(jnp.zeros((3, 3)), seen_values(RETURNS, update=0))
    np.testing.assert_allclose(begun, first)
    assert not np.allclose(method.update(begun, seen_values(2 * RETURNS, update=1)), 2 * first)


@pytest.mark.parametrize("changes", [{"alpha": -1.0}, {"alpha": float("inf")}, {"averaging_rate": 0.0}])
def test_settings_are_checked(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        LIPOMax(**changes)
