"""How the studio draws a game: one static board, and a scene for each state.

A board is a grid, a table of payoffs, or a grid with a table beside it; without either, the studio shows the text of
`Environment.render`. Cells are (row, column), counted from 0 at the top left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Cell = tuple[int, int]


@dataclass(frozen=True)
class Action:
    """The name of an action and the key that plays it."""

    name: str
    """Actions called up, down, left and right are laid out as arrows."""
    key: str = ""
    """The key as browsers name it: "1", " ", "ArrowUp". Empty for none."""
    highlighted: bool = False
    """Whether a player is drawn with a thicker outline after this action."""


@dataclass(frozen=True)
class Mark:
    """A labelled place or object on a cell."""

    cell: Cell
    label: str
    """One or two letters, drawn on the cell."""
    name: str = ""
    """Name for screen readers, such as "corner A"; the label if empty."""
    icon: str = ""
    """A picture instead of the plain shape, with the label on it: counter, onions, plates, hatch, pot, onion, plate,
    soup, and the contents of a pot: filling, cooking, done."""


@dataclass(frozen=True)
class Grid:
    """A grid of cells on which players, places and objects are drawn."""

    num_rows: int
    num_columns: int
    places: Sequence[Mark] = ()
    """Cells that matter throughout the game, drawn with a coloured background."""


@dataclass(frozen=True)
class Table:
    """A table of payoffs: a row for each choice of seat 0, a column for each choice of its teammates."""

    payoffs: Sequence[Sequence[float]]
    row_names: Sequence[str]
    column_names: Sequence[str]
    caption: str = "What the pair earns"


@dataclass(frozen=True)
class Board:
    """The static part of a game's drawing."""

    rules: str
    """One to three sentences for a human player."""
    actions: tuple[Sequence[Action], ...]
    """Actions of each seat, by number."""
    grid: Grid | None = None
    table: Table | None = None
    hides_partner: bool = False
    """Whether players do not observe the partner's position; the studio then hides it from people too."""


@dataclass(frozen=True)
class Scene:
    """One state of a game, on its board."""

    positions: tuple[Cell | None, ...] = (None, None)
    """Cells of the players; None for a player who is not on the grid, or hidden from the seat that looks."""
    objects: Sequence[Mark] = ()
    """Other objects on the grid, drawn as discs."""
    played: tuple[int, int] | None = None
    """The table entry that the pair has just earned."""
    facing: Sequence[str] = ()
    """Where every player looks: up, down, left or right. Empty where that does not matter."""
    carried: Sequence[str] = ()
    """The icon of what every player holds, "" for nothing. Empty where nobody holds anything."""
    words: str = ""
    """The rest of the state in full sentences, for screen readers. If empty, the objects are listed."""


MOVE_ACTIONS = (
    Action("up", "ArrowUp"),
    Action("down", "ArrowDown"),
    Action("left", "ArrowLeft"),
    Action("right", "ArrowRight"),
)


def number_actions(count: int) -> list[Action]:
    """Name `count` actions "action 1", "action 2", ..., the first nine on the number keys."""
    return [Action(f"action {n + 1}", str(n + 1) if n < 9 else "") for n in range(count)]
