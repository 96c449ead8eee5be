"""Method-specific metrics: the numeric fields below `method` in metrics rows, whatever method wrote them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from coverset.reports.records import CONSTRAINTS, Content


def stack_method_fields(rows: Sequence[Content]) -> dict[str, dict[str, np.ndarray]]:
    """Stack every field over rows, by field name and part; a part is [T], [T, n] or [T, n, m].

    A field that is a JSON object has one part per key, any other field the single part "". Rows without a field
    are NaN. Fields that are not numeric, or whose shape changes, are left out.
    """
    flat = [dict(_flatten(row.get("method") or {})) for row in rows]
    fields: dict[str, dict[str, np.ndarray]] = {}
    for name, part in dict.fromkeys(key for row in flat for key in row):
        values = _stack([row.get((name, part)) for row in flat])
        if values is not None:
            fields.setdefault(name, {})[part] = mask_diagonal(values) if part in CONSTRAINTS else values
    return fields


def _flatten(content: Content) -> Iterator[tuple[tuple[str, str], Any]]:
    for name, value in content.items():
        parts = value if isinstance(value, dict) else {"": value}
        yield from (((name, part), inner) for part, inner in parts.items())


def _stack(values: Sequence[Any]) -> np.ndarray | None:
    try:
        arrays = [None if value is None else np.array(value, float) for value in values]
    except (TypeError, ValueError):
        return None
    shapes = {array.shape for array in arrays if array is not None}
    if len(shapes) != 1 or len(shape := shapes.pop()) > 2:
        return None
    return np.stack([np.full(shape, np.nan) if array is None else array for array in arrays])


def mask_diagonal(values: np.ndarray) -> np.ndarray:
    """Constraints have no diagonal entries: a pair has none against itself."""
    if values.ndim == 3:
        diagonal = range(min(values.shape[1:]))
        values[:, diagonal, diagonal] = np.nan
    return values
