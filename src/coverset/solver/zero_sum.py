"""The value of a zero-sum matrix game: approximated in floats by HiGHS, bounded exactly in integers.

The largest margin by which one ego action beats the others is such a value: the column player (the teammate mix p)
maximises the gain over the row player (the rival action, or mix of rivals, y):

    value = max_p min_k sum_j G[k, j] p_j = min_y max_j sum_k y_k G[k, j]

Both sides are solved by one linear programme (Dantzig 1951): with G shifted above zero, maximise sum u subject to
u G <= 1 and u >= 0. Then value = 1 / sum u, y = u / sum u, and p is the programme's dual, scaled in the same way.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

WORK_LIMIT = 300_000_000
"""Exact arithmetic allowed per game, in units of about 0.2 microseconds: about a minute."""
MAX_RELATIVE_WIDTH = Fraction(1, 10**7)
"""Widest gap between the bounds of a value, relative to the largest gain, that needs no exact solve."""
SIMPLE_DENOMINATOR = 1000
"""Probabilities are first rounded to fractions with at most this denominator."""
SIMPLE_SUPPORT = 12
"""Largest support of a mix to round to simple fractions; with more, the common denominator grows too large."""
ADDED_PER_ROUND = 4
"""Rows and columns added to the restricted game in one round of `exact_bounds`."""


class UndecidedError(ValueError):
    """The exact solution of a game needs more arithmetic than allowed."""


class Budget:
    """The remaining exact arithmetic allowed for a game."""

    def __init__(self, limit: int = WORK_LIMIT) -> None:
        self.left = limit

    def spend(self, cells: int, bits: int) -> None:
        """Charge `cells` products of integers of `bits` bits; the cost of long products grows superlinearly."""
        self.left -= cells * (1 + bits // 64) * (1 + bits // 1500)
        if self.left < 0:
            raise UndecidedError("its payoffs need more exact arithmetic than a minute's worth.")


@dataclass(frozen=True)
class Mix:
    """A mixed strategy in integers: the probability of choice j is weights[j] / total."""

    weights: np.ndarray
    """Object array of non-negative Python integers."""

    @property
    def total(self) -> int:
        return int(self.weights.sum())

    def fractions(self) -> tuple[Fraction, ...]:
        """Return the probabilities, which sum to exactly 1."""
        total = self.total
        return tuple(Fraction(int(weight), total) for weight in self.weights)


@dataclass(frozen=True)
class Bounds:
    """Exact bounds low <= value <= high, and the strategies that prove them."""

    low: Fraction
    """The gain that `p` guarantees against every row."""
    high: Fraction
    """The largest gain of any column against `y`."""
    p: Mix
    y: Mix

    def is_decided(self, width: Fraction) -> bool:
        """Whether the sign of the value is known, and the value itself to within `width`."""
        sign_known = self.low > 0 or self.high < 0 or self.low == self.high
        return sign_known and self.high - self.low <= width


def guaranteed_gain(gains: np.ndarray, p: Mix) -> Fraction:
    """min_k sum_j G[k, j] p_j: the least gain of column mix p, for G an object array of integers [rows, columns]."""
    support = np.flatnonzero(p.weights)
    return Fraction(int(gains[:, support].dot(p.weights[support]).min()), p.total)


def largest_gain(gains: np.ndarray, y: Mix) -> Fraction:
    """max_j sum_k y_k G[k, j]: the largest gain of any column against row mix y."""
    support = np.flatnonzero(y.weights)
    return Fraction(int(y.weights[support].dot(gains[support]).max()), y.total)


def value_bounds(gains: np.ndarray, budget: Budget) -> Bounds:
    """Bound the value of a game so that its sign is known, and its size to within `MAX_RELATIVE_WIDTH`.

    Args:
      gains: G, object array of Python integers [rows, columns], not all 0.
      budget: limits the exact arithmetic.
    """
    span = int(abs(gains).max())
    guess = float_strategies((gains / span).astype(np.float64))
    if guess is None:
        return exact_bounds(gains, [0], [0], MAX_RELATIVE_WIDTH * span, budget)
    p = max(list_rational_candidates(guess[0]), key=lambda mix: guaranteed_gain(gains, mix))
    y = min(list_rational_candidates(guess[1]), key=lambda mix: largest_gain(gains, mix))
    bounds = Bounds(guaranteed_gain(gains, p), largest_gain(gains, y), p, y)
    if bounds.is_decided(MAX_RELATIVE_WIDTH * span):
        return bounds
    rows, columns = np.flatnonzero(y.weights).tolist(), np.flatnonzero(p.weights).tolist()
    return exact_bounds(gains, rows, columns, MAX_RELATIVE_WIDTH * span, budget)


def list_rational_candidates(shares: np.ndarray) -> list[Mix]:
    """Return rational mixes near `shares`: simple fractions if the support is small, and the floats themselves."""
    to_53_bits = Mix(np.array([int(share) for share in np.rint(shares * 2.0**53)], object))
    if np.count_nonzero(shares) > SIMPLE_SUPPORT:
        return [to_53_bits]
    simple = [Fraction(float(share)).limit_denominator(SIMPLE_DENOMINATOR) for share in shares]
    common = math.lcm(*(share.denominator for share in simple))
    return [Mix(np.array([int(share * common) for share in simple], object)), to_53_bits]


def float_strategies(gains: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Compute nearly optimal strategies (p, y) of the game `gains` with HiGHS; None if it fails.

    Args:
      gains: G, float [rows, columns] with entries in [-1, 1].
    Returns:
      p float [columns] and y float [rows], each non-negative with sum 1.
    """
    positive = gains + 2.0  # in [1, 3]: well scaled, with a positive value
    rows, columns = gains.shape
    options = {"presolve": False}  # removes nothing from a dense table and takes a third of the time
    result = linprog(-np.ones(rows), A_ub=positive.T, b_ub=np.ones(columns), method="highs-ds", options=options)
    if result.status != 0:
        return None
    y, p = np.maximum(result.x, 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    if not (np.isfinite(y).all() and np.isfinite(p).all() and y.sum() > 0.0 and p.sum() > 0.0):
        return None
    return p / p.sum(), y / y.sum()


def exact_bounds(gains: np.ndarray, rows: list[int], columns: list[int], width: Fraction, budget: Budget) -> Bounds:
    """Bound the value of a game in exact arithmetic until its sign is known (double oracle).

    A restricted game on a few rows and columns is solved; the best replies to its p and y join it until the bounds
    decide the sign. At the latest the restricted game is the whole game and the bounds are equal, so the result does
    not depend on the initial rows and columns. McMahan, Gordon and Blum 2003.

    Args:
      gains: G, object array of Python integers [rows, columns].
      rows: initial rows, ideally the support of an optimal y; not empty.
      columns: initial columns, ideally the support of an optimal p; not empty.
      width: largest difference of the bounds once the sign is known.
      budget: limits the arithmetic.
    """
    inner_rows, inner_columns = set(rows), set(columns)
    while True:
        rows, columns = sorted(inner_rows), sorted(inner_columns)
        p, y = _integer_simplex(gains[np.ix_(rows, columns)], budget)
        by_row, by_column, total = gains[:, columns].dot(p), y.dot(gains[rows]), int(p.sum())
        low, high = Fraction(int(by_row.min()), total), Fraction(int(by_column.max()), total)
        bounds = Bounds(low, high, _scatter(p, columns, gains.shape[1]), _scatter(y, rows, gains.shape[0]))
        if bounds.is_decided(width):
            return bounds
        inner_rows.update(np.argsort(by_row)[:ADDED_PER_ROUND].tolist())
        inner_columns.update(np.argsort(by_column)[::-1][:ADDED_PER_ROUND].tolist())


def _scatter(weights: np.ndarray, places: list[int], size: int) -> Mix:
    full = np.zeros(size, dtype=object)
    full[places] = weights
    return Mix(full)


def _integer_simplex(gains: np.ndarray, budget: Budget) -> tuple[np.ndarray, np.ndarray]:
    """Compute optimal p [columns] and y [rows] of the game `gains` as integer weights of equal sum.

    The simplex method on a condensed tableau of integers over one common denominator, so that no fraction is ever
    reduced (Edmonds' integer pivoting). The entering variable has the steepest coefficient while the objective grows
    and follows Bland's rule while it does not, which prevents cycling.

        T = [ G^T  1 ]    over the denominator d, first 1; a row of T per column of G and a column of T per row of G
            [ -1   0 ]
    """
    rows, columns = gains.shape
    shift = 1 - int(gains.min())
    tableau = np.empty((columns + 1, rows + 1), dtype=object)
    tableau[:-1, :-1], tableau[:-1, -1], tableau[-1, :-1], tableau[-1, -1] = (gains + shift).T, 1, -1, 0
    outside, inside = list(range(rows)), list(range(rows, rows + columns))  # labels: u_k is k, slack j is rows + j
    denominator, growing = 1, True
    while True:
        enter = _choose_entering(tableau[-1, :-1], outside, steepest=growing)
        if enter is None:
            break
        leave = _choose_leaving(tableau, enter, inside)
        growing = tableau[leave, -1] > 0
        pivot = tableau[leave, enter]
        budget.spend(tableau.size, int(pivot).bit_length())
        _pivot(tableau, leave, enter, denominator)
        denominator = pivot
        outside[enter], inside[leave] = inside[leave], outside[enter]
    p, y = np.zeros(columns, dtype=object), np.zeros(rows, dtype=object)
    for place, label in enumerate(outside):
        if label >= rows:
            p[label - rows] = tableau[-1, place]
    for place, label in enumerate(inside):
        if label < rows:
            y[label] = tableau[place, -1]
    return p, y


def _choose_entering(costs: np.ndarray, labels: list[int], *, steepest: bool) -> int | None:
    candidates = [place for place, cost in enumerate(costs) if cost < 0]
    if not candidates:
        return None
    return min(candidates, key=lambda place: (costs[place] if steepest else 0, labels[place]))


def _choose_leaving(tableau: np.ndarray, enter: int, labels: list[int]) -> int:
    """Return the row of the smallest ratio, by cross-multiplication in integers; ties go to the lowest label."""
    best = -1
    for row in range(tableau.shape[0] - 1):
        if tableau[row, enter] <= 0:
            continue
        if best < 0:
            best = row
            continue
        mine, theirs = tableau[row, -1] * tableau[best, enter], tableau[best, -1] * tableau[row, enter]
        if mine < theirs or (mine == theirs and labels[row] < labels[best]):
            best = row
    assert best >= 0, "every column of a positive game bounds the programme"
    return best


def _pivot(tableau: np.ndarray, leave: int, enter: int, denominator: int) -> None:
    """Exchange two variables in place; every division is exact."""
    pivot, row, column = tableau[leave, enter], tableau[leave].copy(), tableau[:, enter].copy()
    tableau[:] = (tableau * pivot - np.multiply.outer(column, row)) // denominator
    tableau[leave] = row
    tableau[:, enter] = -column
    tableau[leave, enter] = denominator
