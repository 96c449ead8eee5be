"""Rough time estimates for study plans: measured speeds of the built-in environments, and speeds of finished runs.

A finished run of the same environment and preset takes precedence over these tables. Weighted reaching runs the same
program as reaching with other payoffs, and is as fast.
"""

from collections.abc import Iterable
from pathlib import Path
from statistics import median

from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile

GENERATION_STEPS_PER_SECOND = {
    ("matrix", "fast"): 150_000,
    ("reaching", "fast"): 75_000,
    ("weighted-reaching", "fast"): 75_000,
    ("foraging", "fast"): 80_000,
    ("matrix", "paper"): 87_000,
}
"""Throughput of teammate generation on two cores, over all seeds of a group."""
TRAINING_STEPS_PER_SECOND = {
    ("matrix", "fast"): 37_000,
    ("reaching", "fast"): 14_000,
    ("weighted-reaching", "fast"): 14_000,
    ("foraging", "fast"): 24_000,
    ("matrix", "paper"): 15_000,
}
"""Throughput of agent training on two cores, over all seeds of a group."""
CERTIFICATION_SECONDS = {"matrix": 1.0, "reaching": 6.0, "weighted-reaching": 6.0, "foraging": 66.0}
"""Per seed."""
EVALUATION_SECONDS = {"matrix": 1.0}
"""Per seed."""
FITTING_SECONDS = 2.0
"""Per seed, for learners that compute their agent without gradients."""


def estimate_seconds(steps: float, speed: float | None) -> float | None:
    """Time for `steps` environment steps; None if the speed is unknown."""
    return steps / speed if speed else None


def find_recorded_speed(directory: Path, environment: str, preset: str, inside: str = "") -> float | None:
    """The median speed of finished runs in `directory`, or else of runs of other methods beside it.

    Args:
      inside: name of the learner's directory within a seed's; empty for teammate generation.
    """
    here = _median_speed(directory, environment, preset, inside)
    return here or _median_speed(directory.parent, environment, preset, inside)


def _median_speed(root: Path, environment: str, preset: str, inside: str) -> float | None:
    found = [speed for path in _run_directories(root, inside) if (speed := _read_speed(path, environment, preset))]
    return median(found) if found else None


def _run_directories(root: Path, inside: str) -> Iterable[Path]:
    """Run directories at most one level below `root`."""
    return (seed / inside for pattern in ("seed-*", "*/seed-*") for seed in root.glob(pattern))


def _read_speed(path: Path, environment: str, preset: str) -> float | None:
    try:
        summary = RunDirectory(path).summary() or {}
    except DamagedFile:
        return None  # the command that needs the run reports the damage
    same = (summary.get("env"), summary.get("preset")) == (environment, preset)
    speed = summary.get("steps_per_second") if same else None
    return speed if isinstance(speed, int | float) and speed > 0 else None
