"""Every command with three players, turns, illegal actions and a reward for each player, at toy size."""

import csv
import json
from pathlib import Path

import pytest

from coverset.cli.main import run
from coverset.exported.file import load_exported
from picking import ITEMS
from toy_run import words

GAME = "picking:trio"
AGENT = ["--hidden-sizes", "8", "--memory-size", "4", "--envs-per-partner", "4", "--rollout-length", "4"]
AGENT += [
    "--minibatches",
    "1",
    "--epochs",
    "1",
    "--total-steps",
    "64",
    "--chunk-steps",
    "32",
    "--episodes-per-trial",
    "2",
]
SHORT = ["--trials", "3", "--episodes", "2"]
TOTAL = ITEMS * (ITEMS + 1) / 2
"""What all players together earn in an episode."""


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """Two seeds of teammates, an RL^2 agent and a PLASTIC agent for each, evaluated."""
    out = tmp_path_factory.mktemp("study") / "trio"
    assert run(["generate", GAME, *words(total_steps=160, minibatches=1), "--seeds", "0", "1", "--out", str(out)]) == 0
    for learner in ("rl2", "plastic"):
        assert run(["train", str(out), "--learner", learner, *AGENT]) == 0
        assert run(["evaluate", str(out), "--learner", learner, *SHORT]) == 0
    return out


def told(capsys) -> str:
    """The last sentence on standard error."""
    return capsys.readouterr().err.splitlines()[-1]


def test_summaries_hold_the_returns_of_every_seat(study: Path) -> None:
    summary = json.loads((study / "seed-0" / "summary.json").read_text())
    for row, returns in zip(summary["seat_returns"], summary["cross_play"], strict=True):
        for seats, ego in zip(row, returns, strict=True):
            assert seats[0] == pytest.approx(ego, abs=1e-4)
            assert sum(seats) == pytest.approx(TOTAL, abs=1e-3)


def test_evaluations_hold_whole_teams_mixed_teams_and_every_seat(study: Path) -> None:
    record = json.loads((study / "seed-1" / "rl2" / "evaluation.json").read_text())
    assert [*record["partners"]] == ["generous", "greedy"]
    assert [*record["mixed_teams"]] == ["generous + greedy", "greedy + generous"]
    for team in (*record["partners"].values(), *record["mixed_teams"].values()):
        assert team["seat_returns"][0] == pytest.approx(team["mean_return"], abs=1e-4)
        assert sum(team["seat_returns"]) == pytest.approx(TOTAL, abs=1e-3)


def test_partners_of_every_kind_play_in_a_team(study: Path, capsys) -> None:
    partners = ["other-seeds", "picking:take_first"]
    words = ["evaluate", str(study), "--agents", "rl2", "--seeds", "0", *SHORT]
    assert run([*words, "--partners", *partners, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["agents"]
    assert len(record["partners"]) == len(record["mixed_teams"]) == 3
    assert run(words) == 0
    printed = capsys.readouterr().out
    assert "teams of several partners stand below" in printed
    assert "the agent sits in seat 0" in printed


@pytest.mark.parametrize("partner", ["picking:take_last", "picking:lawless"])
def test_a_third_party_partner_that_breaks_the_rules_is_named(study: Path, capsys, partner: str) -> None:
    assert run(["evaluate", str(study), "--seeds", "0", "--partners", partner, *SHORT]) == 2
    assert told(capsys) == f"coverset: partner '{partner}' must choose a legal action, here one of 0, 1, got 2."


def test_a_plain_function_must_ask_for_the_legal_actions(study: Path, capsys) -> None:
    assert run(["evaluate", str(study), "--seeds", "0", "--partners", "picking:take_blindly", *SHORT]) == 2
    assert told(capsys).startswith("coverset: partner 'picking:take_blindly' must take the legal actions as its fourth")


def test_a_heuristic_that_breaks_the_rules_is_named(capsys) -> None:
    assert run(["crossplay", "greedy", "stubborn", "--env", "picking:with_stubborn", *SHORT]) == 2
    assert told(capsys) == "coverset: heuristic 'stubborn' must choose a legal action, here one of 0, 1, got 2."


def test_heuristics_of_two_classes_are_named_one_by_one(capsys) -> None:
    assert run(["crossplay", "greedy", "heuristics", "--env", "picking:with_stubborn", *SHORT]) == 2
    assert "differ in arrays alone, got Greedy and Stubborn: name them one by one." in told(capsys)


def test_certificates_are_refused_in_one_sentence(study: Path, capsys) -> None:
    assert run(["certify", str(study)]) == 2
    assert told(capsys).startswith(
        "coverset: Picking cannot be solved exactly: certificates exist for two players, and"
    )
    assert not [*study.rglob("certificate.json")]


def test_exported_policies_carry_masks_and_seats_and_play_alike(study: Path, capsys) -> None:
    """With the same keys an exported pair earns what the pair itself does; every action is checked on the way."""
    seed = study / "seed-0"
    files = {}
    for role in ("best-responses", "teammates"):
        assert run(["export", str(seed), "--role", role, "--member", "1", "--json"]) == 0
        told_of = json.loads(capsys.readouterr().out)
        files[role] = told_of["file"]
        assert told_of["about"]["num_seats"] == 3
    assert load_exported(files["best-responses"]).inputs.further == ("legal",)
    assert load_exported(files["teammates"]).inputs.further == ("legal", "seat")
    returns = []
    for first, second in ((str(seed), str(seed)), (files["best-responses"], files["teammates"])):
        assert run(["crossplay", first, second, "--trials", "20", "--episodes", "2", "--json"]) == 0
        returns.append(json.loads(capsys.readouterr().out)["seat_returns"][0][0])
    assert returns[0] == returns[1]
    assert run(["export", str(seed), "--role", "teammates", "--member", "2"]) == 0
    assert ": seats 1 to 2 of trio, " in capsys.readouterr().out


@pytest.mark.parametrize("learner", ["rl2", "plastic"])
def test_exported_agents_play_in_a_team(study: Path, capsys, learner: str) -> None:
    assert run(["export", str(study / "seed-0" / learner), "--out", str(study.parent / f"{learner}.zip")]) == 0
    assert run(["crossplay", str(study.parent / f"{learner}.zip"), "heuristics", *SHORT, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["second"]["policies"] == ["generous", "greedy"]


def test_the_report_lists_every_seat_and_mixed_teams(study: Path, capsys) -> None:
    assert run(["report", str(study), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    data = {Path(path).stem.removeprefix("trio-"): Path(path) for path in written["data"]}
    with data["returns-by-seat"].open() as file:
        rows = [*csv.DictReader(file)]
    assert {row["seat"] for row in rows} == {"0", "1", "2"}
    with data["teams"].open() as file:
        teams = [*csv.DictReader(file)]
    assert {row["kind"] for row in teams} == {"whole", "mixed"}
    assert all(len(row["returns_by_seat"].split()) == 3 for row in teams)
    page = Path(written["page"]).read_text()
    assert "greedy + generous" in page
    assert "mean return of every seat in self-play" in page


def test_the_ego_may_not_sit_elsewhere_where_seats_differ(study: Path, capsys) -> None:
    assert run(["train", str(study), "--seat", "1", *AGENT]) == 2
    sentence = "coverset: seat must be 0 in a game of 3 players whose seats are not alike, got 1."
    assert told(capsys) == sentence
