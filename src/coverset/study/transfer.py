"""A run's files on their way between machines that share no disk: what is there, what has changed, and writing it.

Whoever dies in the middle of writing leaves something that `reproduce` can go on from: a directory says first whose run
it is, its log is never behind its checkpoints, and what marks work as done comes last.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from coverset.runs.storage import TEMPORARY, write_bytes

FIRST = ("config.json", "metrics.jsonl")
LAST = ("summary.json", "certificate.json", "evaluation.json")


@dataclass(frozen=True)
class Changes:
    """What has become of a directory. Names are relative to it, with slashes."""

    written: Mapping[str, bytes]
    removed: tuple[str, ...]


def snapshot(directory: Path) -> dict[str, bytes]:
    """All files below a directory but for temporary ones; none if there is no directory."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.match(TEMPORARY):
            with suppress(FileNotFoundError):  # an old checkpoint may go while we look
                found[path.relative_to(directory).as_posix()] = path.read_bytes()
    return found


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Changes:
    """The difference between two snapshots."""
    written = {name: data for name, data in after.items() if before.get(name) != data}
    return Changes(written, tuple(name for name in before if name not in after))


def write_changes(directory: Path, changed: Changes) -> None:
    """Bring a directory up to date, file by file, each of them at once."""
    for name in changed.removed:
        (directory / name).unlink(missing_ok=True)
    for name in _in_safe_order(changed.written):
        write_bytes(directory / name, changed.written[name])


def _in_safe_order(names: Iterable[str]) -> list[str]:
    def rank(name: str) -> tuple[int, str]:
        last_part = PurePosixPath(name).name
        if last_part in FIRST:
            return FIRST.index(last_part) - len(FIRST), name
        return int(last_part in LAST), name

    return sorted(names, key=rank)
