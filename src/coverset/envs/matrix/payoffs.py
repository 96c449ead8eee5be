"""Payoff tables of any number of players, as users write them: nested lists of numbers with one level per player."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

from coverset.checks import check_payoff_table, format_value


def check_payoffs(payoffs: Any, *, by_player: bool) -> tuple:
    """Return payoffs as nested tuples of floats, or raise an error that names the first invalid entry.

    Args:
      payoffs: the common table, which has an axis for each player, or, if `by_player`, a table for each player.
    """
    _check_nesting(payoffs)
    players = _count_axes(payoffs) - by_player
    if players < 2:
        wanted = "a list of tables, one for each player," if by_player else "a list of lists of numbers"
        raise ValueError(f"payoffs must be {wanted} for two or more players, got {_format(payoffs)}.")
    if by_player and len(payoffs) != players:
        raise ValueError(
            f"payoffs must hold one table for each player: tables of {players} axes are those of {players} players, "
            f"got {len(payoffs)} tables."
        )
    return _check_tables("payoffs", payoffs)


def _check_nesting(payoffs: Any) -> None:
    """Raise unless all entries are lists, down to numbers on one level."""
    levels = [payoffs]
    while not all(map(_is_number, levels)):
        if not all(isinstance(entry, list | tuple) for entry in levels):
            raise ValueError(
                f"payoffs must be a list of lists of numbers, nested once for each player, got {_format(payoffs)}."
            )
        levels = [item for entry in levels for item in entry]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _count_axes(table: Any) -> int:
    """Levels of nesting; an empty list counts as an empty table, which `check_payoff_table` refuses."""
    if not isinstance(table, list | tuple):
        return 0
    return 1 + _count_axes(table[0]) if table else 2


def _check_tables(name: str, table: Sequence[Any]) -> tuple:
    """Check every two-dimensional part, and that the parts have one shape."""
    if _count_axes(table) == 2:
        return check_payoff_table(name, table)
    parts = tuple(_check_tables(f"{name}[{number}]", part) for number, part in enumerate(table))
    for number, part in enumerate(parts):
        if shape_of(part) != shape_of(parts[0]):
            raise ValueError(
                f"{name} must hold tables of one shape: number 0 is {_format_shape(parts[0])}, "
                f"number {number} is {_format_shape(part)}."
            )
    return parts


def shape_of(table: Any) -> tuple[int, ...]:
    """Entries along each axis of a rectangular table."""
    return (len(table), *shape_of(table[0])) if isinstance(table, tuple) else ()


def _format(payoffs: Any) -> str:
    return format_value(_to_lists(payoffs))


def _to_lists(value: Any) -> Any:
    """Convert tuples to lists, as users write them."""
    return [_to_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _format_shape(table: Any) -> str:
    return " x ".join(map(str, shape_of(table)))
