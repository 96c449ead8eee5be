"""The value of a zero-sum matrix game, bounded in floats by HiGHS and found exactly in integers where that matters.

The widest margin by which one ego action beats the others is such a value: a chooser of columns (the teammate mix p)
maximises the gain over the chooser of rows (the rival action, or mix of rivals, y):

    value = max_p min_k sum_j G[k, j] p_j = min_y max_j sum_k y_k G[k, j]

Both sides are solved by one linear programme (Dantzig 1951): with G shifted above zero, maximise sum u subject to
u G <= 1 and u >= 0. Then value = 1 / sum u, y = u / sum u, and p is the programme's dual, scaled in the same way.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

WORK_LIMIT = 300_000_000
"""Exact arithmetic allowed for one game, in units of about 0.2 microseconds: about a minute."""
ADDED_PER_ROUND = 4
"""Rows and columns that join the small game in one round of `exact_bounds`."""


class UndecidedError(ValueError):
    """A game whose exact answer would take more arithmetic than allowed; raised rather than guessing."""


class Budget:
    """What is left of the exact arithmetic allowed for a game."""

    def __init__(self, limit: int = WORK_LIMIT) -> None:
        self.left = limit

    def spend(self, cells: int, bits: int) -> None:
        """Pay for `cells` products of integers of `bits` bits; long products cost more than in proportion."""
        self.left -= cells * (1 + bits // 64) * (1 + bits // 1500)
        if self.left < 0:
            raise UndecidedError("its payoffs need more exact arithmetic than a minute's worth.")


@dataclass(frozen=True)
class Mix:
    """A mixed strategy as whole numbers: probability of choice j is weights[j] / total."""

    weights: np.ndarray
    """Object array of non-negative Python integers."""

    @property
    def total(self) -> int:
        return int(self.weights.sum())

    def fractions(self) -> tuple[Fraction, ...]:
        """The probabilities; they sum to 1 exactly."""
        total = self.total
        return tuple(Fraction(int(weight), total) for weight in self.weights)


@dataclass(frozen=True)
class Bounds:
    """Exact bounds of a value, low <= value <= high, and the strategies that prove them."""

    low: Fraction
    """What `p` secures against every row."""
    high: Fraction
    """What `y` concedes to every column."""
    p: Mix
    y: Mix

    def settled(self, width: Fraction) -> bool:
        """Whether the value's sign is known, and the value to within `width`."""
        sign_known = self.low > 0 or self.high < 0 or self.low == self.high
        return sign_known and self.high - self.low <= width


def secured(gains: np.ndarray, p: Mix) -> Fraction:
    """min_k sum_j G[k, j] p_j: the least that column mix p earns, for G an object array of integers [rows, columns]."""
    support = np.flatnonzero(p.weights)
    return Fraction(int(gains[:, support].dot(p.weights[support]).min()), p.total)


def conceded(gains: np.ndarray, y: Mix) -> Fraction:
    """max_j sum_k y_k G[k, j]: the most that row mix y lets any column earn."""
    support = np.flatnonzero(y.weights)
    return Fraction(int(y.weights[support].dot(gains[support]).max()), y.total)


def float_strategies(gains: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Nearly optimal strategies (p, y) of the game `gains`, by HiGHS; None if it gives up.

    Args:
      gains: G, float [rows, columns] with entries in [-1, 1].
    Returns:
      p float [columns] and y float [rows], each non-negative with sum 1.
    """
    positive = gains + 2.0  # in [1, 3]: well scaled, and the value cannot vanish
    rows, columns = gains.shape
    options = {"presolve": False}  # a dense table has nothing to remove, and looking costs a third of the time
    result = linprog(-np.ones(rows), A_ub=positive.T, b_ub=np.ones(columns), method="highs-ds", options=options)
    if result.status != 0:
        return None
    y, p = np.maximum(result.x, 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    if not (np.isfinite(y).all() and np.isfinite(p).all() and y.sum() > 0.0 and p.sum() > 0.0):
        return None
    return p / p.sum(), y / y.sum()


def exact_bounds(gains: np.ndarray, rows: list[int], columns: list[int], width: Fraction, budget: Budget) -> Bounds:
    """Bounds of the game's value that settle its sign, in exact arithmetic, by growing a small game (double oracle).

    The game on a few rows and columns is solved; the rows that its p beats by least, and the columns that its y holds
    down least, join it until the bounds settle. At the latest the small game is the whole one and the bounds are equal,
    so the answer never depends on the guess. McMahan, Gordon and Blum 2003.

    Args:
      gains: G, object array of Python integers [rows, columns].
      rows: rows to start with, at best the support of an optimal y; not empty.
      columns: columns to start with, at best the support of an optimal p; not empty.
      width: how far the bounds may stay apart once the sign is known.
      budget: pays for the arithmetic.
    """
    inner_rows, inner_columns = set(rows), set(columns)
    while True:
        rows, columns = sorted(inner_rows), sorted(inner_columns)
        p, y = _integer_simplex(gains[np.ix_(rows, columns)], budget)
        by_row, by_column, total = gains[:, columns].dot(p), y.dot(gains[rows]), int(p.sum())
        low, high = Fraction(int(by_row.min()), total), Fraction(int(by_column.max()), total)
        bounds = Bounds(low, high, _spread(p, columns, gains.shape[1]), _spread(y, rows, gains.shape[0]))
        if bounds.settled(width):
            return bounds
        inner_rows.update(np.argsort(by_row)[:ADDED_PER_ROUND].tolist())
        inner_columns.update(np.argsort(by_column)[::-1][:ADDED_PER_ROUND].tolist())


def _spread(weights: np.ndarray, places: list[int], size: int) -> Mix:
    full = np.zeros(size, dtype=object)
    full[places] = weights
    return Mix(full)


def _integer_simplex(gains: np.ndarray, budget: Budget) -> tuple[np.ndarray, np.ndarray]:
    """Optimal p [columns] and y [rows] of the game `gains` as integer weights of equal sum.

    The simplex method on a condensed tableau of integers over one common denominator, so that no fraction is ever
    reduced (Edmonds' integer pivoting). It enters by the steepest coefficient while the objective grows, by Bland's
    rule while it stands still: it cannot cycle.

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
        enter = _entering(tableau[-1, :-1], outside, steepest=growing)
        if enter is None:
            break
        leave = _leaving(tableau, enter, inside)
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


def _entering(costs: np.ndarray, labels: list[int], *, steepest: bool) -> int | None:
    candidates = [place for place, cost in enumerate(costs) if cost < 0]
    if not candidates:
        return None
    return min(candidates, key=lambda place: (costs[place] if steepest else 0, labels[place]))


def _leaving(tableau: np.ndarray, enter: int, labels: list[int]) -> int:
    """The row of the smallest ratio, compared crosswise in integers; ties go to the lowest label."""
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
