"""Teammates and agents train in Overcooked at toy size, with shaped rewards that no result counts."""

import json
from pathlib import Path

import pytest

import coverset
import toy_run
from coverset.cli.main import run


def generate(out: Path, *words: str, **settings) -> int:
    """Teammates by self-play at toy size; the exit code."""
    options = toy_run.words(**{"total_steps": 160, "rollout_length": 4, "minibatches": 1, **settings})
    game = ("overcooked", "--method", "independent", "--env-args", "layout=coord_ring", "horizon=12")
    return run(["generate", *game, *words, *options, "--out", str(out)])


@pytest.fixture(autouse=True)
def few_trials(monkeypatch) -> None:
    monkeypatch.setattr("coverset.evaluation.summary.TRIALS", 2)


def test_teammates_train(tmp_path: Path, capsys) -> None:
    assert generate(tmp_path, shaping_share=0.7) == 0
    assert "One of the soups is a return of 20." in capsys.readouterr().out
    summary = json.loads((tmp_path / "seed-0" / "summary.json").read_text())
    assert summary["return_unit"] == {"name": "soups", "size": 20.0}
    assert summary["cross_play"] == [[0.0, 0.0], [0.0, 0.0]], "no soup is cooked in 12 steps"


@pytest.mark.slow
def test_agents_train_with_scripted_cooks(tmp_path: Path) -> None:
    assert generate(tmp_path) == 0
    (agent,) = coverset.train(
        tmp_path,
        partners=["heuristics"],
        total_steps=132,
        chunk_steps=132,
        envs_per_partner=1,
        minibatches=1,
        rollout_length=4,
        hidden_sizes=(4,),
        memory_size=4,
        evaluations=0,
    )
    assert agent["env_steps"] >= 132
    (record,) = coverset.evaluate(tmp_path, trials=2, episodes=2)
    assert record["return_unit"] == {"name": "soups", "size": 20.0}
    assert record["mean_return"] == 0.0
    assert set(record["partners"]) == set(coverset.heuristics(coverset.make("overcooked")))


@pytest.mark.slow
def test_images_are_for_convolutions(tmp_path: Path) -> None:
    assert generate(tmp_path / "image", "encoding=image", "--network", "conv") == 0
    assert generate(tmp_path / "vector", "--network", "conv") == 2


def test_the_share_is_checked() -> None:
    with pytest.raises(ValueError, match=r"shaping_share must lie between 0 and 1, got 1\.5"):
        coverset.generate("overcooked", shaping_share=1.5)
