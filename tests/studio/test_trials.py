"""A person's trial: moves, score, recording, and moves out of order."""

import json

import numpy as np
import pytest

from coverset.envs.registry import make
from coverset.studio import recordings
from coverset.studio.files import SafeDirectory
from coverset.studio.recordings import RecordingStore
from coverset.studio.replays import person_steps, replay_frames
from studio_client import move, start

STAY, UP, DOWN, LEFT, RIGHT = range(5)


def walk_to_a(studio, trial: dict) -> list[dict]:
    """Walk to corner A in every episode and wait there; return the responses to all moves."""
    answers, frame = [], trial["frames"][-1]
    while True:
        row, column = frame["scene"]["positions"][trial["seat"]]
        action = UP if row else LEFT if column else STAY
        answers.append(move(studio, trial, len(answers), action).json)
        if answers[-1]["over"]:
            return answers
        frame = answers[-1]["frames"][-1]


@pytest.fixture(scope="module")
def walked(shared):
    """A trial of weighted reaching with the heuristic that walks to A."""
    trial = start(shared, "weighted/seed-0", "heuristic:H8", episodes=2)
    return trial, walk_to_a(shared, trial)


def test_meeting_on_the_best_corner_earns_what_the_oracle_earns(walked):
    trial, answers = walked
    assert trial["seat"] == 0
    ends = [answer["frames"][0] for answer in answers if "ended" in answer["frames"][0]]
    score = {"return": 10.0, "returns": [10.0, 10.0], "oracle": 10.0, "ended": "terminated"}
    assert [end["score"] for end in ends] == [score] * 2
    assert [end["conventions"] for end in ends] == [["corner A", "corner A"]] * 2
    assert [len(answer["frames"]) for answer in answers].count(2) == 1


def test_only_the_moves_are_recorded(shared, walked):
    trial, answers = walked
    name = answers[-1]["recording"]
    recording = shared.get(f"/api/recordings/{name}").json
    assert set(recording) == {
        *("format", "env", "env_parameters", "env_version", "seed", "seat", "partner", "planned_episodes", "episodes")
    }
    assert set(recording["episodes"][0]) == {"actions", "rewards", "return", "returns", "oracle", "ended"}
    assert recording["seat"] == trial["seat"]
    assert sum(len(episode["actions"]) for episode in recording["episodes"]) == len(answers)
    assert not list((shared.directory / "recordings").glob(".*"))
    (listed,) = [one for one in shared.get("/api/recordings").json["recordings"] if one["name"] == name]
    assert (listed["env"], listed["returns"], listed["partner"]) == ("weighted-reaching", [10.0, 10.0], "heuristic H8")


def test_a_replay_shows_what_was_seen_and_what_was_hidden(shared, walked):
    trial, answers = walked
    replay = shared.get(f"/api/recordings/{answers[-1]['recording']}/frames").json
    seen = [*trial["frames"], *(frame for answer in answers for frame in answer["frames"])]
    shown = [frame for episode in replay["episodes"] for frame in episode]
    assert len(shown) == len(seen)
    for before, after in zip(seen, shown, strict=True):
        assert before["time"] == after["time"]
        assert before["scene"]["positions"][0] == after["scene"]["positions"][0]
        assert None not in after["scene"]["positions"]
        ended = "ended" in before
        assert (before["scene"]["positions"][1] is None) == (not ended)
        assert before.get("rewards", [0.0])[0] == after.get("rewards", [0.0])[0]
        if ended:
            assert {name: before[name] for name in after} == after


def test_a_recording_is_data_about_how_the_person_plays(shared, walked):
    _, answers = walked
    recording = RecordingStore(SafeDirectory(shared.directory)).load(answers[-1]["recording"])
    environment = make("weighted-reaching")
    steps = person_steps(recording, environment)
    actions = [pair[0] for episode in recording["episodes"] for pair in episode["actions"]]
    assert steps.actions.tolist() == actions
    assert steps.observations.shape == (len(actions), environment.observation_size)
    assert np.flatnonzero(steps.first).tolist() == [0, len(recording["episodes"][0]["actions"])]
    assert steps.rewards.sum() == 20.0
    cells = steps.observations.argmax(axis=1)
    frames = [frame for episode in replay_frames(recording, environment)["episodes"] for frame in episode[:-1]]
    assert [(cell // 5, cell % 5) for cell in cells] == [tuple(frame["scene"]["positions"][0]) for frame in frames]


def test_moves_out_of_order_change_nothing(shared):
    trial = start(shared, "weighted/seed-0", "heuristic:H8", episodes=2, seed=3)
    assert move(shared, trial, 1, STAY).status == 409
    assert move(shared, trial, 0, STAY).json["step"] == 1
    repeated = move(shared, trial, 0, STAY)
    assert repeated.status == 409
    assert "Expected the move of step 1, got that of step 0" in repeated.json["error"]
    refused = move(shared, trial, 1, 5)
    assert refused.status == 400
    assert "action must be below 5, got 5" in refused.json["error"]
    now = shared.get(f"/api/trials/{trial['trial']}").json
    assert (now["step"], now["frames"][0]["time"], now["recording"]) == (1, 1, None)


def test_a_trial_that_is_over_takes_no_moves(shared):
    trial = start(shared, "matrix/seed-0", "best-response:1", episodes=1)
    assert move(shared, trial, 0, 0).json["over"]
    late = move(shared, trial, 1, 0)
    assert (late.status, late.json["error"]) == (409, "This trial is over.")
    assert shared.get("/api/trials/none").status == 404


def test_the_oracle_of_a_learned_partner_knows_what_the_person_does(shared):
    trial = start(shared, "matrix/seed-0", "agent:plastic", episodes=3)
    assert trial["seat"] == 1
    answers = [move(shared, trial, step, action).json for step, action in enumerate((0, 1, 2))]
    assert [answer["frames"][0]["score"]["oracle"] for answer in answers] == [10.0, 6.0, 6.0]
    table = make("matrix").payoffs
    for answer in answers:
        own, person = answer["frames"][0]["scene"]["played"]
        assert answer["frames"][0]["rewards"] == [table[own][person]] * 2


def test_teammates_can_be_played_with_too_and_then_the_person_is_the_best_response(shared):
    trial = start(shared, "foraging/seed-0", "teammate:2", episodes=1)
    assert trial["seat"] == 0
    answers = [move(shared, trial, step, 5).json for step in range(6)]
    score = {"return": 0.0, "returns": [0.0, 0.0], "oracle": 1.0, "ended": "truncated"}
    assert answers[-1]["frames"][-1]["score"] == score


@pytest.mark.parametrize("partner", ["agent:rl2", "agent:checkpoints", "heuristic:H99", "teammate:9", "agent:..."])
def test_partners_that_are_not_there_are_refused(shared, partner):
    message = {"run": "matrix/seed-0", "partner": partner, "episodes": 1, "seed": 0}
    assert shared.post("/api/trials", message).status in (400, 404, 422)


def test_recordings_can_be_deleted_and_damaged_ones_say_so(shared):
    trial = start(shared, "matrix/seed-0", "best-response:1", episodes=1)
    name = move(shared, trial, 0, 0).json["recording"]
    path = shared.directory / "recordings" / f"{name}.json"
    whole = json.loads(path.read_text())
    damage = {
        "is not valid JSON": b'{"format": "coverset rec',
        "is not a recording": b"{}",
        "was recorded by another version of coverset": json.dumps(whole | {"format": "coverset recording 1"}).encode(),
        "seat must not be negative": json.dumps(whole | {"seat": -1}).encode(),
        "the person's among them": json.dumps(whole | {"seat": 2}).encode(),
        "actions must be a list": json.dumps(whole | {"episodes": [{"actions": 1, "rewards": []}]}).encode(),
    }
    for words, content in damage.items():
        path.write_bytes(content)
        (listed,) = [one for one in shared.get("/api/recordings").json["recordings"] if one["name"] == name]
        assert words in listed["damaged"]
        assert shared.get(f"/api/recordings/{name}/frames").status == 422
    changed = whole["episodes"][0] | {"rewards": [99.0]}
    path.write_text(json.dumps(whole | {"episodes": [changed]}))
    assert "does not replay as recorded" in shared.get(f"/api/recordings/{name}/frames").json["error"]
    path.write_text(json.dumps(whole | {"episodes": [changed | {"actions": [[0, 7]]}]}))
    assert "contains action 7" in shared.get(f"/api/recordings/{name}/frames").json["error"]
    path.write_text(json.dumps(whole | {"episodes": [changed | {"actions": [[0, 0, 0]]}]}))
    assert "contains steps of 3 players" in shared.get(f"/api/recordings/{name}/frames").json["error"]
    assert shared.ask("DELETE", f"/api/recordings/{name}").status == 200
    assert shared.ask("DELETE", f"/api/recordings/{name}").status == 404
    assert shared.get(f"/api/recordings/{name}").status == 404


def test_there_is_an_end_to_how_many_recordings_are_made(shared, monkeypatch):
    monkeypatch.setattr(recordings, "MOST_RECORDINGS", 0)
    (shared.directory / "recordings").mkdir(exist_ok=True)
    message = {"run": "matrix/seed-0", "partner": "best-response:1", "episodes": 1, "seed": 0}
    refused = shared.post("/api/trials", message)
    assert refused.status == 400
    assert "delete some first" in refused.json["error"]
