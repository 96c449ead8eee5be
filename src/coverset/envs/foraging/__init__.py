"""Level-based Foraging: dynamics, heuristics, oracle and board."""

from coverset.envs.foraging.dynamics import (
    EAST,
    LOAD,
    MAX_ORDERED_OBJECTS,
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
    "MAX_ORDERED_OBJECTS",
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
