"""Units for workers of a Ray cluster, which must be able to import them: one ends its worker, one tells where it is."""

import json
import os
import signal
import uuid
from dataclasses import dataclass
from pathlib import Path

from coverset.runs.directory import THREADS
from coverset.study.ray.worker import FLAGS
from coverset.study.units import Unit


@dataclass(frozen=True)
class Task(Unit):
    """A unit with a name of its own, which is never done."""

    title: str

    @property
    def name(self) -> str:
        return self.title

    def seeds_left(self) -> list[int]:
        return [0]

    def seconds_left(self) -> float | None:
        return None


class Dying(Task):
    """Notes that it ran, and kills the worker it runs in."""

    def run(self, reporter) -> None:
        self.experiment.directory.mkdir(parents=True, exist_ok=True)
        with (self.experiment.directory / "attempts").open("a") as log:
            log.write("x")
        os.kill(os.getpid(), signal.SIGKILL)


class Telling(Task):
    """Writes down the circumstances of its worker."""

    def run(self, reporter) -> None:
        self.experiment.directory.mkdir(parents=True, exist_ok=True)
        told = {"variables": {name: os.environ[name] for name in (THREADS, FLAGS)}, "parent": os.getppid()}
        (self.experiment.directory / "told.json").write_text(json.dumps(told))


def birthmark() -> tuple[str, str]:
    """An environment variable that tells the processes which are started under it from those of other tests."""
    return "COVERSET_TEST", uuid.uuid4().hex


def processes(variable: tuple[str, str], title: str = "") -> list[int]:
    """Living processes by a variable of the environment they were started with, and the beginning of their title."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            begins = (entry / "cmdline").read_bytes().startswith(title.encode())
            if begins and "=".join(variable).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return found
