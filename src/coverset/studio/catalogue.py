"""Which runs there are below a directory. A run is known by its place; only places that were found can be asked for."""

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
"""How long a list of runs is good for: many clients share one look at the disk."""
NOT_RUNS = frozenset({"checkpoints", "figures", "recordings"})


@dataclass(frozen=True)
class Run:
    """One seed of one generation run."""

    id: str
    """Its path below the directory, `.` for the directory itself."""
    path: Path
    group: str
    """What its directory of seeds is called."""
    seed: int


class Catalogue:
    """The runs below a directory, looked up again every second."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self._lock = Lock()
        self._looked_at = float("-inf")
        self._runs: dict[str, Run] = {}

    def runs(self) -> dict[str, Run]:
        """Every run by its id, in the order of names and seeds."""
        with self._lock:
            if time.monotonic() - self._looked_at > FRESH_SECONDS:
                self._runs = {run.id: run for run in find_runs(self.directory.path)}
                self._looked_at = time.monotonic()
            return self._runs

    def run(self, id: str) -> Run:
        """One run by its id; anything that is not the id of a run found is refused."""
        found = self.runs().get(id)
        if found is None:
            raise NotFound("There is no such run below the directory that is shown.")
        return found


def find_runs(root: Path) -> list[Run]:
    """Directories called seed-N, without following links, to a bounded depth and number."""
    found: list[Run] = []
    if _seed(root.name) is not None and (root / "config.json").is_file():
        return [Run(".", root, root.parent.name, _seed(root.name) or 0)]
    for visited, (place, directories, _) in enumerate(os.walk(root, followlinks=False, onerror=None)):
        path = Path(place)
        if visited >= MOST_DIRECTORIES or len(found) >= MOST_RUNS:
            break
        depth = len(path.relative_to(root).parts)
        seeds = [name for name in directories if _seed(name) is not None and not (path / name).is_symlink()]
        found += [_run(root, path / name) for name in seeds]
        hidden = {name for name in directories if name.startswith(".")}
        directories[:] = sorted(set(directories) - set(seeds) - NOT_RUNS - hidden) if depth < DEEPEST else []
    return sorted(found[:MOST_RUNS], key=lambda run: (run.group, run.seed))


def _seed(name: str) -> int | None:
    """The N of seed-N."""
    number = name.removeprefix("seed-")
    plain = name.startswith("seed-") and number.isascii() and number.isdecimal() and len(number) <= 10
    return int(number) if plain else None


def _run(root: Path, path: Path) -> Run:
    group = path.parent.relative_to(root).as_posix()
    return Run(path.relative_to(root).as_posix(), path, root.name if group == "." else group, _seed(path.name) or 0)
