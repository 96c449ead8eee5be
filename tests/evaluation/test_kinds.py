"""Kinds of teammates: solved cases, a slow search, and what must not depend on numbering."""

import itertools

import jax
import numpy as np
import pytest

import coverset
import toy_run
from coverset.envs.matrix import PAPER_PAYOFFS
from coverset.evaluation.cross_play import constraint_gaps
from coverset.evaluation.kinds import assign_kinds, describe_kinds, find_served, smallest_cover

PAPER = np.array(PAPER_PAYOFFS)


def test_the_papers_matrix_game_has_three_kinds() -> None:
    described = describe_kinds(PAPER, margin=1.0)
    assert described["conventions"] == ["kind A", "kind B", "kind C"]
    assert described["covers"] == ["kind A", "kind B", "kind C"]
    assert described["best_response_conventions"] == ["serves kind A", "serves kind B", "serves kind C"]
    assert (described["coverage_found"], described["coverage_size"]) == (3, None)


def test_a_convention_trained_twice_is_one_kind() -> None:
    twice = PAPER[np.ix_([0, 1, 0], [0, 1, 0])]
    described = describe_kinds(twice, margin=1.0)
    assert described["conventions"] == ["kind A", "kind B", "kind A, like teammate 1"]
    assert described["coverage_found"] == 2
    assert described["covers"].count(None) == 1
    assert described["best_response_conventions"] == ["serves kind A", "serves kind B", "serves kind A"]


def test_a_noisy_copy_pays_less_but_asks_for_the_same_best_response() -> None:
    """Teammate 2 is teammate 1 with slips: everybody earns 3 less with it."""
    described = describe_kinds(np.array([[10.0, 7.0], [10.0, 7.0]]), margin=1.0)
    assert described["conventions"] == ["kind A", "kind A, like teammate 1"]


def test_a_pair_that_learned_nothing_adds_no_kind() -> None:
    described = describe_kinds(np.array([[10.0, 1.0], [2.0, 0.5]]), margin=0.2)
    assert described["coverage_found"] == 1
    assert described["covers"] == ["kind A", None]
    assert described["best_response_conventions"] == ["serves kind A", "serves no kind"]


def test_the_margin_is_the_tolerance() -> None:
    returns = np.array([[1.0, 0.6], [0.6, 1.0]])
    assert describe_kinds(returns, margin=0.3)["coverage_found"] == 2
    assert describe_kinds(returns, margin=0.4)["coverage_found"] == 2, "a gap of exactly the margin is enough"
    assert describe_kinds(returns, margin=0.5)["coverage_found"] == 1


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_the_cover_is_as_small_as_a_search_through_all_sets_finds(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(20):
        returns = random.normal(size=(size, size)) + 1.5 * np.eye(size)
        serving = find_served(returns, 0.5)
        sets = itertools.chain.from_iterable(itertools.combinations(range(size), n) for n in range(1, size + 1))
        smallest = next(len(chosen) for chosen in sets if serving[list(chosen)].any(axis=0).all())
        cover = smallest_cover(returns, 0.5)
        assert len(cover) == smallest
        assert serving[cover].any(axis=0).all()
        assert set(assign_kinds(returns, 0.5)) == set(cover), "a cover has no idle member"


def test_satisfied_constraints_mean_that_every_teammate_is_a_kind_of_its_own() -> None:
    random = np.random.default_rng(0)
    satisfied = 0
    for _ in range(200):
        returns = random.uniform(size=(3, 3)) + np.eye(3)
        if np.nanmin(constraint_gaps(returns, 0.3)) >= 0:
            satisfied += 1
            assert describe_kinds(returns, 0.3)["coverage_found"] == 3
    assert satisfied > 20


def test_renumbering_the_pairs_renumbers_the_kinds() -> None:
    returns = np.random.default_rng(3).normal(size=(5, 5)) + 2 * np.eye(5)
    order = np.array([3, 0, 4, 1, 2])
    there = assign_kinds(returns, 0.4)
    again = assign_kinds(returns[np.ix_(order, order)], 0.4)
    assert [int(order[member]) for member in again] == [there[pair] for pair in order]


@pytest.mark.slow
def test_foraging_with_random_objects_is_told_by_kinds(tmp_path) -> None:
    parameters = {"objects": "random", "num_objects": 1, "size": 4, "horizon": 4}
    (summary,) = coverset.generate(
        "foraging", env_parameters=parameters, out=tmp_path, minibatches=1, **toy_run.SETTINGS
    )
    assert summary["coverage_size"] is None
    assert summary["coverage_found"] == len({words.split(":")[0] for words in summary["conventions"]}) >= 1
    assert len(summary["conventions"]) == len(summary["covers"]) == 2
    assert jax.tree.all([words.startswith("kind ") for words in summary["conventions"]])
