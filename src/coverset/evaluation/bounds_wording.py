"""An agent between chance, covering bound, Bayes bound and oracle, averaged over seeds: numbers and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Record = Mapping[str, Any]


class BoundRange(NamedTuple):
    """A bound, averaged over seeds."""

    at_least: float
    at_most: float | None
    exact: bool

    def __str__(self) -> str:
        if self.exact:
            return f"{self.at_least:.3g}"
        return f"at least {self.at_least:.3g}" if self.at_most is None else f"{self.at_least:.3g} to {self.at_most:.3g}"


class Scale(NamedTuple):
    """What an agent's mean return stands between; None where it is not known for all seeds."""

    chance: float
    covering: BoundRange | None
    bayes: BoundRange | None
    oracle: float | None
    covering_fraction: float | None


def average_bounds(records: Sequence[Record]) -> Scale | None:
    """The bounds of one agent's records, averaged over seeds; None unless all have them."""
    bounds = [record["bounds"] for record in records if record.get("bounds") is not None]
    if not bounds or len(bounds) < len(records):
        return None
    return Scale(
        chance=float(np.mean([one["chance"] for one in bounds])),
        covering=_average([one["covering"] for one in bounds]),
        bayes=_average([one["bayes"] for one in bounds]),
        oracle=_mean([one["oracle"] for one in bounds]),
        covering_fraction=_mean([record.get("covering_fraction") for record in records]),
    )


def _average(found: Sequence[Record | None]) -> BoundRange | None:
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    lower, upper = (_mean([one[name] for one in known]) for name in ("at_least", "at_most"))
    return None if lower is None else BoundRange(lower, upper, all(one["exact"] for one in known))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def describe_bounds(records: Sequence[Record]) -> str | None:
    """Such as "chance 1.2 < 6.7 earned (0.98 of the covering bound); covering bound 6.8 to 6.9, oracle 7.15"."""
    scale = average_bounds(records)
    if scale is None:
        return None
    fraction = scale.covering_fraction
    earned = f"{np.mean([record['mean_return'] for record in records]):.3g} earned"
    share = "" if fraction is None else f" ({fraction:.3f} of the covering bound)"
    named = {"covering bound": scale.covering, "Bayes bound": scale.bayes}
    parts = [f"{name} {bound}" for name, bound in named.items() if bound is not None]
    parts += [] if scale.oracle is None else [f"oracle {scale.oracle:.3g}"]
    return "; ".join([f"{earned}{share}", f"chance {scale.chance:.3g}, {', '.join(parts)}" if parts else ""]) + "."
