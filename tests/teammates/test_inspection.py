"""Estimated measures against exact ones: simulation within its standard errors, and probes that learn."""

import jax
import numpy as np

from coverset.certificates.inspection import measure_exactly
from coverset.evaluation.inspection import describe_measures
from coverset.pipeline.generate import make_plan
from coverset.policies.population import Population
from coverset.teammates.inspection import estimate_measures
from opening import WORDS, Opening, mixed_population


def test_estimates_agree_with_exact_measures() -> None:
    changes = {"hidden_sizes": (25,), "population_size": 2, "learning_rate": 1e-2, "envs_per_pair": 4, "entropy": 0.0}
    settings = make_plan(Opening(), method="independent", **changes).settings
    population = Population(*jax.tree.map(lambda x: x[:2], tuple(mixed_population())))
    exact = measure_exactly(Opening(), population, trials=20)
    found = estimate_measures(jax.random.key(0), Opening(), population, settings, steps=20_000, episodes=64)
    assert found.steps >= 20_000
    measured = found.measured
    for name in ("pair_returns", "after_prefix"):
        one, other = getattr(measured, name), getattr(exact, name)
        assert np.all(np.abs(one.value - other.value) <= 5 * one.standard_error + 0.02), name
    for one, other in zip(measured.own_response, exact.own_response, strict=True):
        assert np.all(np.abs(one.value - other.value) <= 5 * one.standard_error + 0.02)
    for name in ("best_responses", "best_partners"):
        assert np.allclose(getattr(measured, name).value, getattr(exact, name).value, atol=1e-3), name
    assert measured.best_response.from_start.value[0] > 0.5  # what a probe has learned
    assert np.allclose(measured.lengths, exact.lengths)
    assert [each["word"] for each in describe_measures(measured)["teammates"]] == WORDS[:2]
