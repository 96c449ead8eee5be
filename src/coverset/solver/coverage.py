"""The minimum coverage set of a finite game, decided exactly.

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

With several teammates, p is a mix of profiles (one action per teammate): a team that plays jointly. Teams that play
independently are the products of one mix per teammate. An action that no joint team needs is not needed against them
either; the others are decided by `independent.py`, or remain undecided. Members and undecided actions together always
cover: a coverage set for joint teams is one for independent teams, and actions with margin 0 or less may be left out.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from coverset.solver.games import Game, load
from coverset.solver.independent import bound_independent_margin, product_mix
from coverset.solver.payoffs import Table, exact_table
from coverset.solver.zero_sum import SIMPLE_DENOMINATOR, Bounds, Budget, Mix, UndecidedError, value_bounds

Teams: TypeAlias = Literal["joint", "independent"]
"""Which teams count with several teammates: all mixes of profiles, or only products of one mix per teammate."""


@dataclass(frozen=True)
class Member:
    """An action of the minimum coverage set."""

    action: int
    witness: tuple[Fraction, ...]
    """A teammate mix for which only this action (and its duplicates) is a best response."""
    margin: Fraction | None
    """Its payoff at the witness minus that of the next best different action; None if there is no other action."""
    team: tuple[tuple[Fraction, ...], ...] = ()
    """Against several independent teammates, the mix of each; `witness` is their product."""


@dataclass(frozen=True)
class NonMember:
    """An action outside the minimum coverage set."""

    action: int
    kind: str
    """`duplicate` of another row; `dominated`: never a best response; `tied`: a best response only where others are.

    `correlated`: needed against joint teams, but not against independent ones.
    """
    by: dict[int, Fraction]
    """A mix of other actions that earns at least as much with every teammate; empty if `correlated`."""
    margin: Fraction
    """Its largest margin over the best of the others: negative if dominated, else 0. An upper bound if `correlated`."""
    reason: str


@dataclass(frozen=True)
class Undecided:
    """An action that joint teams need and of which it is not known whether independent teams need it."""

    action: int
    low: Fraction
    """Its largest margin found at an independent team, at most 0."""
    high: Fraction
    """An upper bound of its margin at independent teams, above 0."""


@dataclass(frozen=True)
class Solution:
    """A minimum coverage set with a proof for every action of the game."""

    game: Game
    members: tuple[Member, ...]
    non_members: tuple[NonMember, ...]
    teams: Teams = "joint"
    undecided: tuple[Undecided, ...] = ()
    """Actions that may or may not be needed; always empty for joint teams and with one teammate."""

    @property
    def coverage_set(self) -> tuple[int, ...]:
        """Rows of the minimum coverage set, from 0, ascending; the first of equal rows.

        With undecided actions it is `upper_bound`: a coverage set, but maybe not a minimum one.
        """
        return self.upper_bound

    @property
    def exact(self) -> bool:
        """Whether `coverage_set` is proved to be minimum."""
        return not self.undecided

    @property
    def lower_bound(self) -> tuple[int, ...]:
        """Rows that are proved to be needed."""
        return tuple(member.action for member in self.members)

    @property
    def upper_bound(self) -> tuple[int, ...]:
        """Rows that are proved to suffice."""
        return tuple(sorted(item.action for item in (*self.members, *self.undecided)))

    @property
    def witnesses(self) -> np.ndarray:
        """The witness mixes of `members` rounded to float64 [members, columns]."""
        return np.array([[float(share) for share in member.witness] for member in self.members])

    @property
    def margins(self) -> tuple[float, ...]:
        """One margin per member; infinite if there is no different action."""
        return tuple(math.inf if member.margin is None else float(member.margin) for member in self.members)

    def to_json(self) -> dict[str, Any]:
        """Return numbers and strings for JSON; an infinite margin and whatever is undecided is None."""
        actions, members = self.game.ego_actions, {member.action: member for member in self.members}
        found = [members.get(action) for action in self.coverage_set]
        return {
            "game": self.game.name,
            "players": self.game.players,
            "ego_actions": list(actions),
            "teammate_actions": list(self.game.teammate_actions),
            "teams": self.teams,
            "exact": self.exact,
            "coverage_set": list(self.coverage_set),
            "coverage_set_names": [actions[action] for action in self.coverage_set],
            "coverage_size": len(self.coverage_set),
            "lower_bound": list(self.lower_bound),
            "upper_bound": list(self.upper_bound),
            "witnesses": [_to_floats(member.witness) if member else None for member in found],
            "team_witnesses": [[_to_floats(mix) for mix in member.team] if member else None for member in found]
            if _is_restricted(self.game, self.teams)
            else None,
            "margins": [None if not member or member.margin is None else float(member.margin) for member in found],
            "undecided": [
                {
                    "action": item.action,
                    "name": actions[item.action],
                    "margin_low": float(item.low),
                    "margin_high": float(item.high),
                }
                for item in self.undecided
            ],
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


def _to_floats(shares: tuple[Fraction, ...]) -> list[float]:
    return [float(share) for share in shares]


def _is_restricted(game: Game, teams: Teams) -> bool:
    """Whether the teams are fewer than all mixes of columns."""
    return teams == "independent" and game.players > 2


def solve(game: Any, *, teams: Teams = "joint") -> Solution:
    """Compute the minimum coverage set of a finite game against every mixed teammate or team.

    With one teammate, and against joint teams, the set is always exact. Against independent teams of several teammates
    it is exact where `Solution.exact` says so; else `lower_bound` and `upper_bound` bracket it.

    Args:
      game: a `Game`, or any input of `load`: a built-in name, a CSV or JSON path, an array of payoffs.
      teams: with several teammates, whether they may correlate their actions (`joint`) or each mixes on its own
        (`independent`).
    Raises:
      UndecidedError: an action needs more exact arithmetic than allowed.

    Example:
      >>> solution = solve("matrix")
      >>> solution.coverage_set
      (0, 1, 2)
      >>> [str(member.margin) for member in solution.members]
      ['6', '2', '2']
    """
    check_teams(teams)
    solution = replace(_solve_joint(load(game)), teams=teams)
    return _restrict_to_independent(solution) if _is_restricted(solution.game, teams) else solution


def check_teams(teams: str) -> None:
    """Raise unless `teams` is one of `Teams`."""
    if teams not in get_args(Teams):
        raise ValueError(f"teams must be 'joint' or 'independent', got {teams!r}.")


def _solve_joint(game: Game) -> Solution:
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


def _restrict_to_independent(joint: Solution) -> Solution:
    """Decide which members of the coverage set for joint teams independent teams need as well."""
    table, unit = _scale_to_integers(joint.game.ego)
    budget = Budget()
    decided = [_decide_independent(joint.game, table, unit, member, budget) for member in joint.members]
    found = {kind: tuple(item for item in decided if isinstance(item, kind)) for kind in (Member, NonMember, Undecided)}
    others = sorted((*joint.non_members, *found[NonMember]), key=lambda item: item.action)
    return replace(joint, members=found[Member], non_members=tuple(others), undecided=found[Undecided])


def _decide_independent(
    game: Game, table: np.ndarray, unit: Fraction, member: Member, budget: Budget
) -> Member | NonMember | Undecided:
    if member.margin is None:
        return replace(member, team=tuple((Fraction(1, size),) * size for size in game.team_shape))
    rivals = [k for k, row in enumerate(game.ego) if row != game.ego[member.action]]
    gains = (table[member.action] - table[rivals]).reshape(len(rivals), *game.team_shape)
    bounds = bound_independent_margin(gains, _to_mix(member.witness), budget)
    if bounds.low > 0:
        team = tuple(mix.fractions() for mix in bounds.team)
        return Member(member.action, product_mix(bounds.team).fractions(), bounds.low * unit, team)
    if bounds.high > 0:
        return Undecided(member.action, bounds.low * unit, bounds.high * unit)
    return NonMember(member.action, "correlated", {}, bounds.high * unit, _describe_correlated(bounds.pieces))


def _to_mix(shares: tuple[Fraction, ...]) -> Mix:
    common = math.lcm(*(share.denominator for share in shares))
    return Mix(np.array([int(share * common) for share in shares], dtype=object))


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
        rounded = solve(replace(solution.game, ego=exact_table("payoffs", played)), teams=solution.teams)
    except UndecidedError:
        return None
    return rounded.coverage_set if rounded.exact else None


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
    return value_bounds(table[row] - np.delete(table, row, axis=0), budget)


def _find_dominating_row(own: np.ndarray, others: np.ndarray, *, strictly: bool) -> int | None:
    """Return the first other row that pays at least as much (or strictly more) in every column."""
    better = others > own if strictly else others >= own
    found = np.flatnonzero(better.astype(bool).all(axis=1))
    return int(found[0]) if found.size else None


def _describe_duplicate(game: Game, action: int, first: int) -> NonMember:
    reason = f"pays the same as {game.ego_actions[first]} with every teammate"
    return NonMember(action, "duplicate", {first: Fraction(1)}, Fraction(0), reason)


def _describe_correlated(pieces: int) -> str:
    return (
        "needed only with correlated teams: in each of "
        f"{pieces} parts of the independent teams a mix of other actions pays at least as much"
    )


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
