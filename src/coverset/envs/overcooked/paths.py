"""Shortest paths in a kitchen, as tables that scripted cooks look up."""

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int

from coverset.envs.overcooked.layouts import UNREACHABLE, Kitchen, walk


@lru_cache(maxsize=64)
def reach_around(kitchen: Kitchen) -> Int[np.ndarray, "blocked things floor"]:
    """Steps from a floor cell to the nearest one beside a thing, around one blocked floor cell.

    The last entry of the first axis is for no blocked cell.
    """
    size = len(kitchen.floor)
    reach = np.full((size + 1, kitchen.num_things - 1, size), UNREACHABLE, np.int32)
    for blocked in range(size + 1):
        moves = np.where(kitchen.moves == blocked, np.arange(size)[:, None], kitchen.moves)
        for thing in range(kitchen.num_things - 1):
            beside = np.flatnonzero((kitchen.ahead == thing).any(axis=1))
            reach[blocked, thing] = walk([int(cell) for cell in beside if cell != blocked], moves)
    return reach


@lru_cache(maxsize=64)
def shared_counters(kitchen: Kitchen) -> Bool[np.ndarray, "C"]:
    """Counters over which two parts of the kitchen can hand each other things."""
    parts = [{*kitchen.regions[(kitchen.ahead == counter).any(axis=1)]} for counter in range(len(kitchen.counters))]
    return np.array([len(part) > 1 for part in parts], bool)
