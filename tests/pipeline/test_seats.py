"""Agents in any seat of a game whose seats are alike: what is logged, measured and saved belongs to that seat."""

import json
from pathlib import Path

import pytest

from coverset.adhoc.saved import load_agent
from coverset.pipeline.evaluate import evaluate
from coverset.pipeline.generate import generate
from coverset.pipeline.train import train
from toy_run import SETTINGS

TRAINED = {"total_steps": 64, "chunk_steps": 64, "hidden_sizes": (4,), "memory_size": 4, "rollout_length": 4}
TRAINED |= {"envs_per_partner": 4, "minibatches": 1, "epochs": 1, "evaluations": 1, "episodes_per_trial": 2}


def unequal(players: int) -> list:
    """Tables whose payoff is 1 for seat 0, 2 for seat 1, and so on, whatever anybody does."""
    table = [1.0, 1.0]
    for _ in range(players - 1):
        table = [table, table]

    def scaled(entry, factor: float):
        return [scaled(each, factor) for each in entry] if isinstance(entry, list) else factor * entry

    return [scaled(table, seat + 1.0) for seat in range(players)]


@pytest.mark.parametrize("players", [2, 3])
def test_an_agent_in_the_last_seat_is_measured_by_its_own_reward(tmp_path: Path, monkeypatch, players: int) -> None:
    monkeypatch.setattr("coverset.envs.matrix.dynamics.MatrixGame.seats_alike", True)
    parameters = {"payoffs": unequal(players), "by_player": True}
    generate("matrix", out=tmp_path, env_parameters=parameters, **{**SETTINGS, "minibatches": 1, "total_steps": 80})
    seat = players - 1
    train(tmp_path, learner="feedforward", seat=seat, **TRAINED)
    place = tmp_path / "seed-0" / "feedforward"
    row = json.loads((place / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["mean_return"] == players
    assert row["held_out_return"] == players
    (record,) = evaluate(tmp_path, learner="feedforward", trials=1, episodes=1)
    assert (record["seat"], record["mean_return"]) == (seat, players)
    assert record["partners"]["H1"]["seat_returns"] == [1.0 + number for number in range(players)]
    assert load_agent(place).about["seat"] == seat
