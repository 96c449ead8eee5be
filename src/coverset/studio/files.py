"""Reading below one directory and nowhere else."""

from pathlib import Path
from typing import Any

from coverset.runs import storage
from coverset.runs.storage import MAX_RECORD_BYTES, DamagedFile


class NotFound(LookupError):
    """Something was asked for that is not there."""


class OutsideDirectory(ValueError):
    """A path leads out of the directory that is shown."""


class SafeDirectory:
    """The directory that is shown. Links are followed only as far as they stay inside it."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise ValueError(f"DIR must be a directory with runs of coverset, but {path} is not a directory.")
        self.path = path.resolve()

    def name(self, path: Path) -> str:
        """A path as messages tell it: relative to the directory."""
        return path.relative_to(self.path).as_posix() if path.is_relative_to(self.path) else path.name

    def inside(self, path: Path) -> Path:
        """Where `path` really leads; raises unless that is below the directory."""
        try:
            real = path.resolve()
        except RuntimeError as error:  # how Python before 3.13 tells of links that lead in a circle
            raise DamagedFile(f"{self.name(path)} is a link that leads to itself.") from error
        if not real.is_relative_to(self.path):
            raise OutsideDirectory(f"{self.name(path)} leads out of the directory that is shown.")
        return real

    def file(self, path: Path) -> Path:
        """Where the regular file `path` really is. Pipes and devices, which could block a reader, do not count."""
        real = self.inside(path)
        if not real.is_file():
            raise FileNotFoundError(f"{self.name(path)} does not exist.")
        return real

    def read(self, path: Path, most_bytes: int = MAX_RECORD_BYTES) -> bytes:
        """The content of a file of bounded size."""
        with self.file(path).open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise DamagedFile(f"{self.name(path)} is larger than {most_bytes:,} bytes.")
        return content

    def read_record(self, path: Path, most_bytes: int = MAX_RECORD_BYTES) -> dict[str, Any]:
        """The JSON object that a file holds."""
        content = parse_json(self.read(path, most_bytes), self.name(path))
        if not isinstance(content, dict):
            raise DamagedFile(f"{self.name(path)} must hold a JSON object, not {type(content).__name__}.")
        return content


def parse_json(content: bytes, source: str) -> Any:
    """Read JSON from anywhere; NaN and infinite numbers, which browsers do not read, become null."""
    return storage.parse_json(content, source, constant=lambda word: None)
