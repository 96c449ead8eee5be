"""Finite games as exact tables, and how to load one from a name, a file or an array.

Rows are the ego agent's actions, columns the teammate's. With several teammates a column is a profile, one action per
teammate, in the order of nested loops with the last teammate innermost: the table [rows, actions of teammate 1, ...,
actions of teammate m] flattened after its first axis. Payoffs are rational numbers: a binary float is the fraction
it stores, a decimal in a CSV or JSON file the number as written, so that payoffs such as 0.1 + 0.2 and 0.3 tie as their
author intended.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from coverset.solver.payoffs import Table, exact_array, exact_table, flatten_profiles, is_list, parse_number, shorten

REPEATED_MATRIX = ((10, 0, 4), (0, 6, 4), (4, 4, 6))
CORNERS = ("A", "B", "C", "D")
SAME_CORNER = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
WEIGHTED_CORNERS = ((10, 0, 6, 6), (0, 10, 6, 6), (6, 6, 8, 0), (6, 6, 0, 8))
ROCK_PAPER_SCISSORS = ((0, -1, 1), (1, 0, -1), (-1, 1, 0))
MATCHING_PENNIES = ((1, -1), (-1, 1))


@dataclass(frozen=True)
class Game:
    """A matrix game from the ego agent's view. Build one with `load`, `game_from_table` or `game_from_players`."""

    ego: Table
    """Payoff of the ego agent, [row][column], which determines the best responses."""
    teammate: Table | None = None
    """Payoff of the teammate in a general-sum game of two players; None otherwise."""
    ego_actions: tuple[str, ...] = ()
    """One name per row."""
    teammate_actions: tuple[str, ...] = ()
    """One name per column; with several teammates, those of the profile such as `(left, up)`."""
    name: str = "game"
    team_actions: tuple[tuple[str, ...], ...] = ()
    """With several teammates, the action names of each; with one, empty."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of ego actions and of columns."""
        return len(self.ego), len(self.ego[0])

    @property
    def team_shape(self) -> tuple[int, ...]:
        """Number of actions of each teammate."""
        return tuple(map(len, self.team_actions)) or self.shape[1:]

    @property
    def players(self) -> int:
        """Number of players, the ego agent included."""
        return 1 + len(self.team_shape)

    def floats(self) -> np.ndarray:
        """Return the ego payoffs rounded to float64 [rows, columns], for drawing and printing."""
        return np.array([[float(value) for value in row] for row in self.ego])


def game_from_table(
    ego: Any,
    teammate: Any = None,
    *,
    ego_actions: Sequence[str] | None = None,
    teammate_actions: Sequence[Any] | None = None,
    name: str = "game",
) -> Game:
    """Build a `Game` from payoffs and names, after checking them.

    Args:
      ego: nested sequence or array of finite numbers (floats, integers, fractions, decimal text), [rows, columns] or,
        with m teammates, [rows, actions of teammate 1, ..., actions of teammate m].
      teammate: the same shape for a general-sum game of two players; None for common payoffs.
      ego_actions: one name per row; by default numbers from 0.
      teammate_actions: one name per column, or with several teammates a list of names for each; by default numbers.
      name: name of the game in tables and figures.
    """
    flat, team = flatten_profiles("payoffs", ego)
    table = exact_table("payoffs", flat, team)
    rows, columns = len(table), len(table[0])
    if teammate is not None and len(team) > 1:
        raise ValueError(
            f"teammate payoffs are for two players, got {1 + len(team)}; give one table per player as 'players'."
        )
    other = None if teammate is None else exact_table("teammate payoffs", teammate)
    if other is not None and (len(other), len(other[0])) != (rows, columns):
        raise ValueError(
            f"teammate payoffs must be {rows} x {columns} like the ego payoffs, got {len(other)} x {len(other[0])}."
        )
    team_names = _check_team_names(teammate_actions, team)
    return Game(
        ego=table,
        teammate=other,
        ego_actions=_check_names("ego_actions", ego_actions, rows),
        teammate_actions=_name_profiles(team_names),
        name=name,
        team_actions=team_names if len(team) > 1 else (),
    )


def game_from_players(
    tables: Sequence[Any],
    *,
    ego_player: int = 0,
    ego_actions: Sequence[str] | None = None,
    teammate_actions: Sequence[Any] | None = None,
    name: str = "game",
) -> Game:
    """Build a `Game` from one payoff table per player, such as the two tables of a bimatrix game.

    Only the ego agent's table determines its best responses. Those of teammates are checked; they would matter only if
    teammates were assumed to act in their own interest, and a coverage set is for teammates of any kind.

    Args:
      tables: N tables of the same shape [actions of player 0, ..., actions of player N - 1].
      ego_player: which player is the ego agent, from 0; the others are its teammates in their order.
      ego_actions: names of the ego agent's actions, as in `game_from_table`.
      teammate_actions: names of the teammates' actions, as in `game_from_table`.
      name: name of the game in tables and figures.
    """
    names = {"ego_actions": ego_actions, "teammate_actions": teammate_actions}
    return _parse_players(tables, ego_player, name, names)


def _parse_players(tables: Any, ego_player: Any, name: str, names: dict[str, Any]) -> Game:
    arrays = [exact_array(f"payoffs of player {player}", table) for player, table in enumerate(_list_tables(tables))]
    _check_players(arrays, ego_player)
    own, *others = (np.moveaxis(array, ego_player, 0).tolist() for array in _put_first(arrays, ego_player))
    teammate = others[0] if len(others) == 1 else None
    return game_from_table(own, teammate, name=name, **names)


def _list_tables(tables: Any) -> list[Any]:
    if not is_list(tables):
        raise ValueError(f"players must be a list of payoff tables, one per player, got {shorten(tables)}.")
    return list(tables)


def _check_players(arrays: list[np.ndarray], ego_player: Any) -> None:
    count = len(arrays)
    if count < 2:
        raise ValueError(f"players must hold at least two payoff tables, one per player, got {count}.")
    for player, array in enumerate(arrays):
        if array.ndim != count:
            raise ValueError(
                f"payoffs of player {player} must have one dimension per player, {count}, got shape {array.shape}."
            )
        if array.shape != arrays[0].shape:
            raise ValueError(
                f"payoffs of player {player} must have the shape of player 0's, {arrays[0].shape}, got {array.shape}."
            )
    if isinstance(ego_player, bool) or not isinstance(ego_player, int) or not 0 <= ego_player < count:
        raise ValueError(f"ego_player must be a player from 0 to {count - 1}, got {shorten(ego_player)}.")


def _put_first(arrays: list[np.ndarray], player: int) -> list[np.ndarray]:
    return [arrays[player], *arrays[:player], *arrays[player + 1 :]]


def _name_both(*actions: str) -> dict[str, Any]:
    return {"ego_actions": actions, "teammate_actions": actions}


_CORNER_NAMES = _name_both(*CORNERS)
_BUILT_IN: dict[str, tuple[Any, dict[str, Any]]] = {
    "matrix": (REPEATED_MATRIX, _name_both("1", "2", "3")),
    "reaching": (SAME_CORNER, _CORNER_NAMES),
    "weighted-reaching": (WEIGHTED_CORNERS, _CORNER_NAMES),
    "rock-paper-scissors": (ROCK_PAPER_SCISSORS, _name_both("rock", "paper", "scissors")),
    "matching-pennies": (MATCHING_PENNIES, _name_both("heads", "tails")),
}
_ZERO_SUM = ("rock-paper-scissors", "matching-pennies")
"""Built-in games in which the teammate earns what the ego agent loses."""


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
        teammate = [[-value for value in row] for row in payoffs] if source in _ZERO_SUM else None
        return game_from_table(payoffs, teammate, name=source, **names)
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    if isinstance(source, Mapping):
        return _parse_mapping(source, "game")
    return game_from_table(source)


def _check_names(field: str, given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(number) for number in range(count))
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"{field} must be a list of {count} names, got {shorten(given)}.")
    names = tuple(str(name) for name in given)
    if len(names) != count:
        raise ValueError(f"{field} must hold {count} names, one per action, got {len(names)}.")
    if len(set(names)) != count:
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{field} must hold different names, got '{repeated}' more than once.")
    return names


def _check_team_names(given: Any, team: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the action names of each teammate: one list of names for one teammate, a list of lists for several."""
    if len(team) == 1:
        return (_check_names("teammate_actions", given, team[0]),)
    if given is None:
        return tuple(_check_names("teammate_actions", None, size) for size in team)
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(team):
        raise ValueError(
            f"teammate_actions must be {len(team)} lists of names, one per teammate, got {shorten(given)}."
        )
    return tuple(
        _check_names(f"teammate_actions of teammate {number}", names, size)
        for number, (names, size) in enumerate(zip(given, team, strict=True), start=1)
    )


def _name_profiles(team_names: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    if len(team_names) == 1:
        return team_names[0]
    return tuple(f"({', '.join(profile)})" for profile in product(*team_names))


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


_KEYS = ("payoffs", "ego", "teammate", "players", "ego_player", "ego_actions", "teammate_actions", "name")


def _parse_mapping(content: Any, name: str) -> Game:
    """Parse JSON content: `payoffs`, `ego` and `teammate`, or `players`, with optional names; or a bare table."""
    if not isinstance(content, Mapping):
        return game_from_table(content, name=name)
    unknown = [key for key in content if key not in _KEYS]
    if unknown:
        raise ValueError(f"a game's keys must be among {', '.join(_KEYS)}, got '{unknown[0]}'.")
    if sum(key in content for key in ("payoffs", "ego", "players")) != 1:
        raise ValueError(
            "a game must have either the key 'payoffs' (common payoffs), 'ego' (the ego agent's own) or 'players' "
            "(one table per player)."
        )
    if "ego" not in content and content.get("teammate") is not None:
        other = "payoffs" if "payoffs" in content else "players"
        raise ValueError(f"a game with 'teammate' payoffs must call the ego agent's own 'ego', not '{other}'.")
    if "players" not in content and "ego_player" in content:
        raise ValueError(
            "'ego_player' needs 'players', one table per player; in other tables the ego agent has the rows."
        )
    names = {key: content.get(key) for key in ("ego_actions", "teammate_actions")}
    title = str(content.get("name", name))
    if "players" in content:
        return _parse_players(content["players"], content.get("ego_player", 0), title, names)
    own = content["payoffs"] if "payoffs" in content else content["ego"]
    return game_from_table(own, content.get("teammate"), name=title, **names)


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
        named = len(lines[0]) > 1 and parse_number(lines[0][0]) is None and not _are_names(lines[0][1:], "row")
        return named, not named and _are_names(lines[0], "row")
    named_rows = _are_names([line[0] for line in lines[1:]], "first column")
    header = _are_names(lines[0][1:] if named_rows and len(lines[0]) > 1 else lines[0], "first row")
    if named_rows and not header:
        _are_names([line[0] for line in lines], "first column")
    return named_rows, header


def _are_names(cells: list[str], where: str) -> bool:
    """Whether `cells` are names. Names mixed with numbers are rejected, so that no mistyped number becomes a name."""
    texts = [cell for cell in cells if parse_number(cell) is None]
    if texts and len(texts) < len(cells):
        raise ValueError(f"the {where} must be all names or all numbers, got {shorten(texts[0])} among numbers.")
    return bool(texts)
