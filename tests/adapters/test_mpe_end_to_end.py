"""Three agents of mpe2, with a common goal and with opposed rewards, from teammates to the report, at toy size."""

import json
from pathlib import Path

import pytest

from coverset.cli.main import run
from toy_run import words

ADAPTER = "coverset.adapters.pettingzoo:from_parallel"
AGENT = ["--hidden-sizes", "8", "--memory-size", "4", "--envs-per-partner", "2", "--rollout-length", "3"]
AGENT += ["--minibatches", "1", "--epochs", "1", "--total-steps", "24", "--chunk-steps", "12"]
AGENT += ["--episodes-per-trial", "2"]
GAMES = {"simple_spread_v3": ["seats_swap=true"], "simple_adversary_v3": []}


@pytest.mark.parametrize("game", ["simple_spread_v3", pytest.param("simple_adversary_v3", marks=pytest.mark.slow)])
def test_three_agents_of_mpe2_are_trained_measured_and_reported(tmp_path: Path, capsys, game: str) -> None:
    out = str(tmp_path / "runs")
    environment = [f"environment=mpe2.{game}:parallel_env", "horizon=3", "max_cycles=3", *GAMES[game]]
    toy = words(total_steps=48, chunk_steps=48, rollout_length=3, minibatches=1)
    assert run(["generate", ADAPTER, "--env-args", *environment, *toy, "--out", out]) == 0
    assert run(["train", out, *AGENT]) == 0
    capsys.readouterr()
    assert run(["evaluate", out, "--partners", "teammates", "--trials", "2", "--episodes", "2", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["agents"]
    assert [*record["mixed_teams"]] == ["teammates 1 + teammates 2", "teammates 2 + teammates 1"]
    summary = json.loads((tmp_path / "runs" / "seed-0" / "summary.json").read_text())
    seats = summary["seat_returns"][0][1]
    assert len(seats) == 3
    assert seats[0] == pytest.approx(summary["cross_play"][0][1], abs=1e-3)
    if game == "simple_adversary_v3":
        assert seats[1] == pytest.approx(seats[2], abs=1e-3), "the two good agents earn the same"
        assert seats[0] != pytest.approx(seats[1], abs=1e-1), "the adversary does not"
    assert run(["report", out, "--json"]) == 0
    assert "mean return of every seat in self-play" in Path(json.loads(capsys.readouterr().out)["page"]).read_text()
