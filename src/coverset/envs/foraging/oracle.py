"""Upper bounds on returns in Level-based Foraging; the best return itself is not computed.

The partner's memory, its random choices and mutual blocking make the hidden state too large for an exact solution. The
return of all objects, 1, is an upper bound; it is lower if the horizon is too short to collect them.
"""

import functools
import itertools

import numpy as np
from jaxtyping import Int

from coverset.envs.foraging.dynamics import MAX_ORDERED_OBJECTS, Foraging
from coverset.envs.foraging.heuristics import BY_RANK, ObjectCollector
from coverset.envs.oracle import Oracle

MAX_PLAYERS = 3
"""Most players whose starts are enumerated."""


def solve(environment: Foraging, partner: ObjectCollector, seat: int) -> Oracle:
    """Bound the return by the share of objects that all players can collect before the horizon, in any seat.

    With random objects, too many to enumerate their orders, or more than three players, and if not all players are
    needed, so that they can collect several objects at a time, the bound is 1.
    """
    del seat
    bound = 1.0
    together = environment.level == environment.players <= MAX_PLAYERS
    if together and environment.objects == "fixed" and environment.num_objects <= MAX_ORDERED_OBJECTS:
        bound = _count_collectable(environment, _list_orders(environment, partner)) / environment.num_objects
    return Oracle(bound, exact=False, full_information=bound)


def _list_orders(environment: Foraging, partner: ObjectCollector) -> Int[np.ndarray, "orders M"]:
    """Return the orders that the partner may follow; all of them if it chooses by distance."""
    if int(partner.nearness) == BY_RANK:
        return np.argsort(np.asarray(partner.ranks))[None]
    return np.array([*itertools.permutations(range(environment.num_objects))])


def _count_collectable(environment: Foraging, orders: Int[np.ndarray, "orders M"]) -> float:
    """Mean over all starts of the objects that can be collected in the best of the orders, without obstacles.

    All players are adjacent to the first object after max(d - 1) steps, with d their distances from it; between two
    objects they walk at least the distance between them minus 2; and loading an object takes one step.
    """
    cells, size = np.asarray(environment.cells), environment.size
    everywhere = np.stack(np.divmod(np.arange(size**2), size), axis=-1)
    free = everywhere[~np.any(np.all(everywhere[:, None] == cells, axis=-1), axis=1)]
    to_first = np.abs(free[:, None] - cells[orders[:, 0]]).sum(axis=-1) - 1  # [cells, orders]
    between = np.abs(np.diff(cells[orders], axis=1)).sum(axis=-1) - 2
    later = np.cumsum(between + 1, axis=1)
    starts = np.indices((len(free),) * environment.players)
    first = functools.reduce(np.maximum, [to_first[start] for start in starts]) + 1  # [cells, cells, ..., orders]
    done = np.concatenate([first[..., None], first[..., None] + later], axis=-1) <= environment.horizon
    collected = done.sum(axis=-1).max(axis=-1)
    apart = [one != other for one, other in itertools.combinations(starts, 2)]
    return float(collected[np.logical_and.reduce(apart)].mean())
