"""Malformed, oversized, slow and hostile requests: nothing leaks, and others are still served."""

import json
import os
import random
import socket
import threading
import time

import pytest

from coverset.studio.limits import Rate, RateLimit
from coverset.studio.messages import MOST_BYTES
from coverset.studio.recordings import FORMAT
from studio_client import Served

HEAD = b"POST /api/trials HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
TRAVERSALS = [
    *("/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"),
    *("/js/../../app.py", "/js/%2e%2e/%2e%2e/app.py", "/js/..%5c..%5capp.py", "/.%00./app.py", "/app.py"),
    *("/api/recordings/..%2f..%2fsecret", "/api/recordings/../secret.json", "/api/recordings/recording-%2e%2e"),
    *("/api/run?run=../secret", "/api/run?run=/etc", "/api/run?run=matrix%2f..%2f..", "/api/run?run=%00"),
    "/api/watch?run=../..&best_response=1&teammate=1&seed=0",
]


@pytest.fixture(autouse=True)
def still_alive(shared):
    """After every test the studio still responds."""
    yield
    assert shared.get("/api/runs").status == 200


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_out_of_the_directory_or_the_static_files(shared, path):
    (shared.directory.parent / "secret.json").write_text('{"secret": "leaked"}')
    answer = shared.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert status(answer) in (400, 404, 422)
    for leaked in (b"leaked", b"root:", b"import ", str(shared.directory).encode()):
        assert leaked not in answer


@pytest.mark.parametrize(
    ("data", "statuses"),
    [
        (b"nonsense\r\n\r\n", {400}),
        (b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n", {400, 421, 505}),
        (b"GET /api/runs HTTP/1.1\r\n\r\n", {400}),  # no host
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", {400, 431}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"b" * 100_000 + b"\r\n\r\n", {400, 431}),
        (HEAD + b"Content-Length: -5\r\n\r\n", {400}),
        (HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\n\xff\xfe", {400}),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", {400}),
    ],
)
def test_malformed_requests_are_refused(shared, data, statuses):
    assert status(shared.raw(data)) in statuses


def test_oversized_messages_are_refused_while_they_arrive(shared):
    size = 50_000_000
    head = HEAD + f"Content-Length: {size}\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", shared.port), timeout=20) as connection:
        connection.sendall(head + b" " * (MOST_BYTES + 1))
        assert status(connection.recv(65536)) == 413


def test_random_messages_never_get_more_than_a_refusal(shared):
    """Valid field names with invalid values, and randomly changed bytes."""
    random_values = random.Random(0)
    values = [None, True, -1, 0, 1e308, 2**70, "", "x" * 2000, "../..", [], {}, "agent:rl2", [[]], "\u0000", "🦆"]
    right = {"run": "matrix/seed-0", "partner": "heuristic:H1", "episodes": 1, "seed": 0}
    for _ in range(150):
        message = right | {random_values.choice(list(right)): random_values.choice(values)}
        data = bytearray(json.dumps(message).encode())
        if random_values.random() < 0.5:
            data[random_values.randrange(len(data))] = random_values.randrange(256)
        answer = shared.ask("POST", "/api/trials", bytes(data), content_type="application/json")
        assert answer.status in (200, 400, 404, 413, 422, 429)
        if answer.status != 200:
            assert answer.json["error"]


def test_a_person_who_types_too_fast_is_asked_to_wait(shared, monkeypatch):
    monkeypatch.setattr(shared.listening.studio, "moves", RateLimit(Rate(burst=3, per_second=0)))
    answers = [shared.post("/api/trials/nobody/moves", {"step": 0, "action": 0}).status for _ in range(5)]
    assert answers == [404] * 3 + [429] * 2


def test_a_hostile_run_cannot_choose_what_is_called(directory, tmp_path):
    """Names of environments that would run code, in a config and a recording."""
    marker = tmp_path / "called"
    call = {"env": "os:system", "env_parameters": {"command": f"touch {marker}"}}
    config = directory / "matrix" / "seed-1" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | call))
    (directory / "recordings").mkdir()
    recording = {"format": FORMAT, "env_version": 1, "seed": 0, "seat": 0, "partner": {}, "episodes": []}
    (directory / "recordings" / "recording-0123456789ab.json").write_text(json.dumps(recording | call))
    with Served(directory) as studio:
        for path in (
            "/api/board?run=matrix/seed-1",
            "/api/watch?run=matrix/seed-1&best_response=1&teammate=1&seed=0",
            "/api/recordings/recording-0123456789ab/frames",
        ):
            answer = studio.get(path)
            assert answer.status == 400
            assert "--trust os:system" in answer.json["error"]
    assert not marker.exists()


def test_policies_and_recordings_that_link_outside_are_not_read(directory, made):
    policies = directory / "matrix" / "seed-1" / "policies.safetensors"
    policies.unlink()
    policies.symlink_to(made / "matrix" / "seed-1" / "policies.safetensors")
    (directory / "recordings").symlink_to(made)
    with Served(directory) as studio:
        answer = studio.get("/api/watch?run=matrix/seed-1&best_response=1&teammate=1&seed=0")
        assert answer.status == 422
        assert "leads out of the directory" in answer.json["error"]
        assert studio.get("/api/recordings").json == {"recordings": []}


def test_files_that_change_while_they_are_read_do_no_harm(directory):
    """A run whose files are constantly written, truncated and replaced, as by a killed and resumed run."""
    run = directory / "matrix" / "seed-0"
    contents = {name: (run / name).read_bytes() for name in ("config.json", "summary.json", "metrics.jsonl")}
    done = threading.Event()

    def disturb() -> None:
        random_values = random.Random(1)
        while not done.is_set():
            name = random_values.choice(list(contents))
            (run / name).write_bytes(contents[name][: random_values.randrange(len(contents[name]) + 1)])
            if random_values.random() < 0.2:
                os.unlink(run / name)
            time.sleep(0.001)

    writer = threading.Thread(target=disturb)
    with Served(directory) as studio:
        writer.start()
        try:
            answers = [studio.get("/api/run?run=matrix/seed-0") for _ in range(60)]
        finally:
            done.set()
            writer.join()
    assert {answer.status for answer in answers} == {200}
    assert {answer.json["state"] for answer in answers} <= {"finished", "training", "damaged"}
