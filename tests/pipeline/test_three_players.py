"""From teammates to held-out teams with three players, at toy size."""

import json
from pathlib import Path

import numpy as np
import pytest

import coverset
import toy_run

AGENT = {
    "total_steps": 200, "chunk_steps": 200, "hidden_sizes": (4,), "memory_size": 4, "envs_per_partner": 4,
    "rollout_length": 2, "episodes_per_trial": 2, "minibatches": 1, "evaluations": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Agents in the last seat of a game whose seats are alike, trained with two generated teammates."""
    out = tmp_path_factory.mktemp("three")
    table = np.indices((2, 2, 2)).sum(axis=0).astype(float)
    parameters = {"payoffs": table.tolist()}
    coverset.generate("matrix", out=out, seeds=(0,), env_parameters=parameters, **toy_run.SETTINGS)
    coverset.train(out, seat=2, **AGENT)
    return out


def test_agents_are_evaluated_with_whole_and_mixed_teams(trained: Path) -> None:
    (record,) = coverset.evaluate(trained, trials=2, episodes=2)
    heuristics = ["H1", "H2", "H3", "H4"]
    assert list(record["partners"]) == heuristics
    assert list(record["mixed_teams"]) == ["H1 + H2", "H2 + H3", "H3 + H4", "H4 + H1"]
    assert record["oracle_partners"] == 4
    # The first team plays actions 0 and 1, and the agent 0 or 1: 1 or 2 in all.
    assert 1.0 <= record["mixed_teams"]["H1 + H2"]["mean_return"] <= 2.0
    assert json.loads((trained / "seed-0" / "rl2" / "evaluation.json").read_text()) == record
    assert coverset.evaluate(trained, trials=1, episodes=1, mixed_teams=False)[0]["mixed_teams"] == {}


def test_returns_do_not_depend_on_the_seat_of_the_agent(trained: Path) -> None:
    """All seats are alike, so a team that always plays its second action pays 2 or 3 in every seat."""
    (record,) = coverset.evaluate(trained, partners=("H2",), trials=6, episodes=2, rotate_seats=True)
    assert 2.0 <= record["mean_return"] <= 3.0


def test_held_out_returns_while_training_are_the_agents(trained: Path) -> None:
    """A team of H2 plays action 1 twice: the agent and it earn 2 or 3, and with H1 0 or 1."""
    row = json.loads((trained / "seed-0" / "rl2" / "metrics.jsonl").read_text().splitlines()[-1])
    assert 2.0 <= row["held_out"]["H2"] <= 3.0
    assert 0.0 <= row["held_out"]["H1"] <= 1.0
