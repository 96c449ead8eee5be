"""Intervals against scipy, against simulated studies, and under changes that must not matter."""

import json
import math
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.evaluation.statistics import Interval, bootstrap_interval, paired_difference, student_interval

number = st.floats(-1e3, 1e3, allow_nan=False)
seeds = st.lists(number, min_size=2, max_size=8)
measured = st.lists(st.lists(number, min_size=1, max_size=5), min_size=2, max_size=5)
INTERVALS = (student_interval, lambda values: bootstrap_interval(values, resamples=50))


def ends(interval: Interval) -> np.ndarray:
    return np.array([interval.mean, interval.low, interval.high])


@settings(max_examples=50, deadline=None)
@given(seeds.filter(lambda values: np.std(values) > 1e-3), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_students_interval_is_scipys(values, confidence: float) -> None:
    found = student_interval(values, confidence=confidence)
    wanted = scipy.stats.t.interval(confidence, len(values) - 1, np.mean(values), scipy.stats.sem(values))
    np.testing.assert_allclose(ends(found), [np.mean(values), *wanted], rtol=1e-9, atol=1e-9)
    assert found.n == len(values)


def test_bootstrap_is_scipys_up_to_resampling() -> None:
    """One end scatters by 0.01 from one resampling to the next, so averages over 20 of them are compared."""
    values, numbers = np.random.default_rng(3).normal(size=12), range(20)
    found = [ends(bootstrap_interval(values, resamples=20_000, rng_seed=seed))[1:] for seed in numbers]
    theirs = partial(scipy.stats.bootstrap, (values,), np.mean, method="percentile", n_resamples=20_000)
    wanted = [theirs(rng=np.random.default_rng(100 + seed)).confidence_interval for seed in numbers]
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(wanted, axis=0), atol=0.015)


@pytest.mark.parametrize("n", [2, 4, 10])
def test_students_interval_holds_the_mean_in_95_percent_of_normal_studies(n: int) -> None:
    studies = np.random.default_rng(n).normal(3.0, 2.0, (2000, n))
    held = [interval.low <= 3.0 <= interval.high for interval in map(student_interval, studies)]
    assert 0.93 <= np.mean(held) <= 0.97


def test_bootstrap_holds_the_mean_in_95_percent_of_large_studies_and_in_less_of_small_ones() -> None:
    rng = np.random.default_rng(5)

    def held(n: int) -> float:
        intervals = [bootstrap_interval(study, resamples=400) for study in rng.normal(3.0, 2.0, (600, n))]
        return float(np.mean([interval.low <= 3.0 <= interval.high for interval in intervals]))

    assert 0.92 <= held(60) <= 0.98
    assert 0.7 <= held(4) <= 0.88  # as its docstring warns


def test_trials_widen_the_bootstrap_but_are_not_pooled() -> None:
    """Between seeds nothing differs, so all scatter is within them; as single numbers they would not scatter."""
    trials = np.random.default_rng(0).normal(size=100)
    trials -= trials.mean()
    found = bootstrap_interval([trials] * 4)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * trials.std() / math.sqrt(400), rel=0.1)
    apart = bootstrap_interval([trials + shift for shift in (0.0, 0.0, 9.0, 9.0)])
    assert apart.low < 1 < 8 < apart.high  # a mean over 400 pooled trials would lie within 4.5 -+ 0.5


def test_a_single_seed_says_nothing_about_others() -> None:
    for interval in (student_interval([2.0]), bootstrap_interval([2.0]), bootstrap_interval([[1.0, 3.0]])):
        assert interval == Interval(2.0, -math.inf, math.inf, 1)
        assert interval.to_json() == {"mean": 2.0, "low": None, "high": None, "n": 1}
        json.dumps(interval.to_json(), allow_nan=False)


def test_equal_seeds_have_no_width() -> None:
    for interval in INTERVALS:
        assert interval([1.5] * 4) == Interval(1.5, 1.5, 1.5, 4)


@settings(max_examples=40, deadline=None)
@given(measured, st.floats(-100, 100), st.floats(0.1, 10))
def test_intervals_move_and_stretch_with_the_numbers(values, shift: float, scale: float) -> None:
    moved = [[shift + scale * value for value in trials] for trials in values]
    student, _ = INTERVALS
    np.testing.assert_allclose(ends(student(moved)), shift + scale * ends(student(values)), rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=6), st.integers(-100, 100), st.sampled_from([0.5, 2, 3]))
def test_the_bootstrap_moves_and_stretches_with_the_numbers(values, shift: int, scale: float) -> None:
    _, bootstrap = INTERVALS
    moved = [shift + scale * value for value in values]
    np.testing.assert_allclose(ends(bootstrap(moved)), shift + scale * ends(bootstrap(values)), rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(measured, st.randoms(use_true_random=False))
def test_the_order_of_seeds_and_trials_does_not_matter(values, random) -> None:
    shuffled = [random.sample(trials, len(trials)) for trials in random.sample(values, len(values))]
    for interval in INTERVALS:
        np.testing.assert_allclose(ends(interval(shuffled)), ends(interval(values)), rtol=1e-9, atol=1e-6)


def test_the_bootstrap_depends_on_its_seed_alone() -> None:
    values = [1.0, 2.0, 4.0, 9.0, 3.3]
    assert bootstrap_interval(values, rng_seed=1) == bootstrap_interval(values, rng_seed=1)
    trials = [[1.0, 2.0, 5.5], [4.0, 9.0, 3.3]]
    one, other = (bootstrap_interval(trials, rng_seed=seed, resamples=50) for seed in (1, 2))
    assert one != other


def test_pairing_removes_what_seeds_do_to_both() -> None:
    rng = np.random.default_rng(1)
    luck = rng.normal(0.0, 5.0, 8)
    first = dict(enumerate(luck + 1.0 + rng.normal(0.0, 0.1, 8)))
    second = dict(enumerate(luck + rng.normal(0.0, 0.1, 8)))
    found = paired_difference(first, second)
    alone = student_interval(list(first.values()))
    assert found.seeds == tuple(range(8))
    for interval in (found.student, found.bootstrap):
        assert 0.7 < interval.low < 1.0 < interval.high < 1.3
        assert interval.high - interval.low < (alone.high - alone.low) / 10
    wanted = scipy.stats.ttest_rel(list(first.values()), list(second.values())).confidence_interval(0.95)
    assert (found.student.low, found.student.high) == pytest.approx((wanted.low, wanted.high))


def test_pairs_go_by_seed_not_by_place_and_trials_are_averaged() -> None:
    found = paired_difference({0: [1.0, 3.0], 1: 10.0}, {1: [7.0], 0: 1.0})
    assert found.student.mean == pytest.approx(2.0)
    assert found.seeds == (0, 1)
    swapped = paired_difference({1: [7.0], 0: 1.0}, {0: [1.0, 3.0], 1: 10.0})
    np.testing.assert_allclose(ends(swapped.student), -ends(found.student)[[0, 2, 1]])
    assert found.to_json()["seeds"] == [0, 1]
    assert found.to_json()["student"]["n"] == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: student_interval([]), "at least one seed with at least one number each, got 0 seeds"),
        (lambda: bootstrap_interval([[1.0], []]), "at least one number"),
        (lambda: student_interval([1.0, math.nan]), "finite numbers"),
        (lambda: student_interval([1.0], confidence=1.5), "confidence must lie between 0.0 and 1.0, got 1.5"),
        (lambda: bootstrap_interval([1.0], resamples=0), "resamples must be at least 1, got 0"),
        (lambda: paired_difference({0: 1.0}, {1: 1.0}), "same seeds to be paired, got 0 and 1"),
        (lambda: paired_difference({}, {}), "at least one seed"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
