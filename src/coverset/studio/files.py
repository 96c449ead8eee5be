"""Read files below one directory only."""

from pathlib import Path
from typing import Any

from coverset.runs import storage
from coverset.runs.storage import MAX_RECORD_BYTES, DamagedFile


class NotFound(LookupError):
    """The requested item does not exist."""


class OutsideDirectory(ValueError):
    """A path leads out of the studio's directory."""


class SafeDirectory:
    """The directory that the studio shows. Links are followed only if they stay inside it."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise ValueError(f"DIR must be a directory with runs of coverset, but {path} is not a directory.")
        self.path = path.resolve()

    def name(self, path: Path) -> str:
        """A path relative to the directory, for messages."""
        return path.relative_to(self.path).as_posix() if path.is_relative_to(self.path) else path.name

    def inside(self, path: Path) -> Path:
        """Resolve `path`; raise OutsideDirectory unless the result is below the directory."""
        try:
            real = path.resolve()
        except RuntimeError as error:  # raised for circular links before Python 3.13
            raise DamagedFile(f"{self.name(path)} is a circular link.") from error
        if not real.is_relative_to(self.path):
            raise OutsideDirectory(f"{self.name(path)} leads out of the directory of this studio.")
        return real

    def file(self, path: Path) -> Path:
        """Resolve the regular file `path`. Pipes and devices, which can block a reader, count as missing."""
        real = self.inside(path)
        if not real.is_file():
            raise FileNotFoundError(f"{self.name(path)} does not exist.")
        return real

    def read(self, path: Path, most_bytes: int = MAX_RECORD_BYTES) -> bytes:
        """Read a file of bounded size."""
        with self.file(path).open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise DamagedFile(f"{self.name(path)} is larger than {most_bytes:,} bytes.")
        return content

    def read_record(self, path: Path, most_bytes: int = MAX_RECORD_BYTES) -> dict[str, Any]:
        """Read a JSON object from a file."""
        content = parse_json(self.read(path, most_bytes), self.name(path))
        if not isinstance(content, dict):
            raise DamagedFile(f"{self.name(path)} must contain a JSON object, not {type(content).__name__}.")
        return content


def parse_json(content: bytes, source: str) -> Any:
    """Parse JSON; NaN and infinite numbers, which browsers cannot parse, become None."""
    return storage.parse_json(content, source, constant=lambda word: None)
