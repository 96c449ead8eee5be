"""Averages over the members of a population, and over the seeds of an evaluation, for tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from jaxtyping import Float

from coverset.evaluation.statistics import Interval, student_interval


def mean_self_and_cross_play(pair_returns: Float[np.ndarray, "R C"]) -> tuple[float, float]:
    """Mean of the diagonal, and mean of all other entries."""
    own = np.eye(*pair_returns.shape, dtype=bool)
    return float(pair_returns[own].mean()), float(pair_returns[~own].mean())


@dataclass(frozen=True)
class PartnerAverage:
    """Results of several seeds' agents with one partner, or with all of them."""

    interval: Interval
    """Mean return over seeds."""
    oracle: float | None
    oracle_exact: bool
    """Whether the oracle's return is exact, rather than a bound."""
    oracle_fraction: float | None
    curve: tuple[float, ...]
    """Mean return by episode of a trial."""


def average_over_seeds(cells: Sequence[dict[str, Any]]) -> PartnerAverage:
    """Average the results of each seed's agent with one partner, as in `evaluation.json`."""
    fractions = [fraction for cell in cells if (fraction := cell.get("oracle_fraction")) is not None]
    return PartnerAverage(
        interval=student_interval([cell["mean_return"] for cell in cells]),
        oracle=cells[0].get("oracle"),
        oracle_exact=cells[0].get("oracle_exact") in (True, None),
        oracle_fraction=fmean(fractions) if fractions else None,
        curve=tuple(map(fmean, zip(*(cell["curve"] for cell in cells), strict=True))),
    )
