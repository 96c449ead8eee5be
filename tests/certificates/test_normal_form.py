"""Normal forms of small finite games, and exact coverage regrets of networks in them."""

import numpy as np
import pytest

from coverset.certificates.finite import enumerate_game
from coverset.certificates.normal_form import make_normal_form, observations_recur
from coverset.certificates.served import certify_regret
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from toy_run import constant_policies

GAME = MatrixGame()


def test_the_normal_form_of_a_matrix_game_is_its_table() -> None:
    np.testing.assert_allclose(make_normal_form(enumerate_game(GAME)).payoffs, GAME.payoffs)


def test_the_regret_of_networks_is_exact() -> None:
    members, teammate = constant_policies(GAME, 0, (0, 1)), constant_policies(GAME, 1, (2,))
    found = certify_regret(GAME, members, teammate)
    assert found.over_all == pytest.approx((2.0, 2.0))
    assert found.with_teammate == pytest.approx((2.0, 2.0))
    assert found.because is None


def test_games_in_which_observations_recur_have_no_normal_form_but_exact_regrets_with_a_teammate() -> None:
    game = Reaching(size=3, horizon=6)
    assert observations_recur(enumerate_game(game), 0)
    waiting = constant_policies(game, 1, (0,))
    found = certify_regret(game, constant_policies(game, 0, (0, 1)), waiting)
    assert found.over_all is None
    assert found.because is not None
    assert "twice" in found.because
    assert found.with_teammate == pytest.approx((0.0, 0.0)), "with a teammate that stays nobody meets on a corner"


def test_a_game_without_listed_initial_states_says_so() -> None:
    from coverset.envs.signalling import Signalling

    game = Signalling()
    found = certify_regret(game, constant_policies(game, 0, (0,)), constant_policies(game, 1, (0,)))
    assert (found.over_all, found.with_teammate) == (None, None)
    assert found.because is not None
    assert "Signalling" in found.because
