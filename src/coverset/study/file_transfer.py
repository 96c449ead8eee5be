"""Copy a run's files between machines that share no file system: read a snapshot, find changes, write them.

A process killed while writing leaves a directory that `reproduce` can resume from: `config.json` is written first, the
log before the checkpoints, and the files that mark work as done last.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from coverset.runs.storage import TEMPORARY, write_bytes

FIRST = ("config.json", "metrics.jsonl")
LAST = ("summary.json", "certificate.json", "inspection.json", "evaluation.json")


@dataclass(frozen=True)
class Changes:
    """Changed files of a directory, named by relative POSIX paths."""

    written: Mapping[str, bytes]
    removed: tuple[str, ...]


def read_snapshot(directory: Path) -> dict[str, bytes]:
    """Contents of all files below a directory, without temporary ones; empty if the directory does not exist."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.match(TEMPORARY):
            with suppress(FileNotFoundError):  # an old checkpoint may be removed meanwhile
                found[path.relative_to(directory).as_posix()] = path.read_bytes()
    return found


def find_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Changes:
    """The difference between two snapshots."""
    written = {name: data for name, data in after.items() if before.get(name) != data}
    return Changes(written, tuple(name for name in before if name not in after))


def write_changes(directory: Path, changed: Changes) -> None:
    """Apply changes to a directory; each file is replaced atomically."""
    for name in changed.removed:
        (directory / name).unlink(missing_ok=True)
    for name in _sort_for_writing(changed.written):
        write_bytes(directory / name, changed.written[name])


def _sort_for_writing(names: Iterable[str]) -> list[str]:
    def rank(name: str) -> tuple[int, str]:
        last_part = PurePosixPath(name).name
        if last_part in FIRST:
            return FIRST.index(last_part) - len(FIRST), name
        return int(last_part in LAST), name

    return sorted(names, key=rank)
