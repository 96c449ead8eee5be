"""A proven upper bound on the return of Overcooked: the labour that soups need, as a linear program.

Every episode of H steps is a walk of each player through the states (cell, direction, item held). Count how often each
player takes each transition; these counts satisfy, whatever the policies are,

    flow        a player leaves every state as often as it enters it, up to one start and one end
    time        a player makes at most H transitions
    counters    nothing is taken from a counter more often than it was put there (counters start empty)
    pots        a pot receives at least three onions for each soup that is taken from it (pots start empty)
    cooking     a pot gives at most (H - 3) / 26 soups

so the largest number of deliveries under these constraints, over real counts, bounds the soups of every pair. The
program forgets that players stand in each other's way, and when things happen.

Cooking: between two soups of one pot lie 26 steps or more. If a soup is taken in step t, its taker holds it and must
turn away, put it down, turn, take an onion, turn back and add it: not before t + 6. The other player may add an onion
in step t and, turning away, taking one and turning back, the next not before t + 4. So the third onion is not added
before t + 6, and the soup is taken 20 steps later at the earliest. The same count holds for the first soup, and a soup
that is taken in step t is delivered in step t + 2 or later.

The solver is not trusted: for any multipliers y >= 0 of the constraints A x <= b of a program max c x with x >= 0 and
sum x <= N, weak duality gives c x <= b y + N max(0, max(c - A^T y)). The bound is the right side, for the multipliers
that the solver returns, rounded down to whole soups.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from coverset.envs.overcooked.layouts import Kitchen
from coverset.envs.overcooked.rules import NOTHING, ONION, PLATE, SOUP

STEPS_BETWEEN_SOUPS = 26
STEPS_TO_DELIVER = 3
"""Steps of an episode after which a soup that was taken cannot be delivered any more, its own included."""
ROUNDING = 1e-6
"""Far above the error of the sums in double precision, far below one soup."""

State = tuple[int, int, int]
"""Floor number, direction, item held."""


class Transition(NamedTuple):
    """A step of one player that changes something, or the start or end of its walk."""

    player: int
    before: State | None
    """None for the start."""
    after: State | None
    """None for the end."""
    thing: int | None
    """What the player interacts with; None for a move, start or end."""


def most_soups(kitchen: Kitchen, horizon: int, items: Sequence[frozenset[int]] | None = None) -> int:
    """An upper bound on the soups that any two players deliver in `horizon` steps from empty hands, pots and counters.

    Args:
      kitchen: the layout.
      horizon: steps of an episode.
      items: what each player may ever hold; everything by default. An empty set is a player who does nothing.
    """
    held = items or (frozenset((NOTHING, ONION, PLATE, SOUP)),) * 2
    return _most_soups(kitchen, horizon, tuple(held))


@lru_cache(maxsize=256)
def _most_soups(kitchen: Kitchen, horizon: int, items: tuple[frozenset[int], ...]) -> int:
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    per_pot = max(0, (horizon - STEPS_TO_DELIVER) // STEPS_BETWEEN_SOUPS)
    transitions = [step for player in (0, 1) if items[player] for step in _transitions(kitchen, player, items[player])]
    if not transitions or per_pot == 0:
        return 0
    entries, limits = _constraints(kitchen, transitions, horizon, per_pot)
    rows, columns, values = zip(*entries, strict=True)
    matrix = coo_matrix((values, (rows, columns)), shape=(len(limits), len(transitions))).tocsr()
    gain = np.array([float(step.thing == kitchen.hatch) for step in transitions])
    solved = linprog(-gain, A_ub=matrix, b_ub=limits, bounds=(0, None), method="highs")
    multipliers = np.zeros(len(limits)) if solved.ineqlin is None else np.maximum(-solved.ineqlin.marginals, 0.0)
    short = max(0.0, float(np.max(gain - matrix.T @ multipliers)))
    bound = float(limits @ multipliers) + 2 * (horizon + 2) * short
    return min(int(np.floor(bound + ROUNDING)), per_pot * len(kitchen.pots))


def _transitions(kitchen: Kitchen, player: int, items: frozenset[int]) -> Iterator[Transition]:
    """All that a player can do in its part of the kitchen while it holds nothing but these items."""
    region = kitchen.regions[kitchen.starts[player]]
    for cell in np.flatnonzero(kitchen.regions == region).tolist():
        for direction in range(4):
            thing = int(kitchen.ahead[cell, direction])
            for held in items:
                here = (cell, direction, held)
                yield Transition(player, here, None, None)
                if held == NOTHING:
                    yield Transition(player, None, here, None)
                for turned in range(4):
                    there = (int(kitchen.moves[cell, turned]), turned, held)
                    if there != here:
                        yield Transition(player, here, there, None)
                for after in _after_interaction(kitchen, thing, held):
                    if after in items:
                        yield Transition(player, here, (cell, direction, after), thing)


def _after_interaction(kitchen: Kitchen, thing: int, held: int) -> tuple[int, ...]:
    """What a player may hold after an interaction that has an effect, in some state of the kitchen."""
    if thing < kitchen.first_pot:
        return (ONION, PLATE, SOUP) if held == NOTHING else (NOTHING,)
    if thing < kitchen.onions:
        return {ONION: (NOTHING,), PLATE: (SOUP,)}.get(held, ())
    taken = {kitchen.onions: (NOTHING, ONION), kitchen.plates: (NOTHING, PLATE), kitchen.hatch: (SOUP, NOTHING)}
    return (taken[thing][1],) if thing in taken and held == taken[thing][0] else ()


def _constraints(
    kitchen: Kitchen, transitions: list[Transition], horizon: int, per_pot: int
) -> tuple[list[tuple[int, int, float]], Float[np.ndarray, "m"]]:
    """Entries (row, column, value) of A and the vector b of the constraints A x <= b."""
    rows: dict[tuple, int] = {}
    limits: list[float] = []
    entries: list[tuple[int, int, float]] = []

    def add(name: tuple, limit: float, column: int, value: float) -> None:
        if name not in rows:
            rows[name] = len(limits)
            limits.append(limit)
        entries.append((rows[name], column, value))

    for column, (player, before, after, thing) in enumerate(transitions):
        for sign in (1.0, -1.0):
            if before is not None:
                add(("flow", player, before, sign), 0.0, column, sign)
            if after is not None:
                add(("flow", player, after, sign), 0.0, column, -sign)
        if before is None:
            add(("start", player), 1.0, column, 1.0)
        if before is None or after is None:
            continue
        add(("time", player), float(horizon), column, 1.0)
        if thing is not None and thing < kitchen.first_pot:
            taken, put = after[2], before[2]
            add(("counter", thing, taken or put), 0.0, column, 1.0 if taken else -1.0)
        elif thing is not None and thing < kitchen.onions:
            add(("pot", thing), 0.0, column, 3.0 if after[2] == SOUP else -1.0)
            if after[2] == SOUP:
                add(("cooking", thing), float(per_pot), column, 1.0)
    return entries, np.array(limits)
