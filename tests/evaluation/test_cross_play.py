"""Cross-play of hand-made policies: the exact, unsymmetric matrix, never mirrored; and what is said about it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from coverset.envs.matrix import MatrixGame
from coverset.evaluation import summary as measurement
from coverset.evaluation.conventions import (
    convention_shares,
    coverage_set,
    describe_conventions,
    find_members,
    format_shares,
)
from coverset.evaluation.cross_play import constraint_gaps, count_violations, cross_play, label_gaps, off_diagonal_gaps
from coverset.evaluation.summary import measure_population
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population
from coverset.policy import Policy

UNSYMMETRIC = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0))
SYMMETRIC = ((10.0, 1.0, 4.0), (1.0, 6.0, 2.0), (4.0, 2.0, 8.0))
SURE = 1e4


class Constant(Policy):
    """Always the same action."""

    action: Int[Array, "*p"]

    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return self.action, memory


def certain(actions: tuple[int, ...]) -> ActorPolicy:
    """Networks that see one number and always play their action."""
    heads = SURE * jax.nn.one_hot(jnp.array(actions), 3)
    return dense_policy(MLP((jnp.zeros((len(actions), 1, 3)),), (heads,)))


def test_rows_are_seat_0_and_columns_seat_1() -> None:
    first, second = Constant(jnp.array([2, 0])), Constant(jnp.array([1, 2, 0]))
    played = cross_play(jax.random.key(0), MatrixGame(UNSYMMETRIC), first, second, trials=2, episodes=3)
    assert played.returns.shape == (2, 3, 2, 3)
    wanted = np.array(UNSYMMETRIC)[np.ix_([2, 0], [1, 2, 0])]
    np.testing.assert_array_equal(played.returns, np.broadcast_to(wanted[:, :, None, None], (2, 3, 2, 3)))
    np.testing.assert_array_equal(played.conventions[1, 2, 0, 0], [0, 0])
    np.testing.assert_array_equal(played.conventions[0, 1, 1, 2], [2, 2])
    np.testing.assert_array_equal(played.conventions[0, 0, 0, 0], [2, 1])


@pytest.fixture(scope="module")
def measured():
    """Both games by the same population, whose best responses and teammates differ."""
    population = Population(certain((0, 1)), certain((0, 2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement, "TRIALS", 4)
        games = {"unsymmetric": MatrixGame(UNSYMMETRIC), "symmetric": MatrixGame(SYMMETRIC)}
        return {
            name: measure_population(jax.random.key(0), game, population, margin=0.5, discount=0.9)
            for name, game in games.items()
        }


def test_the_matrix_of_a_population_is_not_mirrored(measured) -> None:
    assert measured["unsymmetric"]["cross_play"] == [[1.0, 3.0], [4.0, 6.0]]
    assert measured["symmetric"]["cross_play"] == [[10.0, 4.0], [1.0, 2.0]]
    assert measured["symmetric"]["cross_play_standard_error"] == [[0.0, 0.0], [0.0, 0.0]]


def test_seats_are_swapped_only_where_they_are_alike_and_rows_stay_best_responses(measured) -> None:
    assert measured["unsymmetric"]["cross_play_seats_swapped"] is None
    assert measured["symmetric"]["cross_play_seats_swapped"] == [[10.0, 4.0], [1.0, 2.0]]


def test_constraints_follow_from_the_matrix(measured) -> None:
    """R = [[10, 4], [1, 2]]: the second best response does better with nobody; teammate 2 has a better partner."""
    summary = measured["symmetric"]
    assert summary["gaps"]["other_best_response"] == [[None, 8.5], [-2.5, None]]
    assert summary["gaps"]["other_teammate"] == [[None, 5.5], [0.5, None]]
    assert (summary["constraints_violated"], summary["constraints_satisfied"]) == (1, False)
    assert summary["margin"] == 0.5


def test_conventions_tell_what_each_member_does_and_covers(measured) -> None:
    """Action 2 is not the answer to a teammate that plays action 3, so the second pair covers nothing."""
    summary = measured["symmetric"]
    assert summary["conventions"] == ["action 1 100%", "action 3 100%"]
    assert summary["best_response_conventions"] == ["action 1 100%", "action 2 100%"]
    assert summary["covers"] == ["action 1", None]
    assert summary["coverage_found"] == 1


def test_gaps_equal_a_loop() -> None:
    returns = np.random.default_rng(0).normal(size=(3, 3))
    first, second = constraint_gaps(returns, 0.25)
    for i, j in np.ndindex(3, 3):
        if i == j:
            assert np.isnan(first[i, j])
            assert np.isnan(second[i, j])
        else:
            assert first[i, j] == pytest.approx(returns[i, i] - returns[j, i] - 0.25)
            assert second[i, j] == pytest.approx(returns[i, i] - returns[i, j] - 0.25)
    assert label_gaps(np.array([[2.0, 0.0], [1.0, 5.0]]), 0.5) == {
        "other_best_response": [[None, 0.5], [4.5, None]],
        "other_teammate": [[None, 1.5], [3.5, None]],
    }


def test_shares_and_words() -> None:
    shares = convention_shares(np.array([[0, 0, 2, 3], [1, 1, 1, 1]]), 3)
    np.testing.assert_array_equal(shares, [[0.5, 0, 0.25, 0.25], [0, 1, 0, 0]])
    assert format_shares(MatrixGame(), shares[0]) == "action 1 50%, action 3 25%, no convention 25%"


def test_a_count_memberss_when_it_is_followed_mostly_and_answers_its_teammate() -> None:
    own = np.array([[0.6, 0.4, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.1, 0.9], [0.9, 0.1, 0, 0]])
    partner = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 0, 1.0, 0], [0, 1.0, 0, 0]])
    assert find_members(MatrixGame(), own, partner) == [0, None, None, None]


def test_constant_payoffs_have_one_member_which_everybody_holds() -> None:
    game = MatrixGame(payoffs=((3.0, 3.0), (3.0, 3.0)))
    anyhow = np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]])
    told = describe_conventions(game, anyhow, anyhow[::-1])
    assert (told["coverage_found"], told["coverage_size"]) == (1, 1)
    assert told["covers"] == ["action 1", "action 1"]


@pytest.mark.parametrize(
    ("payoffs", "needed"), [(((16777217.0, 0.0), (16777216.0, 1.0)), (1,)), (((1e-46, 0.0), (0.0, 1e-46)), (0,))]
)
def test_coverage_is_that_of_payoffs_as_they_are_played(payoffs, needed) -> None:
    assert coverage_set(MatrixGame(payoffs=payoffs)) == needed


def test_small_payoffs_are_told_apart() -> None:
    game = MatrixGame(payoffs=((1e-12, 0.0), (0.0, 1e-12)))
    assert find_members(game, np.eye(3)[:2], np.eye(3)[:2]) == [0, 1]
    assert find_members(game, np.eye(3)[:2], np.eye(3)[1::-1]) == [None, None]


def test_a_gap_that_is_not_a_number_is_a_violation() -> None:
    gaps = constraint_gaps(np.array([[2.0, np.nan], [1.0, 5.0]]), 0.5)
    assert count_violations(gaps) == 2
    assert count_violations(constraint_gaps(np.array([[2.0, 1.0], [1.0, 5.0]]), 0.5)) == 0
    assert np.isnan(off_diagonal_gaps(gaps)).sum() == 2


def test_dominated_and_duplicate_conventions_are_no_members_of_their_own() -> None:
    """Row 1 earns the same as row 0, row 2 always less than it: one member is needed, and rows 0 and 1 both hold it."""
    game = MatrixGame(payoffs=((2.0, 2.0, 2.0), (2.0, 2.0, 2.0), (1.0, 1.0, 0.0)))
    own = np.eye(4)[:3]
    partner = np.eye(4)[:3]
    assert find_members(game, own, partner) == [0, 0, None]
    told = describe_conventions(game, own, partner)
    assert (told["coverage_found"], told["coverage_size"]) == (1, 1)
    assert told["covers"] == ["action 1", "action 1", None]
