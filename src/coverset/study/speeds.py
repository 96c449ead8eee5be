"""How long work takes, roughly: measured speeds, for plans that are made before anything has run.

A finished run of the same environment and preset near by says more than this table, and is asked first. Weighted
reaching is the program of reaching with other payoffs, and as fast.
"""

from collections.abc import Iterable
from pathlib import Path
from statistics import median

from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile

GENERATION = {
    ("matrix", "fast"): 150_000,
    ("reaching", "fast"): 75_000,
    ("weighted-reaching", "fast"): 75_000,
    ("foraging", "fast"): 80_000,
    ("matrix", "paper"): 87_000,
}
"""Environment steps of teammate generation a second, on two cores with all seeds of a group."""
TRAINING = {
    ("matrix", "fast"): 37_000,
    ("reaching", "fast"): 14_000,
    ("weighted-reaching", "fast"): 14_000,
    ("foraging", "fast"): 24_000,
    ("matrix", "paper"): 15_000,
}
"""The same for ad hoc agents."""
CERTIFICATION_SECONDS = {"matrix": 1.0, "reaching": 6.0, "weighted-reaching": 6.0, "foraging": 66.0}
"""For each seed."""
EVALUATION_SECONDS = {"matrix": 1.0}
"""For each seed."""
FITTING_SECONDS = 2.0
"""For each seed, where a learner computes its agent without gradients."""


def seconds(steps: float, speed: float | None) -> float | None:
    """Time for `steps` environment steps; unknown where the speed is."""
    return steps / speed if speed else None


def recorded_speed(directory: Path, environment: str, preset: str, inside: str = "") -> float | None:
    """The middle speed of finished runs, those in `directory` first, then those beside it of other methods.

    Args:
      inside: name of the learner's directory within a seed's; none for the generation itself.
    """
    return _middle(directory, environment, preset, inside) or _middle(directory.parent, environment, preset, inside)


def _middle(root: Path, environment: str, preset: str, inside: str) -> float | None:
    found = [speed for path in _runs(root, inside) if (speed := _speed(path, environment, preset))]
    return median(found) if found else None


def _runs(root: Path, inside: str) -> Iterable[Path]:
    """Run directories at most one level below `root`."""
    return (seed / inside for pattern in ("seed-*", "*/seed-*") for seed in root.glob(pattern))


def _speed(path: Path, environment: str, preset: str) -> float | None:
    try:
        summary = RunDirectory(path).summary() or {}
    except DamagedFile:
        return None  # whoever needs that run will say so
    same = (summary.get("env"), summary.get("preset")) == (environment, preset)
    speed = summary.get("steps_per_second") if same else None
    return speed if isinstance(speed, int | float) and speed > 0 else None
