"""Preset `paper` against the tables of the paper's appendix, whose values stand here as they are printed there."""

import math
from dataclasses import asdict

import pytest

from coverset.presets import resolve_generation, train_settings

ENVIRONMENTS = ("matrix", "reaching", "weighted-reaching", "foraging")
"""The tables' columns: RPM, CR, WCR, LBF."""
GENERATION = {
    "population_size": (3, 4, 4, 6),
    "learning_rate": (1e-3, 1e-4, 1e-4, 1e-4),
    "critic_learning_rate": (1e-3, 1e-4, 1e-4, 1e-4),
    "multiplier_learning_rate": (0.05, 0.5, 0.5, 0.05),
    "discount": (0.99, 0.99, 0.99, 0.99),
    "total_steps": (1_000_000, 32_000_000, 32_000_000, 240_000_000),
    "rollout_length": (2, 8, 8, 8),
    "multiplier_interval": (10, 10, 10, 10),
    "margin": (1.0, 0.2, 0.5, 0.1),
    "entropy": (1e-3, 5e-3, 5e-3, 8e-4),
    "hidden_sizes": ((32, 32), (128, 256, 256, 128), (128, 256, 256, 128), (128, 128)),
}
MULTIPLIERS = ("multiplier_learning_rate", "multiplier_interval")
"""Of the table's rows, those that are settings of L-BRDiv itself."""
ENVIRONMENTS_IN_ALL = (45, 160, 160, 162)
"""The tables have 40, 160, 160 and 160 threads, which 9 and 36 pairs cannot share evenly."""
ALPHA = {"lipo": (0.5, 8.0, 0.25, 0.08), "brdiv": (1.0, 10.0, 1.0, 0.4)}
AGENTS = {
    "learning_rate": (1e-4, 1e-4, 1e-4, 1e-4),
    "critic_learning_rate": (1e-4, 1e-4, 1e-4, 1e-4),
    "discount": (0.99, 0.99, 0.99, 0.99),
    "total_steps": (1_000_000, 12_000_000, 12_000_000, 48_000_000),
    "rollout_length": (2, 8, 8, 8),
    "entropy": (1e-4, 2.5e-4, 2.5e-4, 8e-4),
    "memory_size": (16, 32, 32, 64),
    "hidden_sizes": GENERATION["hidden_sizes"],
}
AGENT_THREADS = (10, 16, 16, 16)


@pytest.mark.parametrize("column", range(4), ids=ENVIRONMENTS)
@pytest.mark.parametrize("method", ["lbrdiv", "brdiv", "lipo"])
def test_generation_is_that_of_the_tables(method: str, column: int) -> None:
    """The methods share all values but alpha."""
    settings, own = resolve_generation(ENVIRONMENTS[column], method, "paper")
    found = {**asdict(settings), **asdict(own)}  # pyright: ignore[reportArgumentType]
    wanted = {name: GENERATION[name][column] for name in GENERATION if method == "lbrdiv" or name not in MULTIPLIERS}
    assert {name: found[name] for name in wanted} == wanted
    if method in ALPHA:
        assert found["alpha"] == ALPHA[method][column]


@pytest.mark.parametrize("column", range(4), ids=ENVIRONMENTS)
def test_agents_are_those_of_the_table(column: int) -> None:
    settings = train_settings(ENVIRONMENTS[column], "paper")
    assert {name: getattr(settings, name) for name in AGENTS} == {name: AGENTS[name][column] for name in AGENTS}


@pytest.mark.parametrize("column", range(4), ids=ENVIRONMENTS)
def test_threads_are_shared_out_among_pairs_and_teammates(column: int) -> None:
    """Every pair has as many; where the number does not divide, a few more are in all pairs, or in self-play."""
    settings, _ = resolve_generation(ENVIRONMENTS[column], "lbrdiv", "paper")
    size = settings.population_size
    in_all = size * size * settings.envs_per_pair + size * settings.extra_self_play
    assert in_all == ENVIRONMENTS_IN_ALL[column]
    partners = train_settings(ENVIRONMENTS[column], "paper").envs_per_partner
    assert partners == math.ceil(AGENT_THREADS[column] / size)


@pytest.mark.parametrize("method", ["brdiv", "lipo"])
def test_in_foraging_baselines_train_with_the_settings_and_the_budget_of_lbrdiv(method: str) -> None:
    (ours, _), (theirs, _) = (resolve_generation("foraging", name, "fast") for name in ("lbrdiv", method))
    assert ours == theirs
