"""Read values from untrusted files: a value of an unexpected form counts as unknown."""

import math
from typing import Any

LONGEST_TEXT = 300
LARGEST_POPULATION = 64


def as_number(value: Any) -> float | None:
    """A finite number, or None."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain and math.isfinite(value) else None


def as_count(value: Any) -> int | None:
    """A non-negative whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def as_text(value: Any) -> str | None:
    """A string of bounded length, or None."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def as_texts(value: Any) -> list[str | None]:
    """A list of strings, None for unknown entries."""
    return [as_text(item) for item in value[:LARGEST_POPULATION]] if isinstance(value, list) else []


def as_matrix(value: Any) -> list[list[float | None]] | None:
    """A square matrix of numbers, None for unknown entries."""
    if not isinstance(value, list) or not 0 < len(value) <= LARGEST_POPULATION:
        return None
    if not all(isinstance(row, list) and len(row) == len(value) for row in value):
        return None
    return [[as_number(entry) for entry in row] for row in value]


def as_numbers(value: Any) -> Any:
    """A number, a list of numbers or a list of such lists, None for unknown entries; None for anything else."""
    if not isinstance(value, list):
        return as_number(value)
    if not 0 < len(value) <= LARGEST_POPULATION:
        return None
    rows = [entry for entry in value if isinstance(entry, list)]
    if not rows:
        return [as_number(entry) for entry in value]
    if len(rows) < len(value) or not all(0 < len(row) <= LARGEST_POPULATION for row in rows):
        return None
    return [[as_number(entry) for entry in row] for row in rows]


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object, empty for anything else."""
    return value if isinstance(value, dict) else {}
