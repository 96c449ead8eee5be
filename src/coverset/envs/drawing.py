"""How the studio draws a game: a board that stays the same, and a scene for each state.

A board is a grid, a table of payoffs, or a grid with a table beside it; without either, the studio shows the text of
`Environment.render`. Cells are (row, column), counted from 0 at the top left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Cell = tuple[int, int]


@dataclass(frozen=True)
class Action:
    """What one action is called, and how a person plays it."""

    name: str
    """Actions called up, down, left and right are laid out as arrows."""
    key: str = ""
    """The key that plays it, as browsers name keys: "1", " ", "ArrowUp". Empty for none."""
    highlighted: bool = False
    """Whether a player that has just done this is drawn with a thicker outline."""


@dataclass(frozen=True)
class Mark:
    """Something that lies on a cell."""

    cell: Cell
    label: str
    """One or two letters, drawn on the cell."""
    name: str = ""
    """What screen readers call it, such as "corner A"; the label if empty."""


@dataclass(frozen=True)
class Grid:
    """A grid of cells on which players, places and objects are drawn."""

    num_rows: int
    num_columns: int
    places: Sequence[Mark] = ()
    """Cells that matter throughout the game, drawn as coloured ground."""


@dataclass(frozen=True)
class Table:
    """A table of payoffs: a row for each choice of seat 0, a column for each choice of seat 1."""

    payoffs: Sequence[Sequence[float]]
    row_names: Sequence[str]
    column_names: Sequence[str]
    caption: str = "What the pair earns"


@dataclass(frozen=True)
class Board:
    """What stays the same in all states of a game."""

    rules: str
    """One to three sentences for a person who is about to play."""
    actions: tuple[Sequence[Action], Sequence[Action]]
    """Of seat 0 and of seat 1, in the order of their numbers."""
    grid: Grid | None = None
    table: Table | None = None
    hides_partner: bool = False
    """Whether a player does not see where the partner stands; the studio then hides it from a person too."""


@dataclass(frozen=True)
class Scene:
    """One state of a game, on its board."""

    positions: tuple[Cell | None, Cell | None] = (None, None)
    """Where the players stand on the grid; None for a player without a place."""
    objects: Sequence[Mark] = ()
    """What else lies on the grid now, drawn as discs."""
    played: tuple[int, int] | None = None
    """The entry of the table that the pair has just earned."""
    words: str = ""
    """The rest of the state in whole sentences, for screen readers. If empty, the objects are listed."""


WALKING = (
    Action("up", "ArrowUp"),
    Action("down", "ArrowDown"),
    Action("left", "ArrowLeft"),
    Action("right", "ArrowRight"),
)


def numbered_actions(count: int) -> list[Action]:
    """Name `count` actions "action 1", "action 2", ..., the first nine on the number keys."""
    return [Action(f"action {n + 1}", str(n + 1) if n < 9 else "") for n in range(count)]
