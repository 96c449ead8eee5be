"""Level-based Foraging: everything that belongs to it."""

from coverset.envs.foraging.dynamics import (
    EAST,
    LOAD,
    MOST_ORDERED_OBJECTS,
    NONE,
    NORTH,
    NOT_COLLECTED,
    NOWHERE,
    PAPER_CELLS,
    SOUTH,
    WEST,
    Foraging,
    ForagingState,
    ForagingView,
)

__all__ = [
    "EAST",
    "LOAD",
    "MOST_ORDERED_OBJECTS",
    "NONE",
    "NORTH",
    "NOT_COLLECTED",
    "NOWHERE",
    "PAPER_CELLS",
    "SOUTH",
    "WEST",
    "Foraging",
    "ForagingState",
    "ForagingView",
]
