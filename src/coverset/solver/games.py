"""Finite two-player games as exact tables, and how to load one from a name, a file or an array.

Rows are the ego agent's actions, columns the teammate's. Payoffs are rational numbers: a binary float is the fraction
it stores, a decimal in a CSV or JSON file the number as written, so that payoffs such as 0.1 + 0.2 and 0.3 tie as their
author intended.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Table: TypeAlias = tuple[tuple[Fraction, ...], ...]

MAX_CELLS = 250_000
"""Largest accepted table, 500 x 500; one linear programme per row then takes minutes."""

MAX_PAYOFF = 1e300
"""Largest absolute payoff, so that differences and sums fit in floats."""

REPEATED_MATRIX = ((10, 0, 4), (0, 6, 4), (4, 4, 6))
CORNERS = ("A", "B", "C", "D")
SAME_CORNER = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
WEIGHTED_CORNERS = ((10, 0, 6, 6), (0, 10, 6, 6), (6, 6, 8, 0), (6, 6, 0, 8))


@dataclass(frozen=True)
class Game:
    """A two-player matrix game from the ego agent's view. Build one with `load` or `game_from_table`."""

    ego: Table
    """Payoff of the ego agent, [row][column], which determines the best responses."""
    teammate: Table | None = None
    """Payoff of the teammate in a general-sum game; None for common payoffs."""
    ego_actions: tuple[str, ...] = ()
    """One name per row."""
    teammate_actions: tuple[str, ...] = ()
    """One name per column."""
    name: str = "game"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of ego actions and of teammate actions."""
        return len(self.ego), len(self.ego[0])

    def floats(self) -> np.ndarray:
        """Return the ego payoffs rounded to float64 [rows, columns], for drawing and printing."""
        return np.array([[float(value) for value in row] for row in self.ego])


def game_from_table(
    ego: Any,
    teammate: Any = None,
    *,
    ego_actions: Sequence[str] | None = None,
    teammate_actions: Sequence[str] | None = None,
    name: str = "game",
) -> Game:
    """Build a `Game` from payoffs and names, after checking them.

    Args:
      ego: nested sequence or array [rows, columns] of finite numbers (floats, integers, fractions, decimal text).
      teammate: the same shape for a general-sum game; None for common payoffs.
      ego_actions: one name per row; by default numbers from 0.
      teammate_actions: one name per column; by default numbers from 0.
      name: name of the game in tables and figures.
    """
    table = exact_table("payoffs", ego)
    rows, columns = len(table), len(table[0])
    other = None if teammate is None else exact_table("teammate payoffs", teammate)
    if other is not None and (len(other), len(other[0])) != (rows, columns):
        raise ValueError(
            f"teammate payoffs must be {rows} x {columns} like the ego payoffs, got {len(other)} x {len(other[0])}."
        )
    return Game(
        ego=table,
        teammate=other,
        ego_actions=_check_names("ego_actions", ego_actions, rows),
        teammate_actions=_check_names("teammate_actions", teammate_actions, columns),
        name=name,
    )


_CORNER_NAMES = {"ego_actions": CORNERS, "teammate_actions": CORNERS}
_BUILT_IN: dict[str, tuple[Any, dict[str, Any]]] = {
    "matrix": (REPEATED_MATRIX, {"ego_actions": ("1", "2", "3"), "teammate_actions": ("1", "2", "3")}),
    "reaching": (SAME_CORNER, _CORNER_NAMES),
    "weighted-reaching": (WEIGHTED_CORNERS, _CORNER_NAMES),
}


def built_in_games() -> tuple[str, ...]:
    """Return the names of the built-in games; those of reaching games are their corner tables."""
    return tuple(_BUILT_IN)


def load(source: Any) -> Game:
    """Load a game from a name, a file or payoffs.

    Args:
      source: a `Game`, a built-in name, the path of a `.csv`, `.tsv` or `.json` file, a mapping with the keys of the
        JSON format, or an array or nested sequence of payoffs.
    """
    if isinstance(source, Game):
        return source
    if isinstance(source, str) and source in _BUILT_IN:
        payoffs, names = _BUILT_IN[source]
        return game_from_table(payoffs, name=source, **names)
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    if isinstance(source, Mapping):
        return _parse_mapping(source, "game")
    return game_from_table(source)


def exact_table(name: str, rows: Any) -> Table:
    """Convert `rows` to a rectangular table of fractions; the ValueError names the first invalid entry."""
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
        tuple(_to_fraction(value, name, number, column) for column, value in enumerate(row))
        for number, row in enumerate(rows)
    )


def _to_nested_lists(name: str, rows: Any) -> list[list[Any]]:
    if isinstance(rows, np.ndarray) or hasattr(rows, "__array__"):
        array = np.asarray(rows)
        if array.ndim != 2:
            raise ValueError(f"{name} must have two dimensions, rows and columns, got shape {array.shape}.")
        return array.tolist() if array.dtype != np.longdouble else array.astype(object).tolist()
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise ValueError(f"{name} must be a list of rows of numbers, got {_shorten(rows)}.")
    listed = list(rows)
    for number, row in enumerate(listed):
        if not isinstance(row, Iterable) or isinstance(row, str | bytes | Mapping):
            raise ValueError(f"{name} must be a list of rows of numbers, got {_shorten(row)} as row {number}.")
    return [list(row) for row in listed]


def _to_fraction(value: Any, name: str, row: int, column: int) -> Fraction:
    where = f"in row {row}, column {column}"
    if isinstance(value, str):
        number = _parse_number(value)
        if number is None:
            raise ValueError(f"{name} must hold numbers, got {_shorten(value)} {where}.")
        value = number
    value = value.item() if isinstance(value, np.generic) else value
    try:
        finite = abs(value) <= MAX_PAYOFF
        ratio = None if isinstance(value, bool) or not finite else value.as_integer_ratio()
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"{name} must hold numbers, got {_shorten(value)} {where}.") from error
    if ratio is None:
        raise ValueError(f"{name} must hold finite numbers up to 1e300, got {_shorten(value)} {where}.")
    return Fraction(int(ratio[0]), int(ratio[1]))


def _parse_number(text: str) -> Fraction | float | None:
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


def _check_names(field: str, given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(number) for number in range(count))
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"{field} must be a list of {count} names, got {_shorten(given)}.")
    names = tuple(str(name) for name in given)
    if len(names) != count:
        raise ValueError(f"{field} must hold {count} names, one per action, got {len(names)}.")
    if len(set(names)) != count:
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{field} must hold different names, got '{repeated}' more than once.")
    return names


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _read_file(path: Path) -> Game:
    if path.suffix.lower() not in (".csv", ".tsv", ".json") and not path.exists():
        near = get_close_matches(str(path), _BUILT_IN, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"game must be {', '.join(_BUILT_IN)} or the path of a CSV or JSON file, got '{path}'.{hint}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"game file '{path}' must be UTF-8 text, but byte {error.start} is not.") from error
    except OSError as error:
        raise ValueError(f"game file '{path}' could not be read: {error.strerror or error}.") from error
    try:
        if path.suffix.lower() == ".json":
            return _parse_mapping(_parse_json(text), path.stem)
        return _parse_csv(text, path.stem)
    except ValueError as error:
        raise ValueError(f"In game file '{path}': {error}") from error


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=str, parse_constant=float)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the text must be JSON, but {error}.") from error


_KEYS = ("payoffs", "ego", "teammate", "ego_actions", "teammate_actions", "name")


def _parse_mapping(content: Any, name: str) -> Game:
    """Parse JSON content: `{"payoffs": ...}`, `{"ego": ..., "teammate": ...}` with optional names, or a bare table."""
    if not isinstance(content, Mapping):
        return game_from_table(content, name=name)
    unknown = [key for key in content if key not in _KEYS]
    if unknown:
        raise ValueError(f"a game's keys must be among {', '.join(_KEYS)}, got '{unknown[0]}'.")
    if ("payoffs" in content) == ("ego" in content):
        raise ValueError("a game must have either the key 'payoffs' (common payoffs) or 'ego' (the ego agent's own).")
    if "payoffs" in content and content.get("teammate") is not None:
        raise ValueError("a game with 'teammate' payoffs must call the ego agent's own 'ego', not 'payoffs'.")
    return game_from_table(
        content["payoffs"] if "payoffs" in content else content["ego"],
        content.get("teammate"),
        ego_actions=content.get("ego_actions"),
        teammate_actions=content.get("teammate_actions"),
        name=str(content.get("name", name)),
    )


def _parse_csv(text: str, name: str) -> Game:
    """Parse CSV text, with or without a header of column names and a first column of row names."""
    first = text.partition("\n")[0]
    delimiter = next((mark for mark in "\t;" if mark in first), ",")
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text), delimiter=delimiter)]
    except csv.Error as error:
        raise ValueError(f"the text must be CSV, but {error}.") from error
    lines = [line for line in lines if any(line)]
    if not lines:
        raise ValueError("payoffs must have at least one row and one column, got an empty file.")
    named_rows, header = _detect_layout(lines)
    body = lines[1:] if header else lines
    table = [line[1:] for line in body] if named_rows else body
    columns = lines[0][-len(table[0]) :] if header and table and len(lines[0]) == len(body[0]) else lines[0]
    return game_from_table(
        table,
        ego_actions=[line[0] for line in body] if named_rows else None,
        teammate_actions=columns if header else None,
        name=name,
    )


def _detect_layout(lines: list[list[str]]) -> tuple[bool, bool]:
    """Detect whether the lines of a CSV start with row names, and whether the first line has column names."""
    if len(lines) == 1:
        named = len(lines[0]) > 1 and _parse_number(lines[0][0]) is None and not _are_names(lines[0][1:], "row")
        return named, not named and _are_names(lines[0], "row")
    named_rows = _are_names([line[0] for line in lines[1:]], "first column")
    header = _are_names(lines[0][1:] if named_rows and len(lines[0]) > 1 else lines[0], "first row")
    if named_rows and not header:
        _are_names([line[0] for line in lines], "first column")
    return named_rows, header


def _are_names(cells: list[str], where: str) -> bool:
    """Whether `cells` are names. Names mixed with numbers are rejected, so that no mistyped number becomes a name."""
    texts = [cell for cell in cells if _parse_number(cell) is None]
    if texts and len(texts) < len(cells):
        raise ValueError(f"the {where} must be all names or all numbers, got {_shorten(texts[0])} among numbers.")
    return bool(texts)
