"""Zero-sum games: what teammates want, and the witnesses that the theory asks for."""

import numpy as np
import pytest

from coverset.envs import registry
from coverset.evaluation.conventions import coverage_set, find_members
from coverset.presets import resolve_generation
from coverset.solver import solve


@pytest.mark.parametrize(("name", "size"), [("rock-paper-scissors", 3), ("matching-pennies", 2)])
def test_registered_zero_sum_games_are_those_of_the_solver(name: str, size: int) -> None:
    game = registry.make(name)
    ego, other = np.array(game.tables)
    np.testing.assert_array_equal(ego, -other)
    exact = solve(name)
    np.testing.assert_array_equal(ego, np.array(exact.game.ego, float))
    assert coverage_set(game) == exact.coverage_set
    assert len(exact.coverage_set) == size
    settings, _ = resolve_generation(name, "lbrdiv", "fast")
    assert settings.population_size == size
    assert settings.margin < min(exact.margins), "the constraints could not hold"
    assert settings.ego_reward_share == 0.0


@pytest.mark.parametrize("margin", [0.1, 0.5, 0.9])
def test_the_strongest_opponents_that_leave_a_best_response_by_a_margin(margin: float) -> None:
    """The linear program of docs/concepts/method.md, by search: teammates that constraints hold and greed moves."""
    table = np.array(registry.make("rock-paper-scissors").tables[0])
    steps = np.linspace(0.0, 1.0, 301)
    mixes = np.array([(r, p, 1.0 - r - p) for r in steps for p in steps if r + p <= 1.0 + 1e-9])
    values = mixes @ table.T
    paper = 1
    others = np.delete(values, paper, axis=1).max(axis=1)
    allowed = values[:, paper] >= others + margin - 1e-9
    best = mixes[allowed][np.argmin(values[allowed, paper])]
    np.testing.assert_allclose(best, [(1 + margin) / 3, 1 / 3, (1 - margin) / 3], atol=0.01)
    shares = np.array([[*best, 0.0]])
    assert find_members(registry.make("rock-paper-scissors"), np.eye(4)[[paper]], shares) == [paper]
