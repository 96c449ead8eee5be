"""A studio served on loopback in a thread, a plain HTTP client for it, and trials that are played by it."""

import contextlib
import http.client
import json
import socket
import threading
from pathlib import Path
from typing import Any, NamedTuple

from coverset.studio.serving import listen


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served(contextlib.AbstractContextManager["Served"]):
    """`with Served(directory) as studio: studio.get("/api/runs")`."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.listening = listen(directory, port=0, **options)
        self.port = self.listening.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.listening.run, daemon=True)

    def __enter__(self) -> "Served":
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.listening.server.should_exit = True
        self.thread.join(timeout=20)
        self.listening.socket.close()

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send one request on a new connection. Underscores in header names become dashes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            lowered = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, lowered, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, message: Any, **headers: str) -> Answer:
        return self.ask("POST", path, json.dumps(message).encode(), **{"content_type": "application/json", **headers})

    def raw(self, data: bytes) -> bytes:
        """Send raw bytes, and read until the server closes the connection."""
        received = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the server may close before it has read everything
                connection.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    received += part
        return received


def start(studio: Served, run: str, partner: str, episodes: int = 1, seed: int = 0, **more: Any) -> dict:
    """Start a trial."""
    message = {"run": run, "partner": partner, "episodes": episodes, "seed": seed, **more}
    answer = studio.post("/api/trials", message)
    assert answer.status == 200, answer.body
    return answer.json


def move(studio: Served, trial: dict, step: int, action: int) -> Answer:
    """Play an action in a trial."""
    return studio.post(f"/api/trials/{trial['trial']}/moves", {"step": step, "action": action})


def play_first_legal(studio: Served, trial: dict) -> list[dict]:
    """Always play the first legal action; return all frames of the trial."""
    frames, step = [*trial["frames"]], trial["step"]
    over = trial["over"]
    while not over:
        answer = move(studio, trial, step, frames[-1]["legal"].index(True)).json
        frames += answer["frames"]
        step, over = answer["step"], answer["over"]
    return frames
