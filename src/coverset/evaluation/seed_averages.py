"""Averages over the members of a population, and over the seeds of an evaluation, for tables."""

from collections.abc import Iterable, Mapping, Sequence
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
    reference: float | None
    """What the best responses of the partner's own seed earn with it."""
    reference_fraction: float | None
    curve: tuple[float, ...]
    """Mean return by episode of a trial."""

    def fraction(self, kind: str) -> float | None:
        """The mean return as a fraction of the `oracle` or of the `reference`."""
        return self.oracle_fraction if kind == "oracle" else self.reference_fraction


def average_over_seeds(cells: Sequence[Mapping[str, Any]]) -> PartnerAverage:
    """Average the results of each seed's agent with one partner, as in `evaluation.json`."""
    return PartnerAverage(
        interval=student_interval([cell["mean_return"] for cell in cells]),
        oracle=cells[0].get("oracle"),
        oracle_exact=cells[0].get("oracle_exact") in (True, None),
        oracle_fraction=_mean_known(cells, "oracle_fraction"),
        reference=_mean_known(cells, "reference"),
        reference_fraction=_mean_known(cells, "reference_fraction"),
        curve=tuple(map(fmean, zip(*(cell["curve"] for cell in cells), strict=True))),
    )


def cells_by_title(records: Iterable[Mapping[str, Any]], field: str) -> dict[str, list[Mapping[str, Any]]]:
    """The cells of several seeds' evaluations by the title of the partner or team, in order.

    Seeds have partners of the same key that are not the same policy: `other-seeds 1` is a teammate of another seed for
    each. Their titles name the policy.

    Args:
      records: as in `evaluation.json`.
      field: `partners` or `mixed_teams`.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        for name, cell in record.get(field, {}).items():
            found.setdefault(team_title(name, record["partners"]), []).append(cell)
    return found


def team_title(name: str, partners: Mapping[str, Mapping[str, Any]]) -> str:
    """The titles of the partners of a team, which is named by their keys joined by +."""
    return " + ".join(partners.get(part, {}).get("title") or part for part in name.split(" + "))


def _mean_known(cells: Sequence[Mapping[str, Any]], field: str) -> float | None:
    known = [value for cell in cells if (value := cell.get(field)) is not None]
    return fmean(known) if known else None


def describe_spread(values: Sequence[float]) -> str:
    """How far seeds differ: their 95% interval. Two seeds are both shown, since Student's interval of two is absurd."""
    if len(values) == 1:
        return "one seed"
    if len(values) == 2:
        return f"two seeds: {min(values):.3g}, {max(values):.3g}"
    interval = student_interval(values)
    return f"{interval.low:.3g} to {interval.high:.3g}"
