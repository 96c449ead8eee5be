"""A game in one file outside of the package goes through every command with its own partners, oracle and board."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from lamps import NAMES, Lamps, RoundRobin

import coverset
import toy_run
from coverset.evaluation.robustness import evaluate_agent
from coverset.partners import find_partners, read_run
from coverset.studio import replays, trials  # noqa: F401  in threads the tests' import hook trips over ast.parse
from studio_client import Served

GAME = "lamps:Lamps"
PARTNERS = [*NAMES, "in-turn"]
SETTINGS = {**toy_run.SETTINGS, "minibatches": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A generated population with two agents, trained with the teammates; not to be changed."""
    directory = tmp_path_factory.mktemp("lamps") / "run"
    coverset.generate(GAME, out=directory, **SETTINGS)
    coverset.train(directory, learner="plastic")
    few = {"total_steps": 600, "hidden_sizes": (8,), "evaluations": 1, "episodes_per_trial": 2}
    coverset.train(directory, learner="rl2", **few)
    return directory


def test_the_game_keeps_the_contract() -> None:
    coverset.check_environment(Lamps())


def test_generate_speaks_of_the_games_own_conventions(run: Path) -> None:
    (summary,) = coverset.generate(GAME, out=run, resume=True, **SETTINGS)
    assert summary["coverage_size"] == 3
    assert all("lamp" in words for words in summary["conventions"])


def test_train_measures_with_the_games_own_partners(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "seed-0" / "rl2" / "metrics.jsonl").read_text().splitlines()]
    assert [*rows[-1]["held_out"]] == PARTNERS


def test_heuristics_are_partners_to_train_with(run: Path) -> None:
    loaded = read_run(run / "seed-0")
    assert len(find_partners(loaded, ["red", "in-turn"], seat=1)) == 2
    with pytest.raises(ValueError, match="got Switcher and RoundRobin: name them one by one"):
        find_partners(loaded, ["heuristics"], seat=1)


def test_evaluate_uses_the_games_partners_and_oracles(run: Path) -> None:
    (record,) = coverset.evaluate(run, learner="plastic", trials=4, episodes=2)
    assert [*record["partners"]] == PARTNERS
    assert {name: told["oracle"] for name, told in record["partners"].items()} == {
        "red": 0.8,
        "green": 0.8,
        "blue": 0.4,
        "in-turn": None,
    }
    fractions = [told["oracle_fraction"] for told in record["partners"].values()]
    assert fractions[-1] is None
    assert record["oracle_partners"] == 3
    assert record["oracle_fraction"] == pytest.approx(sum(fractions[:3]) / 3, abs=1e-5)


def test_the_oracles_policy_earns_its_value() -> None:
    game = Lamps()
    known = coverset.oracles(game)
    assert known["blue"].value == pytest.approx(0.4)
    record = evaluate_agent(
        jax.random.key(0), game, known["blue"].policy, partners=game.heuristics(), oracles=known, trials=500
    )
    assert record.oracle_fraction("blue") == pytest.approx(1.0, abs=0.03)
    assert coverset.best_response(game, RoundRobin(jnp.int32(0))) is None


def test_the_report_names_the_partners(run: Path) -> None:
    coverset.evaluate(run, learner="plastic", trials=4, episodes=2)
    page = Path(coverset.report(run)["page"]).read_text()
    assert "in-turn" in page
    assert "red lamp" in page


def test_the_studio_draws_the_games_board(run: Path) -> None:
    with Served(run.parent) as studio:
        told = studio.get("/api/board?run=run/seed-0").json
        watched = studio.get("/api/watch?run=run/seed-0&best_response=1&teammate=2&seed=0").json
        sitting = {"run": "run/seed-0", "partner": "heuristic:red", "episodes": 1, "seed": 0}
        trial = studio.post("/api/trials", sitting).json
    board = told["board"]
    assert (board["kind"], board["hides_partner"]) == ("grid", True)
    assert board["rules"].startswith("Switch the same lamp")
    assert [action["key"] for action in board["actions"][0]] == ["r", "g", "b"]
    assert [place["name"] for place in board["grid"]["places"]] == ["red lamp", "green lamp", "blue lamp"]
    assert told["heuristics"][0]["does"] == "Mostly switches the red lamp."
    assert told["heuristics"][3] == {"reference": "heuristic:in-turn", "name": "in-turn", "does": ""}
    start, after, _ = watched["episodes"][0]
    assert start["scene"]["words"] == "All lamps are dark."
    assert after["scene"]["positions"] == [[1, lamp] for lamp in after["actions"]]
    assert trial["partner"]["name"] == "heuristic red"
