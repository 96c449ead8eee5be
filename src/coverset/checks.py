"""Small validators: what was wanted, what came. They raise ValueError where a value enters."""

import math
from collections.abc import Collection, Sequence
from difflib import get_close_matches


def at_least(name: str, value: float, minimum: float, why: str = "") -> None:
    """Raise unless `value >= minimum`; NaN is refused too."""
    if not value >= minimum:
        reason = f" {why}" if why else ""
        raise ValueError(f"{name} must be at least {minimum}{reason}, got {value}.")


def positive(name: str, value: float) -> None:
    """Raise unless `value` is finite and above zero."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number above 0, got {value}.")


def between(name: str, value: float, low: float, high: float) -> None:
    """Raise unless `low <= value <= high`; NaN is refused too."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, got {value}.")


def one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raise unless `value` is one of the `known` names; suggest the nearest."""
    if value not in known:
        near = get_close_matches(value, known, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"{name} must be one of {', '.join(sorted(known))}, got '{value}'.{hint}")


def payoff_table(name: str, rows: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Return `rows` as a rectangular tuple of finite floats, or raise naming the first bad place."""
    if not rows or not all(len(row) > 0 for row in rows):
        raise ValueError(f"{name} must have at least one row and one column, got {list(map(list, rows))}.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name} must be rectangular: row 0 has {len(rows[0])} entries, row {number} has {len(row)}."
            )
        for column, value in enumerate(row):
            if not math.isfinite(value):
                raise ValueError(f"{name} must hold finite numbers, got {value} in row {number}, column {column}.")
    return tuple(tuple(float(value) for value in row) for row in rows)
