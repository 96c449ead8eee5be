"""Appendix B in symbols, the alphas at which objectives cross, and what no alpha can make them prefer."""

from fractions import Fraction
from itertools import product

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from coverset.solver import solve
from coverset.solver.diversity import (
    Affine,
    AlphaInterval,
    alpha_intervals,
    brdiv,
    coverage_cross_play,
    lipo,
    preferred_populations,
    upper_envelope,
)
from known_answers import MATRIX, WEIGHTED

quiet = settings(deadline=None, derandomize=True, database=None)
MATRIX_ALTERNATIVE = ((10, 0, 0), (0, 6, 6), (0, 6, 6))
WEIGHTED_ALTERNATIVE = ((10, 10, 0, 0), (10, 10, 0, 0), (0, 0, 10, 10), (0, 0, 10, 10))

affines = st.builds(Affine, st.fractions(-4, 4, max_denominator=4), st.fractions(-4, 4, max_denominator=4))
envelopes = st.lists(affines, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("objective", "cross_play", "expected"),
    [
        (brdiv, MATRIX, "22 + 56 alpha"),
        (brdiv, MATRIX_ALTERNATIVE, "22 + 64 alpha"),
        (lipo, MATRIX, "22 - 16 alpha"),
        (lipo, MATRIX_ALTERNATIVE, "22 - 12 alpha"),
        (brdiv, WEIGHTED, "36 + 120 alpha"),
        (brdiv, WEIGHTED_ALTERNATIVE, "40 + 160 alpha"),
        (lipo, WEIGHTED, "36 - 48 alpha"),
        (lipo, WEIGHTED_ALTERNATIVE, "40 - 40 alpha"),
    ],
)
def test_both_tables_of_appendix_b(objective, cross_play, expected) -> None:
    assert str(objective(cross_play)) == expected


@pytest.mark.parametrize(("name", "payoffs"), [("matrix", MATRIX), ("weighted-reaching", WEIGHTED)])
def test_the_coverage_set_meets_its_own_teammates(name, payoffs) -> None:
    assert coverage_cross_play(solve(name)) == payoffs


def test_pairs_need_two_players() -> None:
    with pytest.raises(ValueError, match="need two players, got 3"):
        preferred_populations([[[1, 0], [0, 1]]])


@pytest.mark.parametrize("name", ["matrix", "weighted-reaching"])
def test_no_alpha_prefers_the_coverage_set(name) -> None:
    for preference in preferred_populations(name):
        assert preference.strictly == ()
        assert preference.at_least_tied == ()
        assert preference.verdict == f"No alpha > 0 makes {preference.method} prefer the coverage set."


@pytest.mark.parametrize(("mine", "other"), [(MATRIX, MATRIX_ALTERNATIVE), (WEIGHTED, WEIGHTED_ALTERNATIVE)])
def test_the_papers_alternative_wins_everywhere(mine, other) -> None:
    for objective in (brdiv, lipo):
        assert alpha_intervals(objective(other), objective(mine)) == (AlphaInterval(Fraction(0), None),)
        assert alpha_intervals(objective(mine), objective(other), strict=False) == ()


def test_plain_reaching_is_solved_by_both() -> None:
    """As the paper finds: all methods discover the coverage set of Cooperative Reaching."""
    for preference in preferred_populations("reaching"):
        assert preference.strictly == (AlphaInterval(Fraction(0), None),)


def test_an_interval_that_is_neither_empty_nor_everything() -> None:
    """By hand: the coverage set earns 11 + 22 alpha or 11, two copies of the better pair 20 or 20 - 20 alpha."""
    found = preferred_populations([[10, 0], [0, 1]])
    assert [item.verdict for item in found] == [
        "BRDiv prefers the coverage set for alpha > 9/22.",
        "LIPO prefers the coverage set for alpha > 9/20.",
    ]
    assert [str(*item.at_least_tied) for item in found] == ["alpha >= 9/22", "alpha >= 9/20"]


@settings(quiet, max_examples=150)
@given(envelopes, envelopes, st.booleans())
def test_intervals_hold_exactly_where_the_values_say(first, second, strict) -> None:
    intervals = alpha_intervals(first, second, strict=strict)
    ends = [end for item in intervals for end in (item.low, item.high) if end]
    grid = {Fraction(n, 7) for n in range(1, 100)} | {end + step for end in ends for step in (0, Fraction(1, 10**9))}
    for alpha in grid:
        mine, theirs = max(line.at(alpha) for line in first), max(line.at(alpha) for line in second)
        assert any(alpha in item for item in intervals) == (mine > theirs if strict else mine >= theirs)


@settings(quiet, max_examples=200)
@given(envelopes)
def test_upper_envelope_keeps_the_maximum(lines) -> None:
    hull = upper_envelope(lines)
    assert set(hull) <= set(lines)
    for n in range(1, 50):
        alpha = Fraction(n, 9)
        assert max(line.at(alpha) for line in hull) == max(line.at(alpha) for line in lines)


@settings(quiet, max_examples=40)
@given(st.lists(st.lists(st.integers(-3, 6), min_size=2, max_size=2), min_size=2, max_size=3))
def test_search_against_plain_loops(payoffs) -> None:
    solution = solve(payoffs)
    size = max(2, len(solution.coverage_set))
    rows = range(len(payoffs))
    for preference, objective in zip(preferred_populations(solution, size=size), (brdiv, lipo), strict=True):
        best = {True: [], False: []}
        for responses in product(rows, repeat=size):
            held = {tuple(payoffs[i]) for i in responses}
            covers = all(tuple(payoffs[i]) in held for i in solution.coverage_set)
            for teammates in product(range(2), repeat=size):
                best[covers].append(objective([[payoffs[i][j] for j in teammates] for i in responses]))
        for alpha in (Fraction(1, 50), Fraction(1, 3), 1, 4, 100):
            assert max(item.at(alpha) for item in best[True]) == max(
                item.objective.at(alpha) for item in preference.covering
            )
            wins = not best[False] or max(item.at(alpha) for item in best[True]) > max(
                item.at(alpha) for item in best[False]
            )
            assert wins == any(alpha in item for item in preference.strictly)


def test_printing() -> None:
    assert str(Affine(Fraction(0), Fraction(-1))) == "-alpha"
    assert str(Affine(Fraction(3), Fraction(0))) == "3"
    assert str(Affine(Fraction(1, 2), Fraction(1))) == "1/2 + alpha"
    assert str(AlphaInterval(Fraction(0), Fraction(1, 2))) == "0 < alpha < 1/2"
    assert str(AlphaInterval(Fraction(2), Fraction(2), True, True)) == "alpha = 2"


def test_refusals_name_what_came() -> None:
    with pytest.raises(ValueError, match="square, a row and a column per pair, got 1 x 2"):
        brdiv([[1, 2]])
    with pytest.raises(ValueError, match=r"size must be at least 3.*got 2"):
        preferred_populations("matrix", size=2)
    with pytest.raises(ValueError, match="at most 500000 can be compared"):
        preferred_populations([[float(i == j) for j in range(9)] for i in range(9)])
