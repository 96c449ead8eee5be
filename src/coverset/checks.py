"""Small validators that raise ValueError with what is allowed and what was given."""

import math
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

LARGEST_FLOAT32 = 3.4028234663852886e38
MAX_VALUE_CHARACTERS = 200
"""Longest excerpt of a value in an error message."""
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}


def describe_exception(error: BaseException) -> str:
    """The exception's type and the first line of its message, for an error message about third-party code."""
    line = (str(error).strip().splitlines() or [""])[0].rstrip(". ")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def format_value(value: Any) -> str:
    """Return the repr of a value, truncated for use in an error message."""
    text = repr(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}..."


def check_at_least(name: str, value: float, minimum: float, why: str = "") -> None:
    """Raise unless `value >= minimum`; NaN is rejected."""
    if not value >= minimum:
        reason = f" {why}" if why else ""
        raise ValueError(f"{name} must be at least {minimum}{reason}, got {value}.")


def check_positive(name: str, value: float) -> None:
    """Raise unless `value` is finite and above zero."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number above 0, got {value}.")


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Raise unless `low <= value <= high`; NaN is rejected."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, got {value}.")


def check_finite(name: str, value: float) -> None:
    """Raise if `value` is infinite or NaN."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}.")


def check_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raise unless `value` is one of the `known` names; suggest the nearest."""
    if value not in known:
        hint = suggest_nearest(value, known)
        raise ValueError(f"{name} must be one of {', '.join(sorted(known))}, got '{value}'.{hint}")


def suggest_nearest(value: str, known: Collection[str]) -> str:
    """A question, after a space, whether the nearest of the `known` names was meant; nothing if none is near."""
    near = get_close_matches(value, known, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def check_rectangular(name: str, rows: Sequence[Sequence[Any]]) -> None:
    """Raise unless all rows are as long as the first."""
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name} must be rectangular: row 0 has {len(rows[0])} entries, row {number} has {len(row)}."
            )


def check_payoff_table(name: str, rows: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Return `rows` as a rectangular tuple of finite floats, or raise an error that names the first invalid entry."""
    if not rows or not all(len(row) > 0 for row in rows):
        raise ValueError(f"{name} must have at least one row and one column, got {list(map(list, rows))}.")
    check_rectangular(name, rows)
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            if not math.isfinite(value):
                raise ValueError(f"{name} must hold finite numbers, got {value} in row {number}, column {column}.")
            if abs(value) > LARGEST_FLOAT32:
                raise ValueError(
                    f"{name} must hold numbers within the range of float32, up to 3.4e38, got {value} "
                    f"in row {number}, column {column}."
                )
    return tuple(tuple(float(value) for value in row) for row in rows)


def check_type(name: str, value: Any, annotation: Any) -> None:
    """Raise unless `value`, from JSON or a caller, matches a type annotation; a list is accepted for a tuple."""
    if not _fits(value, annotation):
        raise ValueError(f"{name} must be {_describe_annotation(annotation)}, got {format_value(value)}.")


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value matches an annotation composed of built-in types; any other annotation accepts every value."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation in (bool, str, type(None)):
        return isinstance(value, annotation)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in inner)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False
        if inner[1:] == (...,):
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    return True


def _describe_annotation(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(map(_describe_annotation, inner))
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin is not tuple:
        return _TYPE_NAMES.get(annotation, str(annotation))
    items = f"{len(inner)} items" if inner[1:] != (...,) else "items"
    return f"a list of {items}" if inner[0] is Any else f"a list of {items}, each {_describe_annotation(inner[0])}"
