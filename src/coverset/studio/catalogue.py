"""The runs below a directory. A run is identified by its path; only runs that were found can be requested."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from coverset.studio.files import NotFound, SafeDirectory

DEEPEST = 5
MOST_DIRECTORIES = 5_000
MOST_RUNS = 500
FRESH_SECONDS = 1.0
"""How long the list of runs is cached."""
NOT_RUNS = frozenset({"checkpoints", "figures", "recordings"})


@dataclass(frozen=True)
class Run:
    """One seed of one generation run."""

    id: str
    """Path relative to the directory, `.` for the directory itself."""
    path: Path
    group: str
    """Name of the parent directory, which holds the seeds."""
    seed: int


class Catalogue:
    """The runs below a directory, cached for a second."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self._lock = Lock()
        self._looked_at = float("-inf")
        self._runs: dict[str, Run] = {}

    def runs(self) -> dict[str, Run]:
        """All runs by id, sorted by group and seed."""
        with self._lock:
            if time.monotonic() - self._looked_at > FRESH_SECONDS:
                self._runs = {run.id: run for run in find_runs(self.directory.path)}
                self._looked_at = time.monotonic()
            return self._runs

    def run(self, id: str) -> Run:
        """One run by id; raises NotFound for any other id."""
        found = self.runs().get(id)
        if found is None:
            raise NotFound("There is no such run in the directory of this studio.")
        return found


def find_runs(root: Path) -> list[Run]:
    """Find directories named seed-N, without following links, up to a bounded depth and number."""
    found: list[Run] = []
    if _parse_seed(root.name) is not None and (root / "config.json").is_file():
        return [Run(".", root, root.parent.name, _parse_seed(root.name) or 0)]
    for visited, (place, directories, _) in enumerate(os.walk(root, followlinks=False, onerror=None)):
        path = Path(place)
        if visited >= MOST_DIRECTORIES or len(found) >= MOST_RUNS:
            break
        depth = len(path.relative_to(root).parts)
        seeds = [name for name in directories if _parse_seed(name) is not None and not (path / name).is_symlink()]
        found += [_make_run(root, path / name) for name in seeds]
        hidden = {name for name in directories if name.startswith(".")}
        directories[:] = sorted(set(directories) - set(seeds) - NOT_RUNS - hidden) if depth < DEEPEST else []
    return sorted(found[:MOST_RUNS], key=lambda run: (run.group, run.seed))


def _parse_seed(name: str) -> int | None:
    """Return N for the name seed-N, else None."""
    number = name.removeprefix("seed-")
    plain = name.startswith("seed-") and number.isascii() and number.isdecimal() and len(number) <= 10
    return int(number) if plain else None


def _make_run(root: Path, path: Path) -> Run:
    group = path.parent.relative_to(root).as_posix()
    return Run(
        path.relative_to(root).as_posix(), path, root.name if group == "." else group, _parse_seed(path.name) or 0
    )
