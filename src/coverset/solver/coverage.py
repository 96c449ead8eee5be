"""The minimum coverage set of a finite two-player game, decided exactly.

An ego action is needed if and only if some teammate mix p makes it strictly the best among different rows:

    margin(i) = max_p min_{k : a_k != a_i} (a_i - a_k) . p > 0,        a_i row i of the ego payoffs, p in the simplex

Why: the regions where each row is a best response are finitely many closed polyhedra that cover the simplex, and what
a full-dimensional one leaves open cannot be filled by thinner ones, so the full-dimensional ones cover it alone; two
different rows tie only on a hyperplane, so a region is full-dimensional exactly if its margin is positive. Conversely,
near the mix that shows a positive margin nothing else is a best response: no coverage set can do without the action.
Of equal rows one is needed, here the first. Mixed ego policies change nothing: at that mix they earn less.

Rahman et al. 2024, the definitions of CS(E) and MCS(E), for one-shot games in which Pi is the simplex of mixed actions.

Each margin is the value of a zero-sum game (`zero_sum.py`). HiGHS proposes a teammate mix p and a mix y of rivals; both
are rounded to rationals and weighed in integers, which gives exact bounds low <= margin <= high. Only where these do
not settle the sign is the game solved in exact arithmetic. Nothing is decided by a tolerance.
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
    conceded,
    exact_bounds,
    float_strategies,
    secured,
)

WIDTH = Fraction(1, 10**7)
"""Widest gap between the bounds of a margin, relative to the payoff range, that is reported without an exact solve."""
SIMPLE_DENOMINATOR = 1000
"""Mixes whose probabilities are near fractions up to this denominator are tried as those fractions first."""
SIMPLE_SUPPORT = 12
"""... if they have at most this many actions: the common denominator of more is not simple."""


@dataclass(frozen=True)
class Member:
    """An action of the minimum coverage set."""

    action: int
    witness: tuple[Fraction, ...]
    """A teammate mix for which only this action (and its duplicates) is a best response."""
    margin: Fraction | None
    """What it earns there above the next best different action, in units of payoff; None if there is none."""


@dataclass(frozen=True)
class NonMember:
    """An action that the minimum coverage set does without."""

    action: int
    kind: str
    """`duplicate` of another row; `dominated`: never a best response; `tied`: a best response only where others are."""
    by: dict[int, Fraction]
    """A mix of other actions that earns at least as much with every teammate."""
    margin: Fraction
    """The least by which it falls short of the best of the others: negative if dominated, else 0."""
    reason: str


@dataclass(frozen=True)
class Solution:
    """A minimum coverage set with a proof for every action of the game."""

    game: Game
    members: tuple[Member, ...]
    non_members: tuple[NonMember, ...]

    @property
    def coverage_set(self) -> tuple[int, ...]:
        """Rows of the minimum coverage set, from 0, ascending; of equal rows the first."""
        return tuple(member.action for member in self.members)

    @property
    def witnesses(self) -> np.ndarray:
        """Float64 [members, columns]: the witness mixes, rounded from the exact ones of `members`."""
        return np.array([[float(share) for share in member.witness] for member in self.members])

    @property
    def margins(self) -> tuple[float, ...]:
        """A margin per member; infinite where there is no different action to beat."""
        return tuple(math.inf if member.margin is None else float(member.margin) for member in self.members)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text; an infinite margin is None."""
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
    """The minimum coverage set of a finite game against every mixed teammate.

    Args:
      game: a `Game`, or whatever `load` takes: a built-in name, a CSV or JSON path, an array of payoffs.
    Raises:
      UndecidedError: if one action would need more exact arithmetic than allowed; never a guess instead.

    Example:
      >>> solution = solve("matrix")
      >>> solution.coverage_set
      (0, 1, 2)
      >>> [str(member.margin) for member in solution.members]
      ['6', '2', '2']
    """
    game = load(game)
    table, unit = _whole_numbers(game.ego)
    first_of = {row: action for action, row in reversed(list(enumerate(game.ego)))}
    distinct = sorted(first_of.values())
    members, non_members, budget = [], [], Budget()
    for action, row in enumerate(game.ego):
        if first_of[row] != action:
            non_members.append(_duplicate(game, action, first_of[row]))
        elif len(distinct) == 1:
            members.append(Member(action, (Fraction(1, len(row)),) * len(row), None))
        else:
            judged = _judge(game, table[distinct], distinct, distinct.index(action), unit, budget)
            (members if isinstance(judged, Member) else non_members).append(judged)
    return Solution(game, tuple(members), tuple(non_members))


def coverage_set_in_float32(solution: Solution) -> tuple[int, ...] | None:
    """The coverage set of the game as environments play it, payoffs rounded to float32.

    None where the game cannot be played so, because a payoff becomes infinite, or where the set stays undecided.
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


def _whole_numbers(payoffs: Table) -> tuple[np.ndarray, Fraction]:
    """Payoffs as small integers with the same best responses, and the payoff that one of them stands for.

    Subtracting each column's smallest entry and dividing by a common unit changes no difference between rows but for
    the unit, and brings payoffs like 1e9 + 1 or 1e-9 to a size where floats can tell them apart.
    """
    lows = [min(column) for column in zip(*payoffs, strict=True)]
    shifted = [[value - low for value, low in zip(row, lows, strict=True)] for row in payoffs]
    scale = math.lcm(*{value.denominator for row in shifted for value in row})
    table = np.array([[value.numerator * (scale // value.denominator) for value in row] for row in shifted], object)
    divisor = math.gcd(*table.flat) or 1
    return table // divisor, Fraction(divisor, scale)


def _judge(
    game: Game, table: np.ndarray, actions: list[int], row: int, unit: Fraction, budget: Budget
) -> Member | NonMember:
    """Whether the coverage set needs `row` of a table of different rows, with the proof.

    Args:
      table: integers [rows, columns], at least two rows, no two equal.
      actions: the game's action for each row of `table`.
      unit: payoff of one integer.
    """
    try:
        bounds = margin_bounds(table, row, budget)
    except UndecidedError as error:
        name = game.ego_actions[actions[row]]
        raise UndecidedError(f"Whether the coverage set needs action '{name}' stays undecided: {error}") from None
    if bounds.low > 0:
        return Member(actions[row], bounds.p.fractions(), bounds.low * unit)
    kind = "dominated" if bounds.high < 0 else "tied"
    rivals = actions[:row] + actions[row + 1 :]
    single = _single_dominator(table[row], np.delete(table, row, axis=0), strictly=kind == "dominated")
    if single is None:
        by = {action: share for action, share in zip(rivals, bounds.y.fractions(), strict=True) if share}
    else:
        by = {rivals[single]: Fraction(1)}
    return NonMember(actions[row], kind, by, bounds.low * unit, _reason(game, kind, by))


def margin_bounds(table: np.ndarray, row: int, budget: Budget) -> Bounds:
    """Bounds that settle the sign of a row's margin, and its size to within `WIDTH` of the payoff range.

    Args:
      table: object array of integers [rows, columns], at least two rows, no two equal.
      row: the row whose margin over the others is wanted.
      budget: pays for exact arithmetic where floats do not settle it.
    Returns:
      Bounds in units of the table; p over its columns, y over its other rows in order.
    """
    gains = table[row] - np.delete(table, row, axis=0)
    span = int(abs(gains).max())
    guess = float_strategies((gains / span).astype(np.float64))
    if guess is None:
        return exact_bounds(gains, [0], [0], WIDTH * span, budget)
    p = max(_roundings(guess[0]), key=lambda mix: secured(gains, mix))
    y = min(_roundings(guess[1]), key=lambda mix: conceded(gains, mix))
    bounds = Bounds(secured(gains, p), conceded(gains, y), p, y)
    if bounds.settled(WIDTH * span):
        return bounds
    rows, columns = np.flatnonzero(y.weights).tolist(), np.flatnonzero(p.weights).tolist()
    return exact_bounds(gains, rows, columns, WIDTH * span, budget)


def _roundings(shares: np.ndarray) -> list[Mix]:
    """Two rational mixes near `shares`: the nearest simple fractions where they may be meant, and the floats."""
    to_53_bits = Mix(np.array([int(share) for share in np.rint(shares * 2.0**53)], object))
    if np.count_nonzero(shares) > SIMPLE_SUPPORT:
        return [to_53_bits]
    simple = [Fraction(float(share)).limit_denominator(SIMPLE_DENOMINATOR) for share in shares]
    common = math.lcm(*(share.denominator for share in simple))
    return [Mix(np.array([int(share * common) for share in simple], object)), to_53_bits]


def _single_dominator(own: np.ndarray, others: np.ndarray, *, strictly: bool) -> int | None:
    """The first other row that alone pays at least as much (or strictly more) in every column."""
    better = others > own if strictly else others >= own
    found = np.flatnonzero(better.astype(bool).all(axis=1))
    return int(found[0]) if found.size else None


def _duplicate(game: Game, action: int, first: int) -> NonMember:
    reason = f"pays the same as {game.ego_actions[first]} with every teammate"
    return NonMember(action, "duplicate", {first: Fraction(1)}, Fraction(0), reason)


def _reason(game: Game, kind: str, by: dict[int, Fraction]) -> str:
    described = describe_mix(game.ego_actions, by)
    if kind == "dominated":
        return f"never a best response: {described} pays more with every teammate"
    return f"only ever tied: {described} pays at least as much with every teammate"


def describe_mix(names: tuple[str, ...], shares: dict[int, Fraction], most: int = 4) -> str:
    """A mix in words, its largest shares first: `1/2 A + 1/2 B`; a pure one by its name alone."""
    if len(shares) == 1:
        return names[next(iter(shares))]
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    text = " + ".join(f"{share_text(share)} {names[action]}" for action, share in ordered[:most])
    left = len(ordered) - most
    return text if left <= 0 else f"{text} + {left} smaller shares"


def share_text(share: Fraction) -> str:
    """A probability, as a simple fraction where it is one."""
    return str(share) if share.denominator <= SIMPLE_DENOMINATOR else f"{float(share):.4g}"
