"""Tuning of alpha: by hand-made populations whose worth is known, and from end to end at toy size."""

import json
from pathlib import Path

import jax.numpy as jnp
import pytest

import coverset
from coverset.cli.main import run
from coverset.envs.matrix import MatrixGame
from coverset.pipeline.loop import TrainingDiverged
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population
from coverset.study import units
from coverset.study.engine import UnitOutcome, UnitState
from coverset.study.tune import Candidate, Tuning, measure_regrets, refine_grid
from toy_study import GENERATION


def always(*actions: int) -> ActorPolicy:
    """Policies that always choose one of three actions."""
    return dense_policy(MLP((jnp.zeros((len(actions), 1, 3)),), (50.0 * jnp.eye(3)[jnp.array(actions)],)))


def tuning(*candidates: Candidate) -> Tuning:
    return Tuning("matrix", "lipo", "fast", (0,), 3, candidates, (UnitOutcome("alpha-1/generate", UnitState.DONE),))


def test_regret_is_what_better_best_responses_would_have_earned() -> None:
    """Payoffs 10, 6 and 6 on the diagonal, 4 for action 3 with the others: known by hand for every teammate."""
    populations = {
        0.1: [Population(always(0, 1, 2), always(0, 1, 2))],
        1.0: [Population(always(0, 0, 1), always(0, 0, 1)), Population(always(2, 2, 2), always(0, 0, 1))],
    }
    found = measure_regrets(MatrixGame(), populations)
    assert found[0.1] == pytest.approx(0.0, abs=1e-5)
    # Teammates, over all: five of action 1, three of action 2, one of action 3.
    missing_third = 1 * (6 - 4) / 9
    only_third = (5 * (10 - 4) + 3 * (6 - 4)) / 9
    assert found[1.0] == pytest.approx((missing_third + only_third) / 2, rel=1e-5)


def test_members_found_come_first_then_regret_then_the_smaller_alpha() -> None:
    less, more = Candidate(0.1, 2.0, 0.0, 9.0, 1.0), Candidate(5.0, 2.5, 3.0, 1.0, 1.0)
    assert tuning(less, more).chosen == 5.0
    assert tuning(less, Candidate(1.0, 2.0, 0.1, 9.0, 1.0)).chosen == 0.1
    assert tuning(Candidate(1.0, 2.0, 0.0, 9.0, 1.0), less).chosen == 0.1
    assert tuning(Candidate(1.0, None, 0.5, 9.0, 1.0), Candidate(2.0, None, 0.4, 9.0, 1.0)).chosen == 2.0
    assert tuning().chosen is None


def test_close_values_are_geometric_means_with_the_neighbours() -> None:
    assert refine_grid([0.1, 0.5, 1.0, 5.0, 10.0], 1.0) == [0.1, 0.5, 0.71, 1.0, 2.2, 5.0, 10.0]
    assert refine_grid([0.1, 0.5, 1.0], 0.1) == [0.1, 0.22, 0.5, 1.0]
    assert refine_grid([2.0], 2.0) == [2.0]


@pytest.mark.slow
def test_each_alpha_has_a_run_of_its_own_and_the_choice_is_written_down(tmp_path: Path, capfd) -> None:
    settings = [f"{name}={json.dumps(value)}" for name, value in GENERATION.items()]
    words = ["tune", "matrix", "--method", "lipo", "--alphas", "1", "0.25", "--seeds", "0", "--out", str(tmp_path)]
    assert run([*words, "--generation", *settings]) == 0
    assert "chosen" in capfd.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alpha-0.25", "alpha-0.5", "alpha-1", "tune.json"]
    for alpha in (0.25, 0.5, 1):
        config = json.loads((tmp_path / f"alpha-{alpha}" / "seed-0" / "config.json").read_text())
        assert (config["method"], config["method_settings"]["alpha"]) == ("lipo", alpha)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}
    assert run([*words, "--generation", *settings, "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer == json.loads((tmp_path / "tune.json").read_text())
    assert [candidate["alpha"] for candidate in answer["candidates"]] == [0.25, 0.5, 1.0]
    best = max(answer["candidates"], key=lambda one: (one["coverage_found"], -one["regret"], -one["alpha"]))
    assert answer["chosen"] == best["alpha"]
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}


def test_alphas_that_cannot_be_trained_are_told_and_not_chosen(tmp_path: Path, monkeypatch) -> None:
    """The largest alpha diverges; the others are tuned on, and refined between themselves."""
    trained = units.generate

    def generate(environment: str, **chosen):
        if chosen["alpha"] == 9.0:
            raise TrainingDiverged("Training of seed 0 diverged.")
        return trained(environment, **chosen)

    monkeypatch.setattr(units, "generate", generate)
    chosen = {"method": "brdiv", "seeds": (0,), "out": tmp_path, "generation": GENERATION}
    found = coverset.tune("matrix", alphas=(1.0, 4.0, 9.0), **chosen)
    assert [candidate.alpha for candidate in found.candidates] == [1.0, 2.0, 4.0]
    assert [outcome.error for outcome in found.failed] == ["Training of seed 0 diverged."]
    assert json.loads((tmp_path / "tune.json").read_text())["failed"][0]["name"] == "alpha-9/generate"
    assert coverset.tune("matrix", alphas=(9.0,), **chosen).chosen is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["matrix"], "--method"),
        (["matrix", "--method", "lbrdiv"], "method must be one of brdiv, lipo"),
        (["matrix", "--method", "lipo", "--alphas", "0"], "alpha must be a finite number above 0"),
        (["matrix", "--method", "lipo", "--alphas"], "alphas must hold at least one"),
        (["matrix", "--method", "lipo", "--refinements", "-1"], "refinements must be at least 0"),
        (["matrix", "--method", "lipo", "--generation", "alpha=2"], "alpha is what is tuned"),
        (["nowhere", "--method", "lipo"], "environment must be one of"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, capfd, words: list[str], sentence: str) -> None:
    assert run(["tune", *words, "--out", str(tmp_path)]) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
