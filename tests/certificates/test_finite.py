"""Tables of finite games against the environments, dynamic programming against arithmetic and brute force."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.certificates.blind import blind_value
from coverset.certificates.finite import FiniteGame, action_probabilities, build_response, enumerate_game, evaluate_pair
from coverset.envs import registry
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import PAPER_PAYOFFS, MatrixGame
from coverset.envs.reaching import WEIGHTED, Reaching
from coverset.evaluation.cross_play import cross_play
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.types import Outcome

SMALL = {
    "matrix": MatrixGame(),
    "rounds": MatrixGame(payoffs=((1.0, 2.0, 0.0), (3.0, 0.0, -1.0)), horizon=4),
    "reaching": Reaching(horizon=12),
    "weighted": Reaching(payoffs=WEIGHTED, ends_apart=True, horizon=12, encoding="coordinates"),
    "foraging": Foraging(size=4, cells=((1, 1),), num_objects=1, horizon=9),
}
TRIALS = 3000
SIGMAS = 5.0


def networks(environment, seat: int, *, count: int = 2, scale: float = 3.0) -> ActorPolicy:
    sizes = (environment.observation_size, 8, environment.num_actions[seat])
    keys = jax.random.split(jax.random.key(seat), count)
    return dense_policy(jax.vmap(lambda key: MLP.create(key, sizes, head_scale=scale))(keys))


@pytest.mark.parametrize("name", SMALL)
def test_initial_distribution_is_that_of_reset(name) -> None:
    environment = SMALL[name]
    states, probabilities = environment.initial_states()
    assert np.isclose(probabilities.sum(), 1.0)
    known = {tuple(row) for row in _rows(states)}
    assert len(known) == len(probabilities)
    draws = _rows(jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), 200 * len(known))))
    found, counts = np.unique(draws, axis=0, return_counts=True)
    assert {tuple(row) for row in found} == known
    assert np.all(np.abs(counts - 200) < SIGMAS * 200**0.5 + 1e-9)


def _rows(states) -> np.ndarray:
    leaves = jax.tree.leaves(states)
    return np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in leaves], axis=1)


def test_counts_by_hand() -> None:
    matrix = enumerate_game(MatrixGame())
    assert (matrix.num_states, int(matrix.live.sum())) == (10, 1)
    reaching = enumerate_game(Reaching())
    assert (reaching.num_states, int(reaching.live.sum()), len(reaching.observations)) == (625, 621, 25)
    weighted = enumerate_game(registry.make("weighted-reaching"))
    assert (weighted.num_states, int(weighted.live.sum())) == (625, 609)
    # One object on 4 x 4: 15 x 14 ways to stand while it is there, 4 x 3 to have loaded it.
    foraging = enumerate_game(SMALL["foraging"])
    assert (foraging.num_states, int(foraging.live.sum())) == (15 * 14 + 4 * 3, 15 * 14)


@pytest.mark.parametrize("name", SMALL)
def test_exact_values_agree_with_simulation(name) -> None:
    environment = SMALL[name]
    first, second = networks(environment, 0), networks(environment, 1)
    game = enumerate_game(environment)
    rows, columns = action_probabilities(first, game, seat=0), action_probabilities(second, game, seat=1)
    played = cross_play(jax.random.key(5), environment, first, second, trials=TRIALS, discount=0.9)
    for i, j in itertools.product(range(2), range(2)):
        exact = evaluate_pair(game, rows[i], columns[j], discount=0.9)
        for field in ("returns", "discounted_returns", "length"):
            sample = np.asarray(getattr(played, field), np.float64)[i, j, :, 0]
            error = sample.std() / TRIALS**0.5 + 2e-3
            assert abs(sample.mean() - getattr(exact, field)) < SIGMAS * error, (field, i, j)
        for seat in (0, 1):
            followed = np.asarray(played.conventions)[i, j, :, 0, seat]
            shares = np.bincount(followed, minlength=game.num_conventions + 1) / TRIALS
            assert np.isclose(exact.conventions[seat].sum(), 1.0)
            assert np.abs(shares - exact.conventions[seat]).max() < SIGMAS * (0.5 / TRIALS**0.5)
        # Forward and backward recursions are two ways to one number.
        backward = build_response(game, columns[j]).evaluate_policy(rows[i], 0.9)[0]
        assert np.isclose(game.initial @ backward, exact.discounted_returns)


def test_matrix_values_are_payoff_arithmetic() -> None:
    game = enumerate_game(MatrixGame())
    payoffs = np.array(PAPER_PAYOFFS)
    mine, theirs = np.array([[0.2, 0.5, 0.3]]), np.array([[0.1, 0.6, 0.3]])
    value = evaluate_pair(game, mine, theirs, discount=0.5)
    assert np.isclose(value.returns, mine[0] @ payoffs @ theirs[0])
    assert value.returns == value.discounted_returns
    assert np.allclose(value.conventions, [[0.2, 0.5, 0.3, 0.0], [0.1, 0.6, 0.3, 0.0]])
    task = build_response(game, theirs)
    best = (payoffs @ theirs[0]).max()
    assert np.isclose(task.solve_observed(1.0)[0] @ game.initial, best)
    bounds = blind_value(task, mine[None], discount=1.0)
    assert bounds.exact
    assert np.isclose(bounds.lower, best)
    assert np.isclose(bounds.upper, best)


def test_rounds_are_discounted_from_the_first() -> None:
    game = enumerate_game(MatrixGame(payoffs=((1.0,), (2.0,)), horizon=3))
    task = build_response(game, np.ones((1, 1)))
    assert np.isclose(task.solve_observed(0.5)[0] @ game.initial, 2 * (1 + 0.5 + 0.25))
    bounds = blind_value(task, np.array([[[0.5, 0.5]]]), discount=0.5)
    assert bounds.exact
    assert np.isclose(bounds.lower, 3.5)


def open_loop_value(game: FiniteGame, task, discount: float) -> float:
    """The best plan from each start, by trying all: in reaching, own observations tell nothing but own moves."""
    actions, total = task.rewards.shape[1], 0.0
    matrices = [task.transitions[np.arange(game.num_states) * actions + a].toarray() for a in range(actions)]
    for view in np.unique(game.observed[game.initial > 0, 0]):
        beliefs = np.where(game.observed[:, 0] == view, game.initial, 0.0)[None]
        earned = np.zeros(1)
        for time in range(game.horizon):
            earned = np.concatenate([earned + discount**time * (beliefs @ task.rewards[:, a]) for a in range(actions)])
            beliefs = np.concatenate([beliefs @ matrix for matrix in matrices])
        total += earned.max()
    return total


@pytest.mark.parametrize("discount", [0.8, 1.0])
@pytest.mark.parametrize(
    "environment",
    [
        Reaching(size=3, horizon=6),
        Reaching(size=3, horizon=6, payoffs=WEIGHTED, ends_apart=True),
        Reaching(size=4, horizon=5, payoffs=tuple(tuple(x - 5 for x in row) for row in WEIGHTED), ends_apart=True),
    ],
)
def test_blind_value_is_that_of_the_best_plan(environment, discount) -> None:
    game = enumerate_game(environment)
    first = action_probabilities(networks(environment, 0), game, seat=0)
    for teammate in action_probabilities(networks(environment, 1), game, seat=1):
        task = build_response(game, teammate)
        best = open_loop_value(game, task, discount)
        bounds = blind_value(task, first, discount=discount, trials=500)
        assert bounds.exact
        assert bounds.lower <= best + 1e-9
        assert bounds.upper >= best - 1e-9
        early = blind_value(task, first, discount=discount, trials=3)
        assert early.lower - 1e-9 <= best <= early.upper + 1e-9
        observed = game.initial @ task.solve_observed(discount)[0]
        assert best <= observed + 1e-9
        assert all(best >= game.initial @ task.evaluate_policy(policy, discount)[0] - 1e-9 for policy in first)


def test_blind_and_observed_coincide_when_the_teammate_is_seen() -> None:
    environment = Reaching(size=3, horizon=4, sees_teammate=True)
    game = enumerate_game(environment)
    task = build_response(game, action_probabilities(networks(environment, 1), game, seat=1)[0])
    bounds = blind_value(task, action_probabilities(networks(environment, 0), game, seat=0), discount=0.9, trials=0)
    assert bounds.exact
    assert bounds.lower == bounds.upper == float(game.initial @ task.solve_observed(0.9)[0])


def test_observations_of_the_partner_are_used() -> None:
    """Foraging: bumping into the partner, or an object gone, tells where it is. The bounds hold around every member."""
    environment = SMALL["foraging"]
    game = enumerate_game(environment)
    first = action_probabilities(networks(environment, 0), game, seat=0)
    task = build_response(game, action_probabilities(networks(environment, 1), game, seat=1)[0])
    bounds = blind_value(task, first, discount=0.95, trials=30)
    assert max(game.initial @ task.evaluate_policy(policy, 0.95)[0] for policy in first) <= bounds.lower + 1e-12
    assert bounds.lower <= bounds.upper <= game.initial @ task.solve_observed(0.95)[0] + 1e-12


def test_known_way_to_a_corner() -> None:
    """A teammate that walks up and left and stays there: the best response is at A as soon as it can be."""
    environment = Reaching(size=3, horizon=5)
    game = enumerate_game(environment)
    up, left, stay = 1, 3, 0
    teammate = np.zeros((len(game.observations), 5))
    for number, cell in enumerate(game.observations.argmax(axis=1)):
        teammate[number, up if cell >= 3 else left if cell > 0 else stay] = 1.0
    task = build_response(game, teammate)
    bounds = blind_value(task, teammate[None], discount=0.9)
    assert bounds.exact
    assert np.isclose(bounds.lower, 0.9)  # two steps from the centre, the second is paid
    assert np.isclose(bounds.upper, 0.9)
    assert np.isclose(evaluate_pair(game, teammate, teammate, discount=0.9).length, 2.0)


def test_random_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="Foraging cannot be enumerated: its initial_states"):
        enumerate_game(Foraging(objects="random"))


def test_too_many_states_are_refused_with_their_number() -> None:
    with pytest.raises(ValueError, match=r"too many joint states .* were found .* at most 300 are allowed"):
        enumerate_game(Reaching(), max_states=300)


@dataclass(frozen=True)
class Slippery(Reaching):
    """Sometimes actions are swapped."""

    def step(self, key, state, actions) -> Outcome:
        return super().step(key, state, jnp.where(jax.random.bernoulli(key), actions, actions[::-1]))


@dataclass(frozen=True)
class Tiring(Reaching):
    """Late rewards are halved."""

    def step(self, key, state, actions) -> Outcome:
        outcome = super().step(key, state, actions)
        return outcome._replace(reward=outcome.reward * jnp.where(state.time > 1, 0.5, 1.0))


def test_random_steps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"step must be deterministic, but state\.positions, reward, the end of"):
        enumerate_game(Slippery(size=3, horizon=6))


def test_time_that_matters_is_part_of_the_state() -> None:
    environment = Tiring(size=3, horizon=6)
    game = enumerate_game(environment)
    assert game.num_states > enumerate_game(Reaching(size=3, horizon=6)).num_states
    first, second = networks(environment, 0), networks(environment, 1)
    rows, columns = action_probabilities(first, game, seat=0), action_probabilities(second, game, seat=1)
    sample = np.asarray(cross_play(jax.random.key(5), environment, first, second, trials=TRIALS).returns)[0, 0, :, 0]
    exact = evaluate_pair(game, rows[0], columns[0], discount=1.0).returns
    assert abs(sample.mean() - exact) < SIGMAS * sample.std() / TRIALS**0.5
    with pytest.raises(ValueError, match="at most 100 are allowed; they differ by time, because no part of the state"):
        enumerate_game(environment, max_states=100)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_policies_that_compute_no_numbers_are_refused(value) -> None:
    policies = networks(MatrixGame(), 0)
    broken = jax.tree.map(lambda x: x.at[1].set(value), policies)
    with pytest.raises(ValueError, match="policies of seat 0 must compute finite numbers, but member 2 computes"):
        action_probabilities(broken, enumerate_game(MatrixGame()), seat=0)


@pytest.mark.parametrize("payoff", [3e38, -3e38])
def test_rewards_beyond_float32_are_refused(payoff) -> None:
    class Doubled(MatrixGame):
        def step(self, key, state, actions):
            outcome = super().step(key, state, actions)
            return outcome._replace(reward=2 * outcome.reward)

    with pytest.raises(ValueError, match=r"step pays -?inf in a state that can be reached"):
        enumerate_game(Doubled(payoffs=((1.0, payoff), (0.0, 2.0))))


def test_rewards_are_those_that_are_paid() -> None:
    game = enumerate_game(MatrixGame(payoffs=((16777217.0, 1e-46), (16777216.0, 1.0))))
    assert game.reward[game.live].tolist() == [[[16777216.0, 0.0], [16777216.0, 1.0]]]


def test_policies_of_another_game_are_refused() -> None:
    with pytest.raises(ValueError, match="must read 25 numbers and choose among 5 actions"):
        action_probabilities(networks(MatrixGame(), 0), enumerate_game(Reaching()), seat=0)
