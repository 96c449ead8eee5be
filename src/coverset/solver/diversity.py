"""The objectives of BRDiv and LIPO as affine functions of alpha, and the populations they prefer for each alpha.

With SP the sum of the diagonal and XP the sum of all other entries of a K x K cross-play matrix,

    BRDiv = SP (1 + 2 alpha (K - 1)) - 2 alpha XP        LIPO = SP - alpha XP

Rahman et al. 2024, Appendix B. Differs from the paper: its formula for LIPO sums over ordered pairs, counting each
unordered pair twice; its two tables count it once, and this reading reproduces all eight of their cells.

Everything is exact: payoffs are fractions, and so are the alphas at which preferences change.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, groupby, pairwise
from typing import Any

from coverset.solver.coverage import Solution, solve
from coverset.solver.games import Game
from coverset.solver.payoffs import Table, exact_table

MAX_POPULATIONS = 500_000
"""Most populations that `preferred_populations` compares: about half a minute."""


@dataclass(frozen=True)
class Affine:
    """The function constant + slope * alpha."""

    constant: Fraction
    slope: Fraction

    def at(self, alpha: Fraction | float | int) -> Fraction:
        """Return the value at `alpha`."""
        return self.constant + self.slope * Fraction(alpha)

    def __str__(self) -> str:
        if self.slope == 0:
            return _format_fraction(self.constant)
        factor = "" if abs(self.slope) == 1 else f"{_format_fraction(abs(self.slope))} "
        if self.constant == 0:
            return f"{'-' if self.slope < 0 else ''}{factor}alpha"
        return f"{_format_fraction(self.constant)} {'-' if self.slope < 0 else '+'} {factor}alpha"


def _format_fraction(value: Fraction) -> str:
    return str(value) if value.denominator < 1000 else f"{float(value):.6g}"


def brdiv(cross_play: Any) -> Affine:
    """BRDiv's objective: SP (1 + 2 alpha (K - 1)) - 2 alpha XP.

    Args:
      cross_play: [K, K] returns, rows best responses, columns teammates.

    Example:
      >>> str(brdiv([[10, 0, 4], [0, 6, 4], [4, 4, 6]]))
      '22 + 56 alpha'
    """
    size, self_play, cross = _compute_sums(cross_play)
    return _brdiv(size, self_play, cross)


def lipo(cross_play: Any) -> Affine:
    """LIPO's objective: SP - alpha XP.

    Args:
      cross_play: [K, K] returns, rows best responses, columns teammates.

    Example:
      >>> str(lipo([[10, 0, 4], [0, 6, 4], [4, 4, 6]]))
      '22 - 16 alpha'
    """
    size, self_play, cross = _compute_sums(cross_play)
    return _lipo(size, self_play, cross)


def _brdiv(size: int, self_play: Fraction, cross: Fraction) -> Affine:
    return Affine(self_play, 2 * (size - 1) * self_play - 2 * cross)


def _lipo(size: int, self_play: Fraction, cross: Fraction) -> Affine:
    del size
    return Affine(self_play, -cross)


OBJECTIVES: dict[str, Callable[[int, Fraction, Fraction], Affine]] = {"BRDiv": _brdiv, "LIPO": _lipo}
"""Each method's objective as a function of K, SP and XP."""


def _compute_sums(cross_play: Any) -> tuple[int, Fraction, Fraction]:
    table = exact_table("cross_play", cross_play)
    if len(table) != len(table[0]):
        raise ValueError(f"cross_play must be square, a row and a column per pair, got {len(table)} x {len(table[0])}.")
    self_play = sum((row[i] for i, row in enumerate(table)), Fraction(0))
    return len(table), self_play, sum((sum(row) for row in table), Fraction(0)) - self_play


@dataclass(frozen=True)
class AlphaInterval:
    """An interval of alphas above 0; unbounded if `high` is None."""

    low: Fraction
    high: Fraction | None
    low_closed: bool = False
    high_closed: bool = False

    def __contains__(self, alpha: Fraction | float | int) -> bool:
        value = Fraction(alpha)
        above = value > self.low or (self.low_closed and value == self.low)
        return above and (self.high is None or value < self.high or (self.high_closed and value == self.high))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"alpha = {_format_fraction(self.low)}"
        if self.high is None:
            return f"alpha {'>=' if self.low_closed else '>'} {_format_fraction(self.low)}"
        marks = "<=" if self.low_closed else "<", "<=" if self.high_closed else "<"
        return f"{_format_fraction(self.low)} {marks[0]} alpha {marks[1]} {_format_fraction(self.high)}"


def alpha_intervals(
    first: Affine | Sequence[Affine], second: Affine | Sequence[Affine], *, strict: bool = True
) -> tuple[AlphaInterval, ...]:
    """Return the alphas above 0 at which `first` exceeds `second`, or with `strict=False` at least equals it.

    Either side may be several functions, whose maximum counts at each alpha. The ends are open for `strict` and closed
    otherwise; alpha = 0 is never included.
    """
    ours, theirs = _to_envelope(first), _to_envelope(second)
    points = sorted(
        {alpha for line in ours + theirs for other in ours + theirs for alpha in _find_crossing(line, other)}
    )
    merged = []
    for leads, cells in groupby(_split_at(points), key=lambda cell: _is_ahead(ours, theirs, cell[1], strict=strict)):
        stretch = [interval for interval, _ in cells]
        if leads:
            first_cell, last_cell = stretch[0], stretch[-1]
            merged.append(AlphaInterval(first_cell.low, last_cell.high, first_cell.low_closed, last_cell.high_closed))
    return tuple(merged)


def _to_envelope(lines: Affine | Sequence[Affine]) -> list[Affine]:
    return [lines] if isinstance(lines, Affine) else upper_envelope(lines)


def _find_crossing(line: Affine, other: Affine) -> list[Fraction]:
    if line.slope == other.slope:
        return []
    alpha = (other.constant - line.constant) / (line.slope - other.slope)
    return [alpha] if alpha > 0 else []


def _split_at(points: list[Fraction]) -> list[tuple[AlphaInterval, Fraction]]:
    """Return the points and the open intervals between them, in order, each with an alpha inside it."""
    if not points:
        return [(AlphaInterval(Fraction(0), None), Fraction(1))]
    cells: list[tuple[AlphaInterval, Fraction]] = []
    for low, high in pairwise([Fraction(0), *points]):
        cells.append((AlphaInterval(low, high), (low + high) / 2))
        cells.append((AlphaInterval(high, high, True, True), high))
    return [*cells, (AlphaInterval(points[-1], None), points[-1] + 1)]


def _is_ahead(ours: list[Affine], theirs: list[Affine], alpha: Fraction, *, strict: bool) -> bool:
    mine, other = max(line.at(alpha) for line in ours), max(line.at(alpha) for line in theirs)
    return mine > other if strict else mine >= other


def upper_envelope(lines: Iterable[Affine]) -> list[Affine]:
    """Return the distinct functions that are largest at some alpha > 0, from small alpha to large."""
    ordered = sorted(set(lines), key=lambda line: (line.slope, line.constant))
    steepest = {line.slope: line for line in ordered}  # keeps the largest constant of each slope
    hull: list[Affine] = []
    for line in steepest.values():
        while hull and (line.constant >= hull[-1].constant or _is_hidden(hull, line)):
            hull.pop()
        hull.append(line)
    return hull


def _is_hidden(hull: list[Affine], line: Affine) -> bool:
    """Whether `line` crosses the last line of the hull no later than that line crosses its predecessor."""
    if len(hull) < 2:
        return False
    before, last = hull[-2], hull[-1]
    return (last.constant - line.constant) * (last.slope - before.slope) <= (before.constant - last.constant) * (
        line.slope - last.slope
    )


@dataclass(frozen=True)
class PurePopulation:
    """K pairs of pure policies, an ego action (best response) and a teammate action each, and their objective."""

    best_responses: tuple[int, ...]
    teammates: tuple[int, ...]
    objective: Affine


@dataclass(frozen=True)
class Preference:
    """The preference of one objective among all populations of K pairs of pure policies, for all alpha > 0."""

    method: str
    size: int
    """K, the number of pairs."""
    populations: int
    """Number of populations compared."""
    covering: tuple[PurePopulation, ...]
    """The best populations whose best responses contain the coverage set, from small alpha to large."""
    others: tuple[PurePopulation, ...]
    """The best populations that miss a member of it, from small alpha to large; empty if there are none."""
    strictly: tuple[AlphaInterval, ...]
    """Alphas for which a covering population beats every other."""
    at_least_tied: tuple[AlphaInterval, ...]
    """Alphas for which a covering population is at least as good as every other."""

    @property
    def verdict(self) -> str:
        """The finding in one sentence."""
        if self.strictly:
            return f"{self.method} prefers the coverage set for {_join_intervals(self.strictly)}."
        if self.at_least_tied:
            tied = _join_intervals(self.at_least_tied)
            return f"No alpha > 0 makes {self.method} prefer the coverage set; it ties for {tied}."
        return f"No alpha > 0 makes {self.method} prefer the coverage set."


def _join_intervals(intervals: tuple[AlphaInterval, ...]) -> str:
    return " and ".join(map(str, intervals))


def coverage_cross_play(solution: Solution) -> Table:
    """Return the cross-play matrix [K, K] of the coverage set with teammates to which its members are best responses.

    The teammate of member i is the pure action to which i is the best response by the largest margin, or its
    witness mix if i is the strict best response to no pure action. In the paper's games it is the payoff table.
    """
    teammates = [_choose_teammate(solution, member.action, member.witness) for member in solution.members]
    rows = [solution.game.ego[member.action] for member in solution.members]
    return tuple(
        tuple(sum((a * b for a, b in zip(row, mix, strict=True)), Fraction(0)) for mix in teammates) for row in rows
    )


def _choose_teammate(solution: Solution, action: int, witness: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    payoffs = solution.game.ego
    rivals = [row for row in payoffs if row != payoffs[action]]
    if not rivals:
        return witness
    margins = [value - max(row[j] for row in rivals) for j, value in enumerate(payoffs[action])]
    best = max(range(len(margins)), key=margins.__getitem__)
    return tuple(Fraction(j == best) for j in range(len(margins))) if margins[best] > 0 else witness


def preferred_populations(game: Any, *, size: int | None = None) -> tuple[Preference, ...]:
    """Determine for which alpha > 0 BRDiv and LIPO prefer a coverage set: Appendix B, for any small game.

    All populations of K pairs of pure policies are compared, repetitions allowed. Mixed policies need no search: both
    objectives are affine in each policy while the others are fixed, so pure policies attain the maximum.

    Args:
      game: a `Solution`, or any input of `solve`.
      size: K; by default the size of the coverage set, but at least 2, because cross-play needs two pairs.
    Returns:
      One `Preference` per method.
    """
    solution = game if isinstance(game, Solution) else solve(game)
    check_pairs(solution.game)
    rows, columns = solution.game.shape
    size = max(2, len(solution.coverage_set)) if size is None else size
    if size < max(2, len(solution.coverage_set)):
        raise ValueError(
            f"size must be at least {max(2, len(solution.coverage_set))}, to have cross-play pairs and contain the "
            f"coverage set, got {size}."
        )
    count = math.comb(rows * columns + size - 1, size)
    if count > MAX_POPULATIONS:
        raise ValueError(
            f"A game with {rows} x {columns} actions has {count} populations of {size} pairs, and at most "
            f"{MAX_POPULATIONS} can be compared."
        )
    best = _best_by_sums(solution, size)
    return tuple(_compute_preference(method, size, count, best) for method in OBJECTIVES)


def check_pairs(game: Game) -> None:
    """Raise unless the game has two players, because both objectives compare pairs."""
    if game.players > 2:
        raise ValueError(f"BRDiv and LIPO compare pairs of policies, so they need two players, got {game.players}.")


_Sums = dict[tuple[bool, Fraction, Fraction], tuple[tuple[int, int], ...]]


def _best_by_sums(solution: Solution, size: int) -> _Sums:
    """Return one population for each (covers, SP) with the least XP; no other can be preferred."""
    payoffs = solution.game.ego
    rows, columns = solution.game.shape
    label = {row: number for number, row in enumerate(dict.fromkeys(payoffs))}
    needed = {label[payoffs[action]] for action in solution.coverage_set}
    least: dict[tuple[bool, int], tuple[int, tuple[tuple[int, int], ...]]] = {}
    scale = math.lcm(*(value.denominator for row in payoffs for value in row))
    whole = [[int(value * scale) for value in row] for row in payoffs]
    pairs = [(i, j) for i in range(rows) for j in range(columns)]
    for population in combinations_with_replacement(pairs, size):
        covers = needed <= {label[payoffs[i]] for i, _ in population}
        self_play = sum(whole[i][j] for i, j in population)
        cross = sum(whole[i][j] for i, _ in population for _, j in population) - self_play
        key = (covers, self_play)
        if key not in least or cross < least[key][0]:
            least[key] = (cross, population)
    return {
        (covers, Fraction(self_play, scale), Fraction(cross, scale)): population
        for (covers, self_play), (cross, population) in least.items()
    }


def _compute_preference(method: str, size: int, count: int, best: _Sums) -> Preference:
    found: dict[bool, list[PurePopulation]] = {True: [], False: []}
    for (covers, self_play, cross), population in best.items():
        objective = OBJECTIVES[method](size, self_play, cross)
        responses, teammates = zip(*population, strict=True)
        found[covers].append(PurePopulation(responses, teammates, objective))
    covering, others = _find_leaders(found[True]), _find_leaders(found[False])
    ours, theirs = [item.objective for item in covering], [item.objective for item in others]
    everywhere = (AlphaInterval(Fraction(0), None),)
    return Preference(
        method=method,
        size=size,
        populations=count,
        covering=covering,
        others=others,
        strictly=alpha_intervals(ours, theirs) if theirs else everywhere,
        at_least_tied=alpha_intervals(ours, theirs, strict=False) if theirs else everywhere,
    )


def _find_leaders(populations: list[PurePopulation]) -> tuple[PurePopulation, ...]:
    by_objective = {population.objective: population for population in reversed(populations)}
    return tuple(by_objective[line] for line in upper_envelope(by_objective))
