"""Payoff tables as exact fractions, from nested sequences, arrays and text, with one sentence for every mistake."""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

Table: TypeAlias = tuple[tuple[Fraction, ...], ...]

MAX_CELLS = 250_000
"""Largest accepted table, 500 x 500; one linear programme per row then takes minutes."""

MAX_PAYOFF = 1e300
"""Largest absolute payoff, so that differences and sums fit in floats."""

MAX_PLAYERS = 16
"""Most players of a table; with two actions each, more would not fit into `MAX_CELLS` either."""


def flatten_profiles(name: str, payoffs: Any) -> tuple[list[list[Any]], tuple[int, ...]]:
    """Flatten nested payoffs [rows, actions of teammate 1, ...] to [rows, columns]; also return the teammates' shape.

    The nesting of the first entry counts as the number of dimensions; entries are not checked.
    """
    rows = _to_nested_lists(name, payoffs)
    sizes = [len(rows[0]) if rows else 0]
    while rows and rows[0] and is_list(rows[0][0]):
        sizes.append(len(list(rows[0][0])))
        if len(sizes) + 1 > MAX_PLAYERS:
            raise ValueError(f"{name} must have at most {MAX_PLAYERS} dimensions, one per player.")
        rows = _flatten_once(name, rows, sizes[-1], len(sizes) + 1)
    return rows, tuple(sizes)


def _flatten_once(name: str, rows: list[list[Any]], size: int, depth: int) -> list[list[Any]]:
    """Join the lists in each row, which must all have `size` entries."""
    for entry in chain.from_iterable(rows):
        if not is_list(entry) or len(list(entry)) != size:
            got = f"{len(list(entry))}" if is_list(entry) else shorten(entry)
            raise ValueError(f"{name} must be rectangular: lists at depth {depth} must hold {size} entries, got {got}.")
    return [list(chain.from_iterable(row)) for row in rows]


def is_list(value: Any) -> bool:
    """Whether `value` has entries; an array without dimensions has none."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) == 0:
        return False
    return isinstance(value, Iterable)


def exact_table(name: str, rows: Any, team: tuple[int, ...] = ()) -> Table:
    """Convert `rows` to a rectangular table of fractions; the ValueError names the first invalid entry.

    With `team`, the shape of several teammates, a column is named by its profile.
    """
    rows = _to_nested_lists(name, rows)
    if not rows or not rows[0]:
        raise ValueError(f"{name} must have at least one row and one column, got an empty table.")
    if len(rows) * len(rows[0]) > MAX_CELLS:
        raise ValueError(f"{name} must have at most {MAX_CELLS} entries, got {len(rows)} x {len(rows[0])}.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name} must be rectangular: row 0 has {len(rows[0])} entries, row {number} has {len(row)}."
            )
    return tuple(
        tuple(_to_fraction(value, name, number, column, team) for column, value in enumerate(row))
        for number, row in enumerate(rows)
    )


def _to_nested_lists(name: str, rows: Any) -> list[list[Any]]:
    if isinstance(rows, np.ndarray) or hasattr(rows, "__array__"):
        array = np.asarray(rows)
        if array.ndim < 2:
            raise ValueError(f"{name} must have at least two dimensions, rows and columns, got shape {array.shape}.")
        return array.tolist() if array.dtype != np.longdouble else array.astype(object).tolist()
    if not is_list(rows):
        raise ValueError(f"{name} must be a list of rows of numbers, got {shorten(rows)}.")
    listed = list(rows)
    for number, row in enumerate(listed):
        if not is_list(row):
            raise ValueError(f"{name} must be a list of rows of numbers, got {shorten(row)} as row {number}.")
    return [list(row) for row in listed]


def _to_fraction(value: Any, name: str, row: int, column: int, team: tuple[int, ...]) -> Fraction:
    try:
        ratio = _to_ratio(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        place = _describe_place(row, column, team)
        raise ValueError(f"{name} must hold numbers, got {shorten(value)} {place}.") from error
    if ratio is None:
        place = _describe_place(row, column, team)
        raise ValueError(f"{name} must hold finite numbers up to 1e300, got {shorten(value)} {place}.")
    return Fraction(int(ratio[0]), int(ratio[1]))


def _to_ratio(value: Any) -> tuple[Any, Any] | None:
    """Return the numerator and the denominator of a number; None unless it is finite and at most `MAX_PAYOFF`."""
    number: Any = parse_number(value) if isinstance(value, str) else value
    number = number.item() if isinstance(number, np.generic) else number
    finite = abs(number) <= MAX_PAYOFF  # raises a TypeError for None: text that is no number
    return None if isinstance(number, bool) or not finite else number.as_integer_ratio()


def _describe_place(row: int, column: int, team: tuple[int, ...]) -> str:
    if len(team) < 2:
        return f"in row {row}, column {column}"
    return "at " + "".join(f"[{index}]" for index in (row, *np.unravel_index(column, team)))


def parse_number(text: str) -> Fraction | float | None:
    """Parse a decimal or a ratio of integers exactly; None if `text` is not a number.

    A number above the range of a float becomes infinite, one below it None: expanding the exponent of 1e999999999 would
    exhaust the memory.
    """
    text = text.strip()
    try:
        rounded = float(text)
    except ValueError:
        ratio = re.fullmatch(r"[+-]?\d{1,300}/0*[1-9]\d{0,300}", text)
        return Fraction(text) if ratio else None
    if not math.isfinite(rounded):
        return rounded
    if rounded == 0.0:
        return None if re.search(r"[1-9]", re.split(r"[eE]", text)[0]) else Fraction(0)
    try:
        return Fraction(text)
    except ValueError:
        return None


def exact_array(name: str, payoffs: Any) -> np.ndarray:
    """Convert nested payoffs to an object array of fractions with one axis per player."""
    flat, team = flatten_profiles(name, payoffs)
    table = exact_table(name, flat, team)
    array = np.empty((len(table), len(table[0])), dtype=object)
    array[:] = table
    return array.reshape(len(table), *team)


def shorten(value: Any) -> str:
    """Format a value for a message."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
