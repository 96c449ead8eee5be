"""Certificates against payoff arithmetic and long simulations."""

import doctest
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.certificates.certificate import certify
from coverset.envs.matrix import PAPER_PAYOFFS, MatrixGame
from coverset.envs.reaching import Reaching
from coverset.evaluation.cross_play import cross_play
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population
from picking import Picking

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "certificates.md"
SURE = 60.0
"""A logit that leaves nothing to chance."""


def playing(*actions: int, num_actions: int = 3) -> ActorPolicy:
    """Members of a matrix game's population that always play one action."""
    weights = SURE * jax.nn.one_hot(jnp.array(actions), num_actions)[:, None]
    return dense_policy(MLP(weights=(weights,), biases=(jnp.zeros((len(actions), num_actions)),)))


def random_population(environment, size: int) -> Population:
    def policies(seed: int, seat: int) -> ActorPolicy:
        sizes = (environment.observation_size, 8, environment.num_actions[seat])
        keys = jax.random.split(jax.random.key(seed), size)
        return dense_policy(jax.vmap(lambda key: MLP.create(key, sizes, head_scale=4.0))(keys))

    return Population(policies(0, 0), policies(1, 1))


def test_the_coverage_set_of_the_matrix_game() -> None:
    certificate = certify(MatrixGame(), Population(playing(0, 1, 2), playing(0, 1, 2)), margin=1.0, discount=0.99)
    content = certificate.to_json()
    assert np.allclose(certificate.discounted.pair_returns, PAPER_PAYOFFS)
    assert content["undiscounted"]["pair_returns"] == content["discounted"]["pair_returns"]
    # The nearest rival pair is (3, 2) or (2, 3): 6 - 4 - 1.
    assert np.isclose(content["smallest_gap"], 1.0)
    assert content["constraints_satisfied"]
    assert (content["constraints"], content["coverage_found"], content["coverage_size"]) == (12, 3, 3)
    for member, best in enumerate(content["discounted"]["best_responses"]):
        assert np.isclose(best["own"], PAPER_PAYOFFS[member][member])
        assert best["blind"]["exact"]
        assert np.isclose(best["observed"], best["blind"]["upper"])
        assert best["regret_blind"]["upper"] < 1e-9


def test_a_wrong_best_response_has_its_regret_and_breaks_constraints() -> None:
    certificate = certify(MatrixGame(), Population(playing(0, 2), playing(0, 1)), margin=1.0, discount=0.99)
    content = certificate.to_json()
    # Returns are [[10, 0], [4, 4]]: teammate 2 deserves 6 and gets 4; response 2 earns as much with teammate 1.
    assert np.allclose(content["discounted"]["pair_returns"], [[10, 0], [4, 4]])
    best = content["discounted"]["best_responses"][1]
    assert np.isclose(best["regret_observed"], 2.0)
    assert np.isclose(best["regret_blind"]["lower"], 2.0)
    assert content["constraints_violated"] == 1
    assert not content["constraints_satisfied"]
    assert content["gaps"]["other_teammate"] == [[None, 9.0], [-1.0, None]]
    assert content["gaps"]["other_best_response"] == [[None, 5.0], [3.0, None]]


def test_both_readings_agree_with_long_simulations() -> None:
    environment, trials = Reaching(size=4, horizon=10), 4000
    population = random_population(environment, 2)
    certificate = certify(environment, population, margin=0.1, discount=0.9, trials=10)
    played = cross_play(jax.random.key(2), environment, *population, trials=trials, discount=0.9)
    for field, exact in (
        ("returns", certificate.undiscounted.pair_returns),
        ("discounted_returns", certificate.discounted.pair_returns),
        ("length", certificate.lengths),
    ):
        sample = np.asarray(getattr(played, field), np.float64)[..., 0]
        assert np.all(np.abs(sample.mean(-1) - exact) < 5 * (sample.std(-1) / trials**0.5 + 1e-3)), field


def test_no_member_beats_a_best_response() -> None:
    environment = Reaching(size=3, horizon=8)
    certificate = certify(environment, random_population(environment, 3), margin=0.1, discount=0.9, trials=10)
    for reading in (certificate.discounted, certificate.undiscounted):
        for teammate, best in enumerate(reading.best_responses):
            assert reading.pair_returns[:, teammate].max() <= best.blind.lower + 1e-12
            assert best.blind.lower <= best.blind.upper <= best.observed + 1e-12


def test_nothing_is_said_of_policies_that_are_not_numbers() -> None:
    broken = jax.tree.map(lambda x: x.at[0].set(jnp.nan), playing(0, 1))
    for population in (Population(broken, playing(0, 1)), Population(playing(0, 1), broken)):
        with pytest.raises(ValueError, match="must compute finite numbers, but member 1 computes nan"):
            certify(MatrixGame(), population, margin=1.0, discount=0.99)


def test_a_gap_that_is_not_a_number_violates_its_constraint() -> None:
    certificate = certify(MatrixGame(), Population(playing(0, 1), playing(0, 1)), margin=1.0, discount=0.99)
    assert certificate.constraints_violated == 0
    returns = certificate.discounted.pair_returns.copy()
    returns[0, 1] = np.nan
    doubtful = replace(certificate, discounted=replace(certificate.discounted, pair_returns=returns))
    content = doubtful.to_json()
    assert (content["constraints"], content["constraints_violated"]) == (4, 2)
    assert not content["constraints_satisfied"]
    assert np.isnan(content["smallest_gap"])


def test_the_simulation_is_part_of_the_certificate() -> None:
    population = Population(playing(0, 2), playing(0, 1))
    simulation = certify(MatrixGame(), population, margin=1.0, discount=0.99).to_json()["simulation"]
    assert simulation["episodes"] == 4096
    assert simulation["returns"] == {"mean": [[10.0, 0.0], [4.0, 4.0]], "standard_error": [[0.0, 0.0], [0.0, 0.0]]}
    assert simulation["length"]["mean"] == [[1.0, 1.0], [1.0, 1.0]]


def test_rare_events_do_not_look_like_disagreement() -> None:
    """A tenth of an occurrence is expected in all episodes: none is seen, and the standard error is 0."""
    rarely = dense_policy(MLP((jnp.array([[[0.0, -10.6, -60.0]]] * 2),), (jnp.zeros((2, 3)),)))
    environment = MatrixGame(payoffs=((0.0, 0.0, 0.0), (1000.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
    certificate = certify(environment, Population(rarely, playing(0, 0)), margin=0.0, discount=0.9)
    assert np.isclose(certificate.undiscounted.pair_returns[0, 0], 1000 * np.exp(-10.6), rtol=1e-3)


def test_one_pair_has_no_constraints() -> None:
    content = certify(MatrixGame(), Population(playing(0), playing(0)), margin=1.0, discount=0.9).to_json()
    assert (content["constraints"], content["smallest_gap"]) == (0, None)


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"margin": -1.0}, "margin"), ({"discount": 1.5}, "discount"), ({"trials": -1}, "trials")],
)
def test_bad_settings_are_refused(setting, message) -> None:
    settings = {"margin": 1.0, "discount": 0.9, **setting}
    with pytest.raises(ValueError, match=message):
        certify(MatrixGame(), Population(playing(0), playing(0)), **settings)


def test_page() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_where_seats_have_rewards_of_their_own_the_egos_count() -> None:
    mine, theirs = ((3.0, 0.0), (1.0, 2.0)), ((-1.0, 5.0), (4.0, -2.0))
    game = MatrixGame(payoffs=(mine, theirs), by_player=True)
    population = Population(playing(0, 1, num_actions=2), playing(0, 1, num_actions=2))
    certificate = certify(game, population, margin=1.0, discount=0.99)
    assert np.allclose(certificate.discounted.pair_returns, mine)
    assert [best.observed for best in certificate.discounted.best_responses] == pytest.approx([3.0, 2.0])


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (Reaching(players=3), "Reaching cannot be solved exactly: certificates exist for two players, and it has 3"),
        (Picking(players=2), "Picking cannot be solved exactly: certificates exist for games whose actions are always"),
    ],
)
def test_games_that_have_no_certificate_are_named(game, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify(game, random_population(game, 2), margin=1.0, discount=0.99)
