"""Coverage regret of sets of policies over all mixed teammates."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.envs.matrix import MatrixGame
from coverset.solver import solve
from coverset.solver.regret import coverage_regret, due_members, redundant_members

TABLE = np.array(MatrixGame().payoffs)
tables = st.integers(2, 4).flatmap(
    lambda size: st.lists(st.lists(st.integers(-9, 9), min_size=size, max_size=size), min_size=2, max_size=4)
)


@pytest.mark.parametrize(("rows", "regret"), [((0, 1, 2), 0.0), ((0, 1), 2.0), ((0,), 6.0), ((1,), 10.0), ((2,), 6.0)])
def test_the_papers_game_by_hand(rows: tuple[int, ...], regret: float) -> None:
    found = coverage_regret(TABLE, TABLE[list(rows)])
    assert found.low == pytest.approx(regret)
    assert found.high == pytest.approx(regret)


def test_a_mixed_policy_is_judged_by_what_it_earns() -> None:
    half = 0.5 * TABLE[0] + 0.5 * TABLE[1]
    assert coverage_regret(TABLE, half[None]).low == pytest.approx(5.0), "with a teammate that plays action 1"


@settings(deadline=None, max_examples=30)
@given(tables, st.integers(0, 1000))
def test_no_mix_of_columns_has_a_higher_regret(rows: list[list[int]], seed: int) -> None:
    payoffs = np.array(rows, float)
    served = payoffs[:1]
    found = coverage_regret(payoffs, served)
    mixes = np.random.default_rng(seed).dirichlet(np.ones(payoffs.shape[1]), size=50)
    regrets = (payoffs @ mixes.T).max(axis=0) - (served @ mixes.T).max(axis=0)
    assert regrets.max() <= found.high + 1e-6
    at_mix = (payoffs @ found.mix).max() - (served @ found.mix).max()
    assert found.low == pytest.approx(at_mix, abs=1e-6)
    assert found.high - found.low < 1e-6


@settings(deadline=None, max_examples=30)
@given(tables)
def test_exact_coverage_sets_and_no_smaller_ones_have_no_regret(rows: list[list[int]]) -> None:
    payoffs = np.array(rows, float)
    members = solve(payoffs).coverage_set
    assert coverage_regret(payoffs, payoffs[list(members)]).high < 1e-6
    for missing in itertools.combinations(members, len(members) - 1):
        if missing:
            assert coverage_regret(payoffs, payoffs[list(missing)]).low > 1e-6


def test_a_member_is_redundant_if_the_others_cover_up_to_the_margin() -> None:
    assert redundant_members(TABLE, TABLE, margin=1.0) == []
    assert redundant_members(TABLE, TABLE[[0, 1, 2, 1]], margin=1.0) == [3]
    assert redundant_members(TABLE, TABLE, margin=2.0) == [2]
    assert redundant_members(TABLE, TABLE, margin=100.0) == [1, 2], "one stays"


def test_members_are_due_from_the_margin_on() -> None:
    exact = solve(TABLE)
    assert due_members(exact.coverage_set, exact.margins, 2.0) == {0, 1, 2}
    assert due_members(exact.coverage_set, exact.margins, 2.1) == {0}
