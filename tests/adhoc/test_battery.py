"""What every learner of the table must do: learn a tiny game, repeat itself, be resumed to the same bytes."""

import json
import shutil
from pathlib import Path

import pytest

import coverset
import toy_run
from coverset.adhoc.registry import LEARNERS
from coverset.pipeline.loop import Stopped

PARTNERS = ("H1", "H2", "H3")
"""They always choose the same action; the best answers earn 10, 6 and 6."""
TINY = {
    "total_steps": 60_000,
    "chunk_steps": 6_000,
    "hidden_sizes": (16,),
    "memory_size": 16,
    "envs_per_partner": 16,
    "learning_rate": 3e-3,
    "critic_learning_rate": 3e-3,
    "reward_scale": 0.1,
    "entropy": 0.02,
    "entropy_final": 0.002,
    "evaluations": 1,
    "parallel_seeds": 1,
}
WITHOUT_MEMORY = 14 / 3
"""What an agent earns at best that cannot tell its partners apart: 4, 4 and 6 by the third action."""
FITTED = ("plastic", "planner")
"""Learners without gradients."""
WITH_ITSELF = 14 / 3 - 0.3
"""What agents without a population earn at least: their own best convention, the first action, earns 10, 0 and 4."""
ENOUGH = {
    "rl2": 6.0,
    "feedforward": WITHOUT_MEMORY - 0.3,
    "plastic": 6.3,
    "planner": 6.3,
    "liam": 6.0,
    "e3t": WITH_ITSELF,
    "upd": WITH_ITSELF,
    "gpl": 6.0,
    "odits": 5.5,
    "meliba": 6.0,
}
"""Mean return over trials of 20 episodes with the three partners; knowing them from the start earns 22 / 3."""
LOGGED = {
    "rl2": {"imitation_loss"},
    "feedforward": set(),
    "liam": {"observation_loss", "action_loss"},
    "e3t": {"action_loss"},
    "upd": set(),
    "gpl": {"joint_loss", "action_loss"},
    "odits": {"information", "proxy_loss"},
    "meliba": {"action_loss", "divergence"},
}
"""What the learners' own losses log."""
QUICK = ("rl2", "feedforward", "plastic")
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LEARNERS]


@pytest.fixture(scope="module")
def population(tmp_path_factory) -> Path:
    """Teammates who always choose one of three actions, and best responses that answer them."""
    directory = tmp_path_factory.mktemp("battery") / "matrix"
    toy_run.write_constant(directory / "seed-0", "matrix", actions=(0, 1, 2))
    return directory


def train(learner: str, population: Path, place: Path, **options) -> Path:
    """An agent trained in a copy of the run."""
    if not place.exists():
        shutil.copytree(population, place)
    settings = TINY if learner not in FITTED else {}
    coverset.train(place, learner=learner, partners=PARTNERS, checkpoint_seconds=0, **{**settings, **options})
    return place / "seed-0" / learner


@pytest.mark.parametrize("learner", EVERY)
def test_a_learner_learns_a_tiny_game_and_repeats_itself(learner: str, population: Path, tmp_path: Path) -> None:
    agent = train(learner, population, tmp_path / "first")
    (record,) = coverset.evaluate(tmp_path / "first", learner=learner, partners=PARTNERS, trials=32)
    assert record["mean_return"] > ENOUGH[learner]
    again = train(learner, population, tmp_path / "again")
    assert (agent / "agent.safetensors").read_bytes() == (again / "agent.safetensors").read_bytes()


@pytest.mark.slow
def test_e3t_learns_the_best_convention_with_its_noisy_self(population: Path, tmp_path: Path) -> None:
    """Half of the partner's actions are the agent's own and half random: 10 / 2 + (10 + 0 + 4) / 6 with the first."""
    rows = [json.loads(line) for line in (train("e3t", population, tmp_path / "run") / "metrics.jsonl").open()]
    assert rows[-1]["mean_return"] == pytest.approx(22 / 3, abs=0.2)


@pytest.mark.parametrize("learner", EVERY)
def test_an_exported_learner_acts_alike(learner: str, population: Path, tmp_path: Path) -> None:
    few = {} if learner in FITTED else {"total_steps": 2_000, "chunk_steps": 2_000}
    agent = train(learner, population, tmp_path / "run", **few)
    file = coverset.export_agent(agent, tmp_path / "agent.zip")
    played = [coverset.crossplay(place, *PARTNERS[:1], trials=4, episodes=3).returns for place in (agent, file)]
    assert (played[0] == played[1]).all()


@pytest.mark.parametrize("learner", [case for case in EVERY if case.values[0] in LOGGED])
def test_a_stopped_learner_is_resumed_to_the_same_bytes(learner: str, population: Path, tmp_path: Path) -> None:
    few = {"total_steps": 12_000, "chunk_steps": 2_000}
    whole = train(learner, population, tmp_path / "whole", **few)
    with pytest.raises(Stopped):
        train(learner, population, tmp_path / "parts", reporter=toy_run.Witness(stop_after=2), **few)
    parts = train(learner, population, tmp_path / "parts", resume=True, **few)
    for name in ("agent.safetensors", "metrics.jsonl"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert all({*row["learner"]} == LOGGED[learner] for row in rows)
    assert {"entropy", "critic_loss"} < {*rows[0]}
