"""The time that a training takes: as it was waited for, over all its parts, and the same in every file."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile, read_json, write_json


def describe_cost(directory: RunDirectory, env_steps: int, seconds: float) -> dict[str, Any]:
    """Fields of a summary: steps of one seed, seconds waited for all seeds of its program, and the program's speed."""
    together = len(directory.group() or (0,))
    return {
        "env_steps": env_steps,
        "train_seconds": round(seconds, 3),
        "steps_per_second": round(together * env_steps / seconds) if seconds and env_steps else None,
    }


class Clock:
    """Training time over all sessions of a group, kept in files of its own: the log must not depend on it."""

    def __init__(self, paths: Sequence[Path], checkpoint_seconds: float, warn: Callable[[str], None]) -> None:
        self.paths = paths
        self.checkpoint_seconds = checkpoint_seconds
        self.noted = max(_seconds_noted(path, warn) for path in paths)
        """Time spent up to the last checkpoint, this session's or an earlier one's."""
        self.saved = time.monotonic()

    def elapsed(self) -> float:
        """Time since the last checkpoint; none where the clock was set back."""
        return max(0.0, time.monotonic() - self.saved)

    def checkpoint_due(self) -> bool:
        """Whether the last checkpoint is long enough ago, or nobody knows for how long."""
        return self.elapsed() > self.checkpoint_seconds or time.monotonic() < self.saved

    def save(self) -> None:
        """Note the time of a checkpoint."""
        self.noted += self.elapsed()
        self.saved = time.monotonic()
        for path in self.paths:
            write_json(path, {"train_seconds": self.noted})


def _seconds_noted(path: Path, warn: Callable[[str], None]) -> float:
    """Seconds spent before; a damaged file is no reason to stop, as results do not depend on it."""
    if not path.is_file():
        return 0.0
    try:
        content = read_json(path)
    except DamagedFile:
        content = None
    seconds = content.get("train_seconds") if isinstance(content, dict) else None
    if isinstance(seconds, int | float) and 0 <= seconds < float("inf"):
        return float(seconds)
    warn(f"{path} is damaged: it must hold train_seconds, a number. Its time is counted from 0.")
    return 0.0
