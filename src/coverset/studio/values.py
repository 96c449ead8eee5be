"""Values out of files that anybody may have written: what does not have the expected form counts as unknown."""

import math
from typing import Any

LONGEST_TEXT = 300
LARGEST_POPULATION = 64


def number(value: Any) -> float | None:
    """A finite number, or None."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain and math.isfinite(value) else None


def count(value: Any) -> int | None:
    """A whole number from 0 on, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def text(value: Any) -> str | None:
    """A text of bounded length, or None."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def texts(value: Any) -> list[str | None]:
    """A list of texts, None where one is unknown."""
    return [text(item) for item in value[:LARGEST_POPULATION]] if isinstance(value, list) else []


def matrix(value: Any) -> list[list[float | None]] | None:
    """A square table of numbers, None where one is unknown."""
    if not isinstance(value, list) or not 0 < len(value) <= LARGEST_POPULATION:
        return None
    if not all(isinstance(row, list) and len(row) == len(value) for row in value):
        return None
    return [[number(entry) for entry in row] for row in value]


def record(value: Any) -> dict[str, Any]:
    """An object, empty if there is none."""
    return value if isinstance(value, dict) else {}
