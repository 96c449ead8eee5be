"""Means over seeds with 95% intervals, as the paper reports them, and differences between two methods.

The seed is the unit: one whole run of training. Trials of one agent tell how well that agent is measured, not how far
agents of other seeds would differ, so they are never pooled over seeds. From one seed nothing can be said about others,
and its interval is infinite.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from coverset.checks import at_least, between
from coverset.runs.storage import rounded

CONFIDENCE = 0.95
RESAMPLES = 4000

Measured: TypeAlias = float | Sequence[float] | np.ndarray
"""What one seed gave: a number, or the numbers of its trials, whose mean is then the seed's."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and the interval around it."""

    mean: float
    low: float
    high: float
    n: int
    """Number of seeds."""

    @property
    def half_width(self) -> float:
        """Distance from the mean to the upper end."""
        return self.high - self.mean

    def to_json(self) -> dict[str, Any]:
        """With null for ends that are infinite, so for a single seed."""
        low, high = (rounded(end) if math.isfinite(end) else None for end in (self.low, self.high))
        return {"mean": rounded(self.mean), "low": low, "high": high, "n": self.n}


@dataclass(frozen=True)
class PairedDifference:
    """First method minus second, seed by seed, by both kinds of interval."""

    student: Interval
    bootstrap: Interval
    seeds: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Both intervals and the seeds that were paired."""
        return {
            "student": self.student.to_json(),
            "bootstrap": self.bootstrap.to_json(),
            "seeds": list(self.seeds),
        }


def student_interval(seeds: Iterable[Measured], *, confidence: float = CONFIDENCE) -> Interval:
    """Student's t interval of the mean over seeds, right for any number of seeds if they scatter normally.

        mean -+ t_{n-1} s / sqrt(n),   s^2 = sum (x - mean)^2 / (n - 1)

    Args:
      seeds: for each seed a number, or the numbers of its trials.
    """
    between("confidence", confidence, 0.0, 1.0)
    means = np.array([trials.mean() for trials in _checked(seeds)])
    mean, n = float(means.mean()), len(means)
    if n == 1:
        return Interval(mean, -math.inf, math.inf, n)
    reach = float(stdtrit(n - 1, (1 + confidence) / 2) * means.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - reach, mean + reach, n)


def bootstrap_interval(
    seeds: Iterable[Measured], *, rng_seed: int = 0, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> Interval:
    """Percentile interval of the mean over seeds: draw seeds with replacement, then trials within each seed drawn.

    It assumes no shape, but can scatter no further than the seeds it has: with four it is too narrow (it holds the mean
    about 80% of the time where Student's holds it 95%), so read it beside the other, not instead of it.

    Args:
      seeds: for each seed a number, or the numbers of its trials; their order makes no difference.
    """
    between("confidence", confidence, 0.0, 1.0)
    at_least("resamples", resamples, 1)
    measured = [np.sort(trials) for trials in _checked(seeds)]
    measured.sort(key=lambda trials: (trials.mean(), *trials))
    mean, n = float(np.mean([trials.mean() for trials in measured])), len(measured)
    if n == 1:
        return Interval(mean, -math.inf, math.inf, n)
    means = _resampled_means(np.random.default_rng(rng_seed), measured, resamples)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(mean, float(low), float(high), n)


def _resampled_means(
    rng: np.random.Generator, measured: list[Float[np.ndarray, "_"]], resamples: int
) -> Float[np.ndarray, "resamples"]:
    """Means over seeds of as many imagined studies as `resamples`."""
    if all(len(trials) == 1 for trials in measured):
        numbers = np.concatenate(measured)
        return numbers[rng.integers(len(numbers), size=(resamples, len(numbers)))].mean(axis=1)
    return np.array(
        [np.mean([_redrawn_mean(rng, trials) for trials in _redrawn(rng, measured)]) for _ in range(resamples)]
    )


def _redrawn(rng: np.random.Generator, measured: list[Float[np.ndarray, "_"]]) -> list[Float[np.ndarray, "_"]]:
    return [measured[number] for number in rng.integers(len(measured), size=len(measured))]


def _redrawn_mean(rng: np.random.Generator, trials: Float[np.ndarray, "_"]) -> float:
    return float(trials[rng.integers(len(trials), size=len(trials))].mean())


def paired_difference(
    first: Mapping[int, Measured],
    second: Mapping[int, Measured],
    *,
    rng_seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> PairedDifference:
    """What `first` earns more than `second`, by seed: whatever a seed does to both alike cancels out.

    Args:
      first: by seed, a number or the numbers of its trials.
      second: the same for the same seeds.
    """
    if first.keys() != second.keys():
        raise ValueError(f"Both methods must have the same seeds to be paired, got {_told(first)} and {_told(second)}.")
    seeds = tuple(sorted(first))
    pairs = [_checked([first[seed], second[seed]]) for seed in seeds]
    differences = [float(one.mean() - other.mean()) for one, other in pairs]
    return PairedDifference(
        student=student_interval(differences, confidence=confidence),
        bootstrap=bootstrap_interval(differences, rng_seed=rng_seed, resamples=resamples, confidence=confidence),
        seeds=seeds,
    )


def _told(by_seed: Mapping[int, Measured]) -> str:
    return ", ".join(map(str, sorted(by_seed))) or "none"


def _checked(seeds: Iterable[Measured]) -> list[Float[np.ndarray, "_"]]:
    """Each seed's numbers as a flat array, finite and at least one."""
    measured = [np.asarray(trials, np.float64).reshape(-1) for trials in seeds]
    if not measured or not all(len(trials) for trials in measured):
        raise ValueError(f"seeds must hold at least one seed with at least one number each, got {len(measured)} seeds.")
    if not all(np.isfinite(trials).all() for trials in measured):
        raise ValueError(f"seeds must hold finite numbers, got {[trials.tolist() for trials in measured]}.")
    return measured
