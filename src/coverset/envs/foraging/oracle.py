"""Bounds for Level-based Foraging, where the best return is not computed.

The partner's memory, its coin tosses and the ways in which two players can block each other make the hidden state too
large for an exact answer. No agent can earn more than all objects, 1, or fewer where the horizon is too short for them.
"""

import itertools

import numpy as np
from jaxtyping import Int

from coverset.envs.foraging.dynamics import MOST_ORDERED_OBJECTS, Foraging
from coverset.envs.foraging.heuristics import BY_RANK, ObjectCollector
from coverset.envs.oracle import Oracle


def solve(environment: Foraging, partner: ObjectCollector, seat: int) -> Oracle:
    """The share of the objects that two players could collect before the horizon; an upper bound in either seat.

    With random objects, and with too many to go through their orders, the bound is 1.
    """
    del seat
    bound = 1.0
    if environment.objects == "fixed" and environment.num_objects <= MOST_ORDERED_OBJECTS:
        bound = _collectable(environment, _orders(environment, partner)) / environment.num_objects
    return Oracle(bound, exact=False, full_information=bound)


def _orders(environment: Foraging, partner: ObjectCollector) -> Int[np.ndarray, "orders M"]:
    """The orders that the partner may follow; by distance, any."""
    if int(partner.nearness) == BY_RANK:
        return np.argsort(np.asarray(partner.ranks))[None]
    return np.array([*itertools.permutations(range(environment.num_objects))])


def _collectable(environment: Foraging, orders: Int[np.ndarray, "orders M"]) -> float:
    """Mean over both starts of the objects that can be collected in one of the orders, if nothing were in the way.

    Beside the first object both are after max(d - 1) steps, d their distances from it; from object to object they walk
    at least their distance less the two cells beside them; and each object takes a step to load.
    """
    cells, size = np.asarray(environment.cells), environment.size
    everywhere = np.stack(np.divmod(np.arange(size**2), size), axis=-1)
    free = everywhere[~np.any(np.all(everywhere[:, None] == cells, axis=-1), axis=1)]
    to_first = np.abs(free[:, None] - cells[orders[:, 0]]).sum(axis=-1) - 1  # [cells, orders]
    between = np.abs(np.diff(cells[orders], axis=1)).sum(axis=-1) - 2
    later = np.cumsum(between + 1, axis=1)
    first = np.maximum(to_first[:, None], to_first) + 1  # [cells, cells, orders]
    done = np.concatenate([first[..., None], first[..., None] + later], axis=-1) <= environment.horizon
    collected = done.sum(axis=-1).max(axis=-1)
    return float(collected[~np.eye(len(free), dtype=bool)].mean())
