"""What is said about runs that came out poorly."""

import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.evaluation.diagnosis import (
    RunNumbers,
    describe_steps_needed,
    diagnose,
    smallest_exact_margin,
    still_rises,
)

SAME = np.eye(4)


def numbers(returns, **changes) -> RunNumbers:
    returns = np.asarray(returns, float)
    usual = RunNumbers(
        returns=returns, discounted=returns, margin=0.2, chance=0.02, coverage_found=4, coverage_size=4, error=0.005
    )
    return usual._replace(**changes)


def kinds(run: RunNumbers) -> list[str]:
    return [problem.kind for problem in diagnose(run)]


def test_a_good_run_has_no_problems() -> None:
    assert diagnose(numbers(SAME)) == []


def test_self_play_at_chance_is_all_that_is_said() -> None:
    (problem,) = diagnose(numbers(0.03 * np.ones((4, 4)), coverage_found=0))
    assert problem.kind == "chance"
    assert "at chance (0.03 at most, where untrained policies earn 0.02)" in problem.sentence


def test_noise_is_no_learning() -> None:
    assert kinds(numbers([[4.24, 4.3], [4.4, 4.25]], chance=4.2, error=0.15)) == ["chance"]


def test_a_dead_pair_is_named_from_one() -> None:
    returns = np.diag([1.0, 1.0, 0.0, 1.0])
    (problem, *_) = diagnose(numbers(returns, coverage_found=3))
    assert problem.kind == "dead_pairs"
    assert problem.sentence.startswith("Pair 3 earns no more than untrained policies (0.02)")
    assert "--restart-patience" in problem.sentence


def test_a_member_that_earns_less_than_random_play_is_not_dead_if_it_is_needed() -> None:
    returns = [[8.0, -5.0], [0.0, -1.0]]
    assert kinds(numbers(returns, margin=1.0, chance=0.5, coverage_found=2, coverage_size=2)) == []


def test_duplicates_are_counted_and_the_remedy_fits() -> None:
    twice = np.eye(4)
    twice[0, 1] = twice[1, 0] = 1.0
    (problem,) = diagnose(numbers(twice, coverage_found=3))
    assert problem.kind == "duplicates"
    assert problem.sentence.startswith("Of 4 pairs 1 pair repeats another")
    assert "--method growing" in problem.sentence


def test_more_pairs_than_members_cannot_keep_their_constraints() -> None:
    repeated = np.zeros((6, 6))
    repeated[np.ix_([0, 4, 5], [0, 4, 5])] = 1.0
    repeated += np.diag([0, 1, 1, 1, 0, 0])
    found = diagnose(numbers(repeated))
    assert [problem.kind for problem in found] == ["too_many_pairs", "duplicates"]
    assert "--population-size 4" in found[0].sentence


def test_a_margin_that_no_population_keeps_is_named_with_a_smaller_one() -> None:
    (problem,) = diagnose(numbers(SAME, margin=0.9, exact_margin=0.8))
    assert problem.kind == "margin_too_large"
    assert "--margin 0.4" in problem.sentence
    assert "margin_too_large" in kinds(numbers(SAME, margin=3.0)), "larger than any difference of returns"


@pytest.mark.parametrize(
    ("values", "rises"), [(np.linspace(0, 1, 40).tolist(), True), ([1.0] * 40, False), ((0.0, 1.0), False)]
)
def test_steps_that_run_out_while_self_play_rises(values, rises: bool) -> None:
    assert still_rises(tuple(values)) is rises
    assert kinds(numbers(SAME, out_of_steps=True, self_play=tuple(values))) == (["out_of_steps"] if rises else [])
    assert kinds(numbers(SAME, out_of_steps=False, self_play=tuple(values))) == []


def test_a_method_that_finds_the_size_says_when_it_was_cut_off() -> None:
    assert kinds(numbers(SAME, complete=False)) == ["out_of_steps"]
    assert kinds(numbers(SAME, complete=True)) == []


def test_populations_that_are_not_square_are_only_compared_with_chance() -> None:
    assert kinds(numbers(np.ones((2, 6)))) == ["too_many_pairs"]
    assert kinds(numbers(np.ones((2, 6)), coverage_size=None, coverage_found=None)) == []


def test_exact_margins_of_known_coverage_sets() -> None:
    assert smallest_exact_margin(MatrixGame()) == pytest.approx(2.0)
    assert smallest_exact_margin(Reaching()) == pytest.approx(1.0)
    assert smallest_exact_margin(MatrixGame(((1.0, 1.0), (0.0, 0.0)))) is None


def test_steps_are_advised_only_where_more_pairs_have_too_few() -> None:
    assert describe_steps_needed(4, 10, 1000, 4) is None
    assert describe_steps_needed(8, 1000, 1000, 4) is None
    sentence = describe_steps_needed(8, 4_000_000, 9_000_000, 4)
    assert sentence is not None
    assert sentence.startswith("8 pairs need about 9,000,000 steps")
