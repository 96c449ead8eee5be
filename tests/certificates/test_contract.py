"""What an exact solution rests on: games that break it are refused, games that keep it oddly are solved right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.certificates.odd_games import CALLS, REFUSED, RIGHT, Huge, Lamps, Moody

from coverset.certificates.certificate import certify
from coverset.certificates.contract import check_resets, find_step_counter, read_program
from coverset.certificates.finite import action_probabilities, enumerate_game, evaluate_pair
from coverset.envs import registry
from coverset.evaluation.cross_play import cross_play
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population

BATCHES, TRIALS = 40, 512
ROUNDING = 1e-5
"""What float32 sums of an episode may be off by, where returns do not vary."""


def population(environment, size: int = 2) -> Population:
    def policies(seat: int) -> ActorPolicy:
        sizes = (environment.observation_size, 4, environment.num_actions[seat])
        keys = jax.random.split(jax.random.key(seat), size)
        return dense_policy(jax.vmap(lambda key: MLP.create(key, sizes, head_scale=3.0))(keys))

    return Population(policies(0), policies(1))


def name_of(value) -> str:
    return f"{type(value).__name__}" if hasattr(value, "horizon") else ""


@pytest.mark.parametrize(("environment", "message"), REFUSED, ids=name_of)
def test_games_that_break_the_contract_are_refused(environment, message) -> None:
    with pytest.raises(ValueError, match=f"{type(environment).__name__} cannot be enumerated: .*{message}") as caught:
        enumerate_game(environment)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("environment", "states"), RIGHT, ids=name_of)
def test_time_is_in_the_state_where_it_matters(environment, states) -> None:
    assert enumerate_game(environment).num_states == states


def solved_returns(environment, pairs: Population) -> np.ndarray:
    """Exact undiscounted return of every pair."""
    game = enumerate_game(environment)
    first, second = (action_probabilities(policies, game, seat=seat) for seat, policies in enumerate(pairs))
    return np.array([[evaluate_pair(game, row, column, discount=0.9).returns for column in second] for row in first])


def simulate(key, environment, pairs: Population, batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean return of every pair over `batches * TRIALS` episodes, and its standard error."""
    played = [
        np.asarray(cross_play(batch, environment, *pairs, trials=TRIALS, discount=0.9).returns, np.float64)[..., 0]
        for batch in jax.random.split(key, batches)
    ]
    sample = np.concatenate(played, axis=-1)
    return sample.mean(axis=-1), sample.std(axis=-1) / sample.shape[-1] ** 0.5


def find_wrong(environment, pairs: Population, exact: np.ndarray, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Which pairs' exact returns are beyond three standard errors of what was simulated.

    Among the 52 pairs of this file, one is beyond by chance with a probability of up to 0.13. A pair that is beyond is
    simulated again, independently and with ten times the episodes, and must then be within three standard errors.
    """
    beyond = np.abs(mean - exact) > 3 * error + ROUNDING
    if beyond.any():
        mean, error = simulate(jax.random.key(4), environment, pairs, 10 * BATCHES)
        beyond &= np.abs(mean - exact) > 3 * error + ROUNDING
    return beyond


@pytest.mark.slow
@pytest.mark.parametrize("environment", [environment for environment, _ in RIGHT], ids=name_of)
def test_certified_returns_are_those_of_a_long_simulation(environment) -> None:
    pairs = population(environment)
    exact = solved_returns(environment, pairs)
    mean, error = simulate(jax.random.key(3), environment, pairs, BATCHES)
    assert not find_wrong(environment, pairs, exact, mean, error).any()
    assert abs((mean - exact).mean()) <= 3 * np.sqrt((error**2).mean() / error.size) + ROUNDING
    certificate = certify(environment, pairs, margin=0.1, discount=0.9, trials=5)
    assert np.allclose(certificate.undiscounted.pair_returns, exact)


@pytest.mark.slow
def test_a_second_simulation_tells_a_wrong_return_from_chance() -> None:
    pairs = population(Lamps())
    exact = solved_returns(Lamps(), pairs)
    mean, error = simulate(jax.random.key(3), Lamps(), pairs, BATCHES)
    off = np.array([[0.0, 4.0], [0.0, 0.0]]) * error
    assert np.array_equal(find_wrong(Lamps(), pairs, exact + off, mean, error), off > 0)
    assert not find_wrong(Lamps(), pairs, exact, exact + off, error).any()


def test_play_that_does_not_fit_is_refused() -> None:
    CALLS.clear()
    with pytest.raises(ValueError, match=r"Moody cannot be certified: the returns of best response 0 .* simulated"):
        certify(Moody(), population(Moody()), margin=0.1, discount=0.9, trials=1)


def test_returns_beyond_float32_are_refused() -> None:
    with pytest.raises(ValueError, match="simulated episodes give inf"):
        certify(Huge(), population(Huge()), margin=0.1, discount=1.0, trials=1)


@pytest.mark.parametrize("name", ["matrix", "reaching", "weighted-reaching", "foraging"])
def test_step_counters_of_built_in_games(name) -> None:
    environment = registry.make(name)
    states, _ = environment.initial_states()
    counter = find_step_counter(read_program(environment), states, environment.horizon)
    assert counter is not None
    assert [environment.reset(jax.random.key(0))._fields[leaf] for leaf in counter.leaves] == ["time"]
    assert [int(value) for value in counter.last] == [environment.horizon - 1]


def test_a_correct_reset_of_many_states_passes() -> None:
    class Many(Lamps):
        def reset(self, key):
            return self.pack(jax.random.randint(key, (), 0, 3000), jnp.int32(0))

    states = jax.vmap(Many().pack)(jnp.arange(3000), jnp.zeros(3000, jnp.int32))
    check_resets(Many(), states, np.full(3000, 1 / 3000))
    skewed = np.linspace(0.8, 1.2, 3000) / 3000
    with pytest.raises(ValueError, match="list the probabilities with which reset draws"):
        check_resets(Many(), states, skewed)
