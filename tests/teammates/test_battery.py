"""The battery that every method passes: it learns a tiny game, and its runs are stored, repeated and resumed exactly.

The game pays 1 if both players choose the same of two actions: each of its two conventions needs a pair of its own.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import coverset
from coverset.pipeline.loop import Reporter, Stopped
from coverset.policies.population import save_population
from coverset.policies.stacked import count_members
from coverset.runs.directory import RunDirectory
from coverset.teammates.registry import METHODS

AGREE = {"payoffs": [[1.0, 0.0], [0.0, 1.0]]}
SMALL: dict[str, Any] = {
    "population_size": 2, "total_steps": 24_000, "chunk_steps": 6_000, "hidden_sizes": (8,), "envs_per_pair": 8,
    "rollout_length": 4, "epochs": 2, "minibatches": 1, "learning_rate": 0.02, "critic_learning_rate": 0.02,
    "entropy": 0.05, "entropy_final": 0.0, "normalise_advantages": True, "parallel_seeds": 1, "margin": 0.5,
}  # fmt: skip
SEED = 5


@dataclass(frozen=True)
class Expectation:
    """What a method does in the tiny game."""

    settings: dict[str, Any] = field(default_factory=dict)
    apart: bool = False
    """Whether its pairs always end with different conventions."""
    members: tuple[int, int] = (2, 2)
    """Best responses and teammates that are saved."""
    least: float = 0.9
    """What every pair earns at least."""


EXPECTED = {
    "lbrdiv": Expectation(apart=True),
    "brdiv": Expectation({"alpha": 1.0}, apart=True),
    "lipo": Expectation({"alpha": 0.5}, apart=True),
    "lipo-max": Expectation(apart=True),
    "growing": Expectation({"total_steps": 120_000, "probes": 4, "rounds": 2, "entropy": 0.02}, apart=True),
    "independent": Expectation(),
    "mep": Expectation({"alpha": 0.1}),
    "trajedi": Expectation({"diversity_weight": 0.4}),
    "fcp": Expectation(members=(2, 6)),
    "comedi": Expectation(apart=True),
    "adversity": Expectation(apart=True),
    "lbrdiv-guarded": Expectation(apart=True),
    # Both conventions are the same to it, and it cannot choose; test_other_play.py has a game that it learns.
    "other-play": Expectation(least=-1.0),
    "rotate": Expectation({"ego_share": 0.5}, members=(3, 2)),
    "maven": Expectation({"information_weight": 0.4}, apart=True),
    "edrqn": Expectation({"highest_entropy": 0.2, "entropy": 0.0}, least=0.8),
}
SLOW = ("growing",)


class StopAfter(Reporter):
    """Asks to stop after some chunks, and counts them."""

    def __init__(self, chunks: int) -> None:
        self.limit, self.count = chunks, 0

    def chunk(self, env_steps: int, status: str) -> None:
        self.count += 1

    def should_stop(self) -> bool:
        return self.count >= self.limit


def generate(method: str, out: Path, **options: Any) -> dict[str, Any]:
    chosen = {**SMALL, **EXPECTED[method].settings, **options}
    return coverset.generate("matrix", method=method, env_parameters=AGREE, seeds=[SEED], out=out, **chosen)[0]


def test_every_method_is_in_the_battery() -> None:
    assert set(EXPECTED) == set(METHODS)


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in METHODS]
)
def test_a_method_learns_and_its_runs_are_exact(method: str, tmp_path: Path) -> None:
    """One test, so that all its runs share one compiled program."""
    summary = generate(method, tmp_path / "whole")
    check_learned(summary, EXPECTED[method])
    check_saved(tmp_path / "whole" / f"seed-{SEED}", tmp_path, EXPECTED[method])
    stop, rest = StopAfter(2), StopAfter(1000)
    with pytest.raises(Stopped):
        generate(method, tmp_path / "stopped", reporter=stop)
    generate(method, tmp_path / "stopped", reporter=rest, resume=True)
    whole, stopped = (RunDirectory(tmp_path / name / f"seed-{SEED}") for name in ("whole", "stopped"))
    assert len(whole.rows()) == stop.count + rest.count, "a resumed run does not start again"
    for name in ("policies.safetensors", "metrics.jsonl"):
        assert (whole.path / name).read_bytes() == (stopped.path / name).read_bytes(), name


def check_learned(summary: dict[str, Any], expected: Expectation) -> None:
    """Every matched pair earns the best payoff, and where pairs separate, others earn nothing."""
    returns = np.array(summary["cross_play"])
    assert returns.shape == expected.members
    pairs = min(returns.shape)
    assert np.diagonal(returns).min() > expected.least
    if expected.apart:
        assert returns[:pairs, :pairs][~np.eye(pairs, dtype=bool)].max() < 0.2


def check_saved(run: Path, scratch: Path, expected: Expectation) -> None:
    """Loading undoes saving."""
    population, about = coverset.load_population(run / "policies.safetensors")
    assert tuple(map(count_members, population)) == expected.members
    save_population(scratch / "again.safetensors", population, {k: about[k] for k in ("env", "env_parameters", "seed")})
    again, _ = coverset.load_population(scratch / "again.safetensors")
    for mine, theirs in zip(jax.tree.leaves(population), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(mine, theirs)
