"""The minimum coverage set of a finite two-player game, decided exactly.

An ego action is needed if and only if some teammate mix p makes it strictly the best among different rows:

    margin(i) = max_p min_{k : a_k != a_i} (a_i - a_k) . p > 0,        a_i row i of the ego payoffs, p in the simplex

Proof: the regions where each row is a best response are finitely many closed polyhedra that cover the simplex.
Lower-dimensional regions have empty interior, so the full-dimensional ones cover the simplex alone; two different
rows tie only on a hyperplane, so a region is full-dimensional iff its margin is positive. Conversely, near the mix that
attains a positive margin no other row is a best response, so every coverage set contains the action. Of equal rows one
is needed, here the first. Mixed ego policies change nothing, because they earn less at that mix.

Rahman et al. 2024, the definitions of CS(E) and MCS(E), for one-shot games in which Pi is the simplex of mixed actions.

Each margin is the value of a zero-sum game (`zero_sum.py`). HiGHS proposes a teammate mix p and a mix y of rivals; both
are rounded to rationals and evaluated in integers, which gives exact bounds low <= margin <= high. If these leave the
sign open, the game is solved in exact arithmetic. No decision uses a tolerance.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from coverset.solver.games import Game, Table, load
from coverset.solver.zero_sum import (
    Bounds,
    Budget,
    Mix,
    UndecidedError,
    exact_bounds,
    float_strategies,
    guaranteed_gain,
    largest_gain,
)

MAX_RELATIVE_WIDTH = Fraction(1, 10**7)
"""Widest gap between the bounds of a margin, relative to the payoff range, that needs no exact solve."""
SIMPLE_DENOMINATOR = 1000
"""Probabilities are first rounded to fractions with at most this denominator."""
SIMPLE_SUPPORT = 12
"""Largest support of a mix to round to simple fractions; with more, the common denominator grows too large."""


@dataclass(frozen=True)
class Member:
    """An action of the minimum coverage set."""

    action: int
    witness: tuple[Fraction, ...]
    """A teammate mix for which only this action (and its duplicates) is a best response."""
    margin: Fraction | None
    """Its payoff at the witness minus that of the next best different action; None if there is no other action."""


@dataclass(frozen=True)
class NonMember:
    """An action outside the minimum coverage set."""

    action: int
    kind: str
    """`duplicate` of another row; `dominated`: never a best response; `tied`: a best response only where others are."""
    by: dict[int, Fraction]
    """A mix of other actions that earns at least as much with every teammate."""
    margin: Fraction
    """Its largest margin over the best of the others: negative if dominated, else 0."""
    reason: str


@dataclass(frozen=True)
class Solution:
    """A minimum coverage set with a proof for every action of the game."""

    game: Game
    members: tuple[Member, ...]
    non_members: tuple[NonMember, ...]

    @property
    def coverage_set(self) -> tuple[int, ...]:
        """Rows of the minimum coverage set, from 0, ascending; the first of equal rows."""
        return tuple(member.action for member in self.members)

    @property
    def witnesses(self) -> np.ndarray:
        """The witness mixes of `members` rounded to float64 [members, columns]."""
        return np.array([[float(share) for share in member.witness] for member in self.members])

    @property
    def margins(self) -> tuple[float, ...]:
        """One margin per member; infinite if there is no different action."""
        return tuple(math.inf if member.margin is None else float(member.margin) for member in self.members)

    def to_json(self) -> dict[str, Any]:
        """Return numbers and strings for JSON; an infinite margin is None."""
        actions = self.game.ego_actions
        return {
            "game": self.game.name,
            "ego_actions": list(actions),
            "teammate_actions": list(self.game.teammate_actions),
            "coverage_set": list(self.coverage_set),
            "coverage_set_names": [actions[action] for action in self.coverage_set],
            "coverage_size": len(self.members),
            "witnesses": self.witnesses.tolist(),
            "margins": [None if math.isinf(margin) else margin for margin in self.margins],
            "non_members": [
                {
                    "action": item.action,
                    "name": actions[item.action],
                    "kind": item.kind,
                    "reason": item.reason,
                    "by": {str(action): float(share) for action, share in item.by.items()},
                    "margin": float(item.margin),
                }
                for item in self.non_members
            ],
        }


def solve(game: Any) -> Solution:
    """Compute the minimum coverage set of a finite game against every mixed teammate.

    Args:
      game: a `Game`, or any input of `load`: a built-in name, a CSV or JSON path, an array of payoffs.
    Raises:
      UndecidedError: an action needs more exact arithmetic than allowed.

    Example:
      >>> solution = solve("matrix")
      >>> solution.coverage_set
      (0, 1, 2)
      >>> [str(member.margin) for member in solution.members]
      ['6', '2', '2']
    """
    game = load(game)
    table, unit = _scale_to_integers(game.ego)
    first_of = {row: action for action, row in reversed(list(enumerate(game.ego)))}
    distinct = sorted(first_of.values())
    members, non_members, budget = [], [], Budget()
    for action, row in enumerate(game.ego):
        if first_of[row] != action:
            non_members.append(_describe_duplicate(game, action, first_of[row]))
        elif len(distinct) == 1:
            members.append(Member(action, (Fraction(1, len(row)),) * len(row), None))
        else:
            decided = _decide_membership(game, table[distinct], distinct, distinct.index(action), unit, budget)
            (members if isinstance(decided, Member) else non_members).append(decided)
    return Solution(game, tuple(members), tuple(non_members))


def coverage_set_in_float32(solution: Solution) -> tuple[int, ...] | None:
    """Return the coverage set of the game as environments play it, with payoffs rounded to float32.

    None if a payoff becomes infinite in float32 or the set is undecided.
    """
    with np.errstate(over="ignore"):
        played = solution.game.floats().astype(np.float32)
    if not np.isfinite(played).all():
        return None
    if all(Fraction(float(a)) == b for a, b in zip(played.flat, chain(*solution.game.ego), strict=True)):
        return solution.coverage_set
    try:
        return solve(played).coverage_set
    except UndecidedError:
        return None


def _scale_to_integers(payoffs: Table) -> tuple[np.ndarray, Fraction]:
    """Convert payoffs to small integers with the same best responses; also return the payoff of one unit.

    Subtracting each column's minimum and dividing by a common unit only scales differences between rows, and brings
    payoffs like 1e9 + 1 or 1e-9 to a size that floats can distinguish.
    """
    lows = [min(column) for column in zip(*payoffs, strict=True)]
    shifted = [[value - low for value, low in zip(row, lows, strict=True)] for row in payoffs]
    scale = math.lcm(*{value.denominator for row in shifted for value in row})
    table = np.array([[value.numerator * (scale // value.denominator) for value in row] for row in shifted], object)
    divisor = math.gcd(*table.flat) or 1
    return table // divisor, Fraction(divisor, scale)


def _decide_membership(
    game: Game, table: np.ndarray, actions: list[int], row: int, unit: Fraction, budget: Budget
) -> Member | NonMember:
    """Decide whether the coverage set needs `row` of a table of different rows, with the proof.

    Args:
      game: gives the names of the actions.
      table: integers [rows, columns], at least two rows, no two equal.
      actions: the game's action for each row of `table`.
      row: the row to decide.
      unit: payoff of one unit of `table`.
      budget: limits the exact arithmetic.
    """
    try:
        bounds = margin_bounds(table, row, budget)
    except UndecidedError as error:
        name = game.ego_actions[actions[row]]
        raise UndecidedError(f"It is undecided whether the coverage set needs action '{name}': {error}") from None
    if bounds.low > 0:
        return Member(actions[row], bounds.p.fractions(), bounds.low * unit)
    kind = "dominated" if bounds.high < 0 else "tied"
    rivals = actions[:row] + actions[row + 1 :]
    single = _find_dominating_row(table[row], np.delete(table, row, axis=0), strictly=kind == "dominated")
    if single is None:
        by = {action: share for action, share in zip(rivals, bounds.y.fractions(), strict=True) if share}
    else:
        by = {rivals[single]: Fraction(1)}
    return NonMember(actions[row], kind, by, bounds.low * unit, _describe_reason(game, kind, by))


def margin_bounds(table: np.ndarray, row: int, budget: Budget) -> Bounds:
    """Bound a row's margin so that its sign is known, and its size to within `MAX_RELATIVE_WIDTH` of the payoff range.

    Args:
      table: object array of integers [rows, columns], at least two rows, no two equal.
      row: the row whose margin over the others is bounded.
      budget: limits the exact arithmetic.
    Returns:
      Bounds in units of the table; p over its columns, y over its other rows in order.
    """
    gains = table[row] - np.delete(table, row, axis=0)
    span = int(abs(gains).max())
    guess = float_strategies((gains / span).astype(np.float64))
    if guess is None:
        return exact_bounds(gains, [0], [0], MAX_RELATIVE_WIDTH * span, budget)
    p = max(_list_rational_candidates(guess[0]), key=lambda mix: guaranteed_gain(gains, mix))
    y = min(_list_rational_candidates(guess[1]), key=lambda mix: largest_gain(gains, mix))
    bounds = Bounds(guaranteed_gain(gains, p), largest_gain(gains, y), p, y)
    if bounds.is_decided(MAX_RELATIVE_WIDTH * span):
        return bounds
    rows, columns = np.flatnonzero(y.weights).tolist(), np.flatnonzero(p.weights).tolist()
    return exact_bounds(gains, rows, columns, MAX_RELATIVE_WIDTH * span, budget)


def _list_rational_candidates(shares: np.ndarray) -> list[Mix]:
    """Return rational mixes near `shares`: simple fractions if the support is small, and the floats themselves."""
    to_53_bits = Mix(np.array([int(share) for share in np.rint(shares * 2.0**53)], object))
    if np.count_nonzero(shares) > SIMPLE_SUPPORT:
        return [to_53_bits]
    simple = [Fraction(float(share)).limit_denominator(SIMPLE_DENOMINATOR) for share in shares]
    common = math.lcm(*(share.denominator for share in simple))
    return [Mix(np.array([int(share * common) for share in simple], object)), to_53_bits]


def _find_dominating_row(own: np.ndarray, others: np.ndarray, *, strictly: bool) -> int | None:
    """Return the first other row that pays at least as much (or strictly more) in every column."""
    better = others > own if strictly else others >= own
    found = np.flatnonzero(better.astype(bool).all(axis=1))
    return int(found[0]) if found.size else None


def _describe_duplicate(game: Game, action: int, first: int) -> NonMember:
    reason = f"pays the same as {game.ego_actions[first]} with every teammate"
    return NonMember(action, "duplicate", {first: Fraction(1)}, Fraction(0), reason)


def _describe_reason(game: Game, kind: str, by: dict[int, Fraction]) -> str:
    described = describe_mix(game.ego_actions, by)
    if kind == "dominated":
        return f"never a best response: {described} pays more with every teammate"
    return f"only ever tied: {described} pays at least as much with every teammate"


def describe_mix(names: tuple[str, ...], shares: dict[int, Fraction], most: int = 4) -> str:
    """Format a mix, largest shares first: `1/2 A + 1/2 B`; a pure one is its name alone."""
    if len(shares) == 1:
        return names[next(iter(shares))]
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    text = " + ".join(f"{format_share(share)} {names[action]}" for action, share in ordered[:most])
    left = len(ordered) - most
    return text if left <= 0 else f"{text} + {left} smaller shares"


def format_share(share: Fraction) -> str:
    """Format a probability, as a fraction if its denominator is small."""
    return str(share) if share.denominator <= SIMPLE_DENOMINATOR else f"{float(share):.4g}"
