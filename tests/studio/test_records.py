"""Records of finished, training, killed and damaged runs."""

import json
import os
import time

import pytest

from coverset.studio.catalogue import Catalogue
from coverset.studio.files import SafeDirectory
from coverset.studio.records import MEASURING_SECONDS, QUIET_SECONDS, RunRecords


def look(directory, id: str) -> tuple[dict, dict]:
    shown = SafeDirectory(directory)
    run = Catalogue(shown).run(id)
    return RunRecords(shown).brief(run), RunRecords(shown).details(run)


def test_a_finished_run_says_what_its_summary_says(made):
    brief, details = look(made, "matrix/seed-0")
    summary = json.loads((made / "matrix/seed-0/summary.json").read_text())
    rows = [json.loads(row) for row in (made / "matrix/seed-0/metrics.jsonl").read_text().splitlines()]
    assert brief["state"] == "finished"
    assert brief["watchable"]
    for name in ("env", "method", "preset", "seed", "coverage_found", "coverage_size"):
        assert brief[name] == summary[name]
    for name in ("cross_play", "conventions", "covers", "gaps", "constraints_violated", "margin"):
        assert details[name] == summary[name]
    assert details["cross_play_measured"]
    assert details["curves"]["self_play_return"] == [row["self_play_return"] for row in rows]
    assert [entry["other_teammate"] for entry in details["curves"]["gaps"]] == [
        row["gaps"]["other_teammate"] for row in rows
    ]


def test_fields_of_the_method_become_curves_whatever_their_names_and_shapes(directory):
    log = directory / "matrix/seed-0/metrics.jsonl"
    square = [[0.0, 0.5], [0.25, 0.0]]
    first = {"multipliers": {"other_best_response": square, "other_teammate": square}, "beta": 0.5, "bonus": [1, 2]}
    fields = [first, first | {"beta": "high", "name": "mine"}, None]
    log.write_text("".join(json.dumps({"env_steps": n, "method": field}) + "\n" for n, field in enumerate(fields)))
    curves = look(directory, "matrix/seed-0")[1]["curves"]
    assert curves["method"] == {
        "multipliers": {"other_best_response": [square, square, None], "other_teammate": [square, square, None]},
        "beta": {"": [0.5, None, None]},
        "bonus": {"": [[1, 2], [1, 2], None]},
    }
    log.write_text('{"env_steps": 1}\n')
    assert look(directory, "matrix/seed-0")[1]["curves"]["method"] == {}


def test_agents_and_their_robustness(directory):
    brief, _ = look(directory, "matrix/seed-0")
    copied, agent = brief["agents"]
    assert (copied["name"], copied["learner"]) == ("copy-1", "rl2")
    assert (agent["name"], agent["playable"], agent["seat"]) == ("plastic", True, 0)
    assert agent["mean_return"] is None
    evaluation = {"mean_return": 6.5, "oracle_fraction": 0.9}
    (directory / "matrix/seed-0/plastic/evaluation.json").write_text(json.dumps(evaluation))
    _, agent = look(directory, "matrix/seed-0")[0]["agents"]
    assert (agent["mean_return"], agent["oracle_fraction"]) == (6.5, 0.9)
    (directory / "matrix/seed-0/plastic/evaluation.json").write_text('{"mean_')
    _, agent = look(directory, "matrix/seed-0")[0]["agents"]
    assert agent["state"] == "damaged"


def unfinished(directory, *, share: float = 0.5):
    """A run that has trained a share of its steps."""
    run = directory / "matrix" / "seed-0"
    config, summary = (json.loads((run / name).read_text()) for name in ("config.json", "summary.json"))
    config["settings"]["total_steps"] = round(summary["env_steps"] / share)
    (run / "config.json").write_text(json.dumps(config))
    (run / "summary.json").unlink()
    (run / "policies.safetensors").unlink()
    (run / "metrics.jsonl").touch()
    return run


def test_a_run_in_training_shows_the_returns_of_its_newest_row(directory):
    run = unfinished(directory)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    brief, details = look(directory, "matrix/seed-0")
    assert (brief["state"], brief["watchable"]) == ("training", False)
    assert brief["env_steps"] == last["env_steps"]
    assert details["cross_play"] == last["pair_returns"]
    assert not details["cross_play_measured"]


def test_a_run_that_has_trained_all_its_steps_is_being_measured(directory):
    run = unfinished(directory, share=1.0)
    assert look(directory, "matrix/seed-0")[0]["state"] == "measuring"
    long_ago = time.time() - MEASURING_SECONDS - 60
    for path in run.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert look(directory, "matrix/seed-0")[0]["state"] == "stopped"


def test_a_seed_that_has_not_begun_waits_while_another_trains(directory):
    run = unfinished(directory)
    later = run.with_name("seed-9")
    later.mkdir()
    (later / "config.json").write_bytes((run / "config.json").read_bytes())
    long_ago = time.time() - QUIET_SECONDS - 60
    os.utime(later / "config.json", (long_ago, long_ago))
    assert look(directory, "matrix/seed-9")[0]["state"] == "waiting"
    for seed in directory.glob("matrix/seed-*"):
        for path in seed.iterdir():
            os.utime(path, (long_ago, long_ago))
    assert look(directory, "matrix/seed-9")[0]["state"] == "stopped"


def test_a_killed_run_is_told_from_one_in_training_by_its_silence(directory):
    run = unfinished(directory)
    long_ago = time.time() - QUIET_SECONDS - 60
    for path in run.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert look(directory, "matrix/seed-0")[0]["state"] == "stopped"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.json", None, "has no config.json"),
        ("config.json", b'{"env": "mat', "config.json is not valid JSON"),
        ("config.json", b"[]", "must contain a JSON object"),
        ("config.json", b"\x00\xff", "not valid JSON"),
        ("summary.json", b'{"env": "matrix", "cross_', "summary.json is not valid JSON"),
    ],
)
def test_a_damaged_run_says_what_is_damaged(directory, file, content, words):
    path = directory / "matrix" / "seed-0" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    for told in look(directory, "matrix/seed-0"):
        assert told["state"] == "damaged"
        assert words in told["message"]
        assert str(directory) not in told["message"]


def test_links_out_of_the_directory_are_damage(directory, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"env": "secret"}')
    path = directory / "matrix" / "seed-0" / "config.json"
    path.unlink()
    path.symlink_to(secret)
    brief, details = look(directory, "matrix/seed-0")
    assert "leads out of the directory" in brief["message"]
    assert "secret" not in json.dumps([brief, details])


def test_values_of_the_wrong_form_count_as_unknown(directory):
    run = directory / "matrix" / "seed-0"
    nonsense = {
        "cross_play": [[1, "x"], [2]],
        "conventions": 3,
        "covers": [1, "action 1"],
        "gaps": [],
        "margin": "wide",
    }
    (run / "summary.json").write_text(json.dumps(nonsense | {"coverage_found": -1, "env_steps": 1e400}))
    (run / "metrics.jsonl").write_text(
        '{"env_steps": 5, "pair_returns": 7, "gaps": 1, "self_play_return": "high"}\n!\n'
    )
    brief, details = look(directory, "matrix/seed-0")
    assert brief["message"] == "Line 2 of metrics.jsonl cannot be read."
    assert details["cross_play"] is None
    assert details["conventions"] == []
    assert details["covers"] == [None, "action 1"]
    assert details["coverage_found"] is None
    assert details["curves"]["self_play_return"] == [None]
    json.dumps(details, allow_nan=False)
