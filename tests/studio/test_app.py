"""Responses of the server about runs, without JAX."""

import subprocess
import sys

import pytest

from coverset.runs import trust as trust_store
from coverset.studio.guard import HEADERS
from studio_client import Served

WITHOUT_JAX = """
import sys
sys.path[:0] = ["tests", "."]

class NoJax:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "equinox"):
            raise ImportError(f"{name} is kept out by the test")

sys.meta_path.insert(0, NoJax())
from pathlib import Path
from studio_client import Served

with Served(Path(sys.argv[1])) as studio:
    for path in ("/", "/style.css", "/js/main.js", "/api/runs", "/api/run?run=matrix/seed-0", "/api/recordings"):
        assert studio.get(path).status == 200, path
    assert len(studio.get("/api/runs").json["runs"]) == 5
    assert studio.get("/api/board?run=matrix/seed-0").status == 500
    assert studio.get("/api/runs").status == 200
"""


def test_pages_and_everything_from_files_are_served_without_jax(made):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX, str(made)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["/", "/js/main.js", "/api/runs", "/nowhere", "/api/run?run=nowhere", "/api/trials"])
def test_every_answer_has_the_headers_that_protect_the_reader(shared, path):
    answer = shared.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name.lower()] == value
    assert "server" not in answer.headers


def test_the_page_asks_for_nothing_from_elsewhere(shared):
    for path in ("/", "/style.css", "/js/main.js", "/js/dom.js"):
        body = shared.get(path).body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http:" not in body
        assert b"https:" not in body


def test_an_answer_that_has_not_changed_is_not_sent_again(shared):
    for path in ("/api/runs", "/api/run?run=matrix/seed-1"):
        first = shared.get(path)
        again = shared.get(path, if_none_match=first.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_one_damaged_run_does_not_hide_the_others(directory):
    (directory / "matrix" / "seed-0" / "config.json").write_text('{"env": "mat')
    (directory / "matrix" / "seed-1" / "policies.safetensors").write_bytes(b"half of it")
    with Served(directory) as studio:
        runs = {run["id"]: run for run in studio.get("/api/runs").json["runs"]}
        assert runs["matrix/seed-0"]["state"] == "damaged"
        assert runs["weighted/seed-0"]["state"] == "finished"
        refused = studio.get("/api/watch?run=matrix/seed-1&best_response=1&teammate=1&seed=0")
        assert refused.status == 422
        assert "damaged" in refused.json["error"]
        assert str(directory) not in refused.json["error"]
        assert studio.get("/api/watch?run=weighted/seed-0&best_response=1&teammate=1&seed=0").status == 200


def watch(studio, run: str, pair: tuple[int, int] = (1, 2), seed: int = 0):
    return studio.get(f"/api/watch?run={run}&best_response={pair[0]}&teammate={pair[1]}&seed={seed}")


@pytest.mark.parametrize(
    ("run", "kind", "shown"),
    [
        ("matrix/seed-0", "table", set()),
        ("weighted/seed-0", "grid", {"positions"}),
        ("foraging/seed-0", "grid", {"positions", "objects"}),
    ],
)
def test_an_episode_is_told_from_its_start_to_its_end(shared, run, kind, shown):
    played = watch(shared, run).json
    (frames,) = played["episodes"]
    assert played["board"]["kind"] == kind
    assert [frame["time"] for frame in frames] == list(range(len(frames)))
    assert all(
        set(frame["scene"]) == {"positions", "objects", "played", "facing", "carried", "words"} for frame in frames
    )
    first = frames[0]["scene"]
    assert {name for name in ("positions", "objects") if any(first[name])} == shown
    assert all(frame["scene"]["played"] == frame["actions"] for frame in frames[1:] if kind == "table")
    assert "actions" not in frames[0]
    assert [("ended" in frame) for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert watch(shared, run).json == played
    starts = {str(watch(shared, run, seed=seed).json["episodes"][0][0]) for seed in range(4)}
    assert len(starts) > 1 or kind == "table"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("run=matrix/seed-0&best_response=3&teammate=1&seed=0", "best response must lie between 1 and 2, got 3"),
        ("run=matrix/seed-0&best_response=1&teammate=0&seed=0", "teammate must lie between 1"),
        ("run=matrix/seed-0&best_response=1&teammate=1&seed=x", "seed must be a whole number"),
        ("run=matrix/seed-0&best_response=1&teammate=1", "exactly the fields"),
    ],
)
def test_questions_of_the_wrong_form_are_answered_in_one_sentence(shared, query, words):
    answer = shared.get(f"/api/watch?{query}")
    assert answer.status == 400
    assert words in answer.json["error"]


def test_the_board_names_members_and_heuristics(shared):
    told = shared.get("/api/board?run=weighted/seed-0").json
    assert told["board"]["members"] == ["corner A", "corner B", "corner C", "corner D"]
    assert [one["name"] for one in told["heuristics"]] == [f"H{n}" for n in range(1, 16)]


def test_code_of_a_runs_own_is_imported_only_if_it_is_trusted(shared, monkeypatch, tmp_path):
    """The run is trusted under the user's own key, and under another key only after `trust`."""
    played = watch(shared, "countdown/seed-0").json
    assert played["board"]["kind"] == "text"
    assert [frame["scene"] for frame in played["episodes"][0]] == [{"text": str(time)} for time in range(4)]
    monkeypatch.setattr(trust_store, "key_path", lambda: tmp_path / "signing-key")
    monkeypatch.setattr(trust_store, "_named", set())
    refused = watch(shared, "countdown/seed-0")
    assert refused.status == 400
    assert "--trust countdown:Countdown" in refused.json["error"]
    trust_store.trust("countdown:Countdown")
    assert watch(shared, "countdown/seed-0").json == played


def test_runs_that_train_come_first(directory):
    """Of four groups in alphabetical order, the third has a seed that has trained and is not finished yet."""
    (directory / "matrix" / "seed-1" / "summary.json").unlink()
    (directory / "matrix" / "seed-1" / "metrics.jsonl").touch()
    with Served(directory) as studio:
        runs = studio.get("/api/runs").json["runs"]
    listed = [(run["group"], run["seed"]) for run in runs]
    assert listed[:2] == [("matrix", 0), ("matrix", 1)]
    assert listed[2:] == sorted(listed[2:])
    assert runs[1]["state"] == "measuring"
