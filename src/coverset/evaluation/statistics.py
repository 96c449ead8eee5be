"""Means over seeds with 95% confidence intervals, as in the paper, and paired differences between two methods.

The unit is the seed, one training run. Trials of one agent measure that agent, not the variation between seeds, so they
are never pooled over seeds. The interval of a single seed is infinite.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from coverset.checks import check_at_least, check_between
from coverset.runs.storage import round_floats

CONFIDENCE = 0.95
RESAMPLES = 4000

Measurement: TypeAlias = float | Sequence[float] | np.ndarray
"""The result of one seed: a number, or the numbers of its trials, whose mean is used."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its confidence interval."""

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
        """Return the fields, with None for infinite ends."""
        low, high = (round_floats(end) if math.isfinite(end) else None for end in (self.low, self.high))
        return {"mean": round_floats(self.mean), "low": low, "high": high, "n": self.n}


@dataclass(frozen=True)
class PairedDifference:
    """First method minus second, paired by seed, with both kinds of interval."""

    student: Interval
    bootstrap: Interval
    seeds: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return both intervals and the paired seeds."""
        return {
            "student": self.student.to_json(),
            "bootstrap": self.bootstrap.to_json(),
            "seeds": list(self.seeds),
        }


def student_interval(seeds: Iterable[Measurement], *, confidence: float = CONFIDENCE) -> Interval:
    """Student's t interval of the mean over seeds, exact for any number of normally distributed seeds.

        mean -+ t_{n-1} s / sqrt(n),   s^2 = sum (x - mean)^2 / (n - 1)

    Args:
      seeds: for each seed a number, or the numbers of its trials.
    """
    check_between("confidence", confidence, 0.0, 1.0)
    means = np.array([trials.mean() for trials in _check_measurements(seeds)])
    mean, n = float(means.mean()), len(means)
    if n == 1:
        return Interval(mean, -math.inf, math.inf, n)
    reach = float(stdtrit(n - 1, (1 + confidence) / 2) * means.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - reach, mean + reach, n)


def bootstrap_interval(
    seeds: Iterable[Measurement], *, rng_seed: int = 0, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> Interval:
    """Percentile interval of the mean over seeds: draw seeds with replacement, then trials within each seed drawn.

    It assumes no distribution, but is too narrow for few seeds: with four it covers the mean about 80% of the time,
    where Student's interval covers it 95%. Report it in addition to the other, not instead of it.

    Args:
      seeds: for each seed a number, or the numbers of its trials, in any order.
    """
    check_between("confidence", confidence, 0.0, 1.0)
    check_at_least("resamples", resamples, 1)
    measured = [np.sort(trials) for trials in _check_measurements(seeds)]
    measured.sort(key=lambda trials: (trials.mean(), *trials))
    mean, n = float(np.mean([trials.mean() for trials in measured])), len(measured)
    if n == 1:
        return Interval(mean, -math.inf, math.inf, n)
    means = _draw_bootstrap_means(np.random.default_rng(rng_seed), measured, resamples)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(mean, float(low), float(high), n)


def _draw_bootstrap_means(
    rng: np.random.Generator, measured: list[Float[np.ndarray, "_"]], resamples: int
) -> Float[np.ndarray, "resamples"]:
    """Return the means over seeds of `resamples` bootstrap samples."""
    if all(len(trials) == 1 for trials in measured):
        numbers = np.concatenate(measured)
        return numbers[rng.integers(len(numbers), size=(resamples, len(numbers)))].mean(axis=1)
    return np.array(
        [np.mean([_resample_mean(rng, trials) for trials in _resample_seeds(rng, measured)]) for _ in range(resamples)]
    )


def _resample_seeds(rng: np.random.Generator, measured: list[Float[np.ndarray, "_"]]) -> list[Float[np.ndarray, "_"]]:
    return [measured[number] for number in rng.integers(len(measured), size=len(measured))]


def _resample_mean(rng: np.random.Generator, trials: Float[np.ndarray, "_"]) -> float:
    return float(trials[rng.integers(len(trials), size=len(trials))].mean())


def paired_difference(
    first: Mapping[int, Measurement],
    second: Mapping[int, Measurement],
    *,
    rng_seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> PairedDifference:
    """Compute `first` minus `second`, paired by seed, so that effects of the seed on both cancel.

    Args:
      first: by seed, a number or the numbers of its trials.
      second: the same for the same seeds.
      rng_seed: seed of the bootstrap.
      resamples: number of bootstrap samples.
      confidence: probability that an interval contains the mean.
    """
    if first.keys() != second.keys():
        raise ValueError(
            f"Both methods must have the same seeds to be paired, got {_list_seeds(first)} and {_list_seeds(second)}."
        )
    seeds = tuple(sorted(first))
    pairs = [_check_measurements([first[seed], second[seed]]) for seed in seeds]
    differences = [float(one.mean() - other.mean()) for one, other in pairs]
    return PairedDifference(
        student=student_interval(differences, confidence=confidence),
        bootstrap=bootstrap_interval(differences, rng_seed=rng_seed, resamples=resamples, confidence=confidence),
        seeds=seeds,
    )


def _list_seeds(by_seed: Mapping[int, Measurement]) -> str:
    return ", ".join(map(str, sorted(by_seed))) or "none"


def _check_measurements(seeds: Iterable[Measurement]) -> list[Float[np.ndarray, "_"]]:
    """Return each seed's numbers as a flat array; raise if any are missing or not finite."""
    measured = [np.asarray(trials, np.float64).reshape(-1) for trials in seeds]
    if not measured or not all(len(trials) for trials in measured):
        raise ValueError(f"seeds must hold at least one seed with at least one number each, got {len(measured)} seeds.")
    if not all(np.isfinite(trials).all() for trials in measured):
        raise ValueError(f"seeds must hold finite numbers, got {[trials.tolist() for trials in measured]}.")
    return measured
