"""The solver against known answers, an independent enumeration, symmetries, and games meant to mislead it."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from enumeration import best_rows, centre, dot, full_dimensional, region_vertices, smallest_cover
from hypothesis import given, settings

from coverset.solver import Solution, UndecidedError, solve, zero_sum
from coverset.solver.games import Game, game_from_table
from known_answers import KNOWN, Known

quiet = settings(deadline=None, derandomize=True, database=None)


@st.composite
def tables(draw, values, max_rows=4, max_columns=3):
    rows, columns = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    return draw(st.lists(st.lists(values, min_size=columns, max_size=columns), min_size=rows, max_size=rows))


tied_values = st.integers(-2, 2)
fraction_values = st.fractions(-3, 3, max_denominator=6)
float_values = st.floats(-1e3, 1e3, allow_subnormal=False)
mixed_values = st.one_of(
    tied_values, st.sampled_from([10**9, 10**9 + 1, 10**9 + 2, 1e-9, 2e-9, -1e-9, 0.1, 0.2, 0.1 + 0.2])
)


def rows_of(game: Game) -> list[tuple[Fraction, ...]]:
    return list(game.ego)


def assert_proved(solution: Solution) -> None:
    """Every claim of the solution, checked from the payoffs in fractions."""
    rows, columns = rows_of(solution.game), solution.game.shape[1]
    for member in solution.members:
        assert len(member.witness) == columns
        assert sum(member.witness) == 1
        assert min(member.witness) >= 0
        own = dot(rows[member.action], member.witness)
        gains = [own - dot(row, member.witness) for row in rows if row != rows[member.action]]
        assert member.margin == (min(gains) if gains else None)
        assert member.margin is None or member.margin > 0
    for item in solution.non_members:
        assert sum(item.by.values()) == 1
        assert item.action not in item.by
        mix = [sum(share * rows[k][j] for k, share in item.by.items()) for j in range(columns)]
        excess = [a - b for a, b in zip(mix, rows[item.action], strict=True)]
        assert min(excess) >= 0
        assert (min(excess) > 0) == (item.kind == "dominated")
        assert (item.margin < 0) == (item.kind == "dominated")
        assert all(value == 0 for value in excess) if item.kind == "duplicate" else True
    listed = [item.action for item in (*solution.members, *solution.non_members)]
    assert sorted(listed) == list(range(len(rows)))


def assert_agrees_with_enumeration(payoffs) -> None:
    solution = solve(payoffs)
    assert_proved(solution)
    rows = rows_of(solution.game)
    corners = [region_vertices(rows, i) for i in range(len(rows))]
    needed = {i for i, row in enumerate(rows) if full_dimensional(corners[i]) and rows.index(row) == i}
    assert set(solution.coverage_set) == needed
    assert len(needed) == smallest_cover(rows)
    for vertices in filter(None, corners):
        for point in (*vertices, centre(vertices)):
            assert best_rows(rows, point) & needed
    for item in solution.non_members:
        assert item.kind == "duplicate" or (item.kind == "dominated") == (not corners[item.action])


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_known_answers(known: Known) -> None:
    solution = solve(known.payoffs)
    assert solution.coverage_set == known.coverage_set
    assert tuple(member.margin for member in solution.members) == known.margins
    assert_proved(solution)


def test_built_in_games_are_those_of_the_paper() -> None:
    assert solve("matrix").coverage_set == (0, 1, 2)
    assert [solve("weighted-reaching").game.ego_actions[i] for i in solve("weighted-reaching").coverage_set] == [
        *"ABCD"
    ]
    assert solve("reaching").coverage_set == (0, 1, 2, 3)


@settings(quiet, max_examples=1000)
@given(tables(tied_values))
def test_agrees_with_enumeration_where_ties_abound(payoffs) -> None:
    assert_agrees_with_enumeration(payoffs)


@settings(quiet, max_examples=400)
@given(tables(st.one_of(fraction_values, float_values, mixed_values)))
def test_agrees_with_enumeration_on_mixed_numbers(payoffs) -> None:
    assert_agrees_with_enumeration(payoffs)


@settings(quiet, max_examples=100)
@given(tables(st.integers(-1, 1), max_rows=5, max_columns=4))
def test_agrees_with_enumeration_with_four_teammate_actions(payoffs) -> None:
    assert_agrees_with_enumeration(payoffs)


@settings(quiet, max_examples=200)
@given(st.data(), tables(st.one_of(tied_values, fraction_values)))
def test_permuting_actions_permutes_the_answer(data, payoffs) -> None:
    rows = data.draw(st.permutations(range(len(payoffs))))
    columns = data.draw(st.permutations(range(len(payoffs[0]))))
    moved = solve([[payoffs[r][c] for c in columns] for r in rows])
    solution = solve(payoffs)
    assert {tuple(solution.game.ego[i]) for i in solution.coverage_set} == {
        solution.game.ego[rows[i]] for i in moved.coverage_set
    }
    assert sorted(moved.margins) == pytest.approx(sorted(solution.margins), abs=1e-6)


@settings(quiet, max_examples=400)
@given(tables(tied_values), st.data(), st.sampled_from([Fraction(1, 10**9), Fraction(1, 3), 7, 10**9]))
def test_constants_and_scale_do_not_matter(payoffs, data, factor) -> None:
    constants = data.draw(
        st.lists(
            st.sampled_from([0, -(10**9), 10**9, Fraction(1, 7)]), min_size=len(payoffs[0]), max_size=len(payoffs[0])
        )
    )
    moved = [[value * factor + constant for value, constant in zip(row, constants, strict=True)] for row in payoffs]
    solution, other = solve(payoffs), solve(moved)
    assert other.coverage_set == solution.coverage_set
    for mine, theirs in zip(solution.members, other.members, strict=True):
        assert (mine.margin is None and theirs.margin is None) or mine.margin * factor == theirs.margin


@settings(quiet, max_examples=200)
@given(tables(tied_values))
def test_exact_arithmetic_alone_gives_the_same_set(payoffs) -> None:
    solution = solve(payoffs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coverset.solver.zero_sum.float_strategies", lambda _: None)
        alone = solve(payoffs)
    assert_proved(alone)
    assert alone.coverage_set == solution.coverage_set


@settings(quiet, max_examples=200)
@given(st.data(), tables(tied_values))
def test_a_misleading_guess_changes_nothing(data, payoffs) -> None:
    """Whatever the float solver says, it only proposes."""

    def wrong(gains):
        rows, columns = gains.shape
        return np.eye(columns)[data.draw(st.integers(0, columns - 1))], np.eye(rows)[
            data.draw(st.integers(0, rows - 1))
        ]

    solution = solve(payoffs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coverset.solver.zero_sum.float_strategies", wrong)
        misled = solve(payoffs)
    assert_proved(misled)
    assert misled.coverage_set == solution.coverage_set


def test_teammate_payoffs_do_not_move_the_set() -> None:
    general = game_from_table([[2, 0], [1, 1], [0, 2]], [[0, 9], [9, 0], [-5, 3]])
    assert solve(general).coverage_set == (0, 2)


@pytest.mark.parametrize("seed", range(3))
def test_mixes_rounded_to_floats_are_judged_as_stored(seed: int) -> None:
    """Means of other rows, rounded: margins near 1e-17 of either sign, each with its proof."""
    rng = np.random.default_rng(seed)
    base = rng.random((5, 6))
    solution = solve(np.vstack([base, rng.dirichlet(np.ones(5), 10) @ base]))
    assert_proved(solution)
    assert set(solve(base).coverage_set) <= set(solution.coverage_set)


@pytest.mark.parametrize("shift", [0, 10**9])
def test_exact_ties_in_larger_games(shift: int) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(-9, 10, (6, 12))
    shares = rng.multinomial(4, np.ones(6) / 6, 20)
    solution = solve(np.vstack([4 * base, shares @ base]) + shift)
    assert_proved(solution)
    assert solution.coverage_set == tuple(range(6))


def test_payoffs_of_wildly_different_size() -> None:
    solution = solve([[1e300, 0.0, 1e-300], [0.0, 1e-300, 0.0], [0.0, 0.0, 2e-300], [0.0, 0.0, 1e-300]])
    assert_proved(solution)
    assert solution.coverage_set == (0, 1, 2)


def test_refuses_rather_than_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coverset.solver.coverage.Budget", lambda: zero_sum.Budget(3))
    monkeypatch.setattr("coverset.solver.zero_sum.float_strategies", lambda _: None)
    with pytest.raises(UndecidedError, match="is undecided whether the coverage set needs action '1'"):
        solve("matrix")


def test_json_is_plain_and_complete() -> None:
    answer = solve([[2, 0], [1, 1], [0, 2], [2, 0]]).to_json()
    assert answer["coverage_set"] == [0, 2]
    assert answer["margins"] == [1.0, 1.0]
    assert answer["witnesses"] == [[1.0, 0.0], [0.0, 1.0]]
    assert [item["kind"] for item in answer["non_members"]] == ["tied", "duplicate"]
    assert answer["non_members"][0]["by"] == {"0": 0.5, "2": 0.5}
    assert solve([[1, 1]]).to_json()["margins"] == [None]
    assert math.isinf(solve([[1, 1]]).margins[0])


def test_a_game_of_100_by_100_is_quick() -> None:
    solution = solve(np.random.default_rng(0).random((100, 100)))
    assert len(solution.coverage_set) == 100
    assert min(solution.margins) > 0
