"""What a run finds out about its own units, and that learning does not depend on the scale of rewards."""

import jax.numpy as jnp
import numpy as np
import pytest

from coverset.pipeline.generate import generate, make_plan
from coverset.settings import GenerateSettings
from coverset.teammates.units import FORGETTING, start_units

SCALES = (jnp.ones(2), jnp.ones(2))
PAYOFFS = np.array([[10.0, 0.0, 4.0], [0.0, 6.0, 4.0], [4.0, 4.0, 6.0]])


def test_the_range_widens_at_once_and_narrows_slowly() -> None:
    units = start_units(2, 2).follow(jnp.asarray([[1.0, 0.0], [2.0, 1.0]]), 0.0, SCALES)
    assert (float(units.lowest), float(units.highest), float(units.unit)) == (0.0, 2.0, 2.0)
    units = units.follow(jnp.asarray([[9.0, -1.0], [2.0, 1.0]]), 0.0, SCALES)
    assert (float(units.lowest), float(units.highest)) == (-1.0, 9.0)
    units = units.follow(jnp.full((2, 2), 4.0), 0.0, SCALES)
    np.testing.assert_allclose([units.lowest, units.highest], [-1.0 + 5.0 * FORGETTING, 9.0 - 5.0 * FORGETTING])
    np.testing.assert_allclose(units.of_returns(jnp.full((2, 2), units.highest)), jnp.ones((2, 2)), rtol=1e-6)


def test_values_that_differ_by_state_are_the_unit_while_pairs_earn_alike() -> None:
    units = start_units(2, 2).follow(jnp.full((2, 2), 3.0), 0.5, SCALES)
    assert float(units.unit) == 0.5


def test_the_first_advantages_are_not_remembered() -> None:
    units = start_units(2, 2).follow(jnp.zeros((2, 2)), 0.0, SCALES)
    assert not units.advantages[0].any()
    assert units.follow(jnp.zeros((2, 2)), 0.0, SCALES).advantages[1].all()


@pytest.mark.parametrize(
    ("horizon", "minibatches", "length"), [(1, 8, 8), (1, 1, 8), (3, 8, 24), (50, 8, 64), (100, 4, 64)]
)
def test_rollouts_span_few_episodes(horizon: int, minibatches: int, length: int) -> None:
    settings = GenerateSettings(
        population_size=2, total_steps=1, rollout_length=64, max_rollout_episodes=8, minibatches=minibatches
    )
    assert settings.for_horizon(horizon).rollout_length == length


@pytest.mark.parametrize(("factor", "shift"), [(1e-3, 0.0), pytest.param(1e3, 500.0, marks=pytest.mark.slow)])
def test_defaults_find_the_coverage_set_whatever_the_scale(tmp_path, factor: float, shift: float) -> None:
    """The settings of games without a preset; seed 0 is one by which they were chosen."""
    payoffs = (factor * PAYOFFS + shift).tolist()
    (run,) = generate(
        "coverset.envs.matrix:MatrixGame",
        env_parameters={"payoffs": payoffs},
        population_size=3,
        total_steps=150_000,
        out=tmp_path,
    )
    assert run["coverage_found"] == 3
    assert run["margin"] == pytest.approx(0.1 * 10.0 * factor, rel=0.2)


def test_plans_shorten_rollouts_by_the_horizon() -> None:
    plan = make_plan("coverset.envs.matrix:MatrixGame")
    assert plan.settings.rollout_length == 8
