"""Two, three and four players in every built-in game: the contract, and that seats are exchangeable."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.base import Environment, autoreset, scene_for
from coverset.envs.conformance import check_environment
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import WEIGHTED, Reaching
from coverset.envs.seats import has_common_reward, perceive
from heuristic_play import stacked_heuristics


def symmetric_table(players: int, *, by_player: bool) -> tuple:
    """Payoffs by the number of players who chose the second action, and, if by player, by the own action."""
    actions = np.indices((2,) * players)
    common = 10.0 * actions.sum(axis=0) ** 2 - 7.0
    return nested(np.stack([common + 3.0 * own for own in actions]) if by_player else common)


def nested(table: np.ndarray) -> tuple:
    return tuple(map(nested, table)) if table.ndim > 1 else tuple(table.tolist())


def games(players: int) -> dict[str, Environment]:
    return {
        "matrix": MatrixGame(payoffs=symmetric_table(players, by_player=False), horizon=2),
        "matrix by player": MatrixGame(payoffs=symmetric_table(players, by_player=True), by_player=True),
        "reaching": Reaching(players=players, horizon=20),
        "weighted, seen": Reaching(WEIGHTED, ends_apart=True, players=players, horizon=20, size=3, sees_teammate=True),
        "foraging": Foraging(players=players, horizon=20),
        "foraging, seen": Foraging(
            players=players, needed=2, size=5, objects="random", horizon=20, sees_teammate=True, encoding="coordinates"
        ),
    }


ALL = {f"{name} of {players}": game for players in (2, 3, 4) for name, game in games(players).items()}
everywhere = pytest.mark.parametrize("environment", ALL.values(), ids=ALL)


@everywhere
def test_games_of_two_three_and_four_conform(environment: Environment) -> None:
    check_environment(environment, quick=environment.num_seats != 3)
    assert environment.seats_alike
    assert has_common_reward(environment) != getattr(environment, "by_player", False)


def random_steps(environment: Environment, key) -> tuple:
    """States, actions and outcomes of 40 random steps."""

    def step(state, key):
        actions_key, reset_key = jax.random.split(key)
        actions = jax.random.randint(actions_key, (environment.num_seats,), 0, environment.num_actions[0])
        outcome = environment.step(key, state, actions)
        return autoreset(outcome, environment.reset(reset_key)), (state, actions, outcome)

    return jax.lax.scan(step, environment.reset(key), jax.random.split(key, 40))[1]


def exchange(state, order):
    """The state in which seat s holds what seat `order[s]` held."""
    fields = {name: getattr(state, name)[order] for name in ("positions", "actions") if name in state._fields}
    return state._replace(**fields)


@everywhere
def test_exchanged_seats_lead_to_the_exchanged_outcome(environment: Environment) -> None:
    """For every permutation, in states of random play: rewards, positions and conventions; the rest stays the same."""
    keys = jax.random.split(jax.random.key(0), 20)
    states, actions, outcomes = jax.jit(jax.vmap(partial(random_steps, environment)))(keys)
    states, actions, outcomes = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (states, actions, outcomes))
    step = jax.jit(jax.vmap(environment.step, (None, 0, 0)))
    conventions = jax.jit(
        jax.vmap(
            lambda state: jnp.stack([environment.convention(state, seat) for seat in range(environment.num_seats)])
        )
    )
    for order in map(jnp.array, itertools.permutations(range(environment.num_seats))):
        swap = jax.vmap(partial(exchange, order=order))
        found = step(keys[0], swap(states), actions[:, order])
        common = outcomes.reward.ndim == 1
        expected = outcomes._replace(
            state=swap(outcomes.state), reward=outcomes.reward if common else outcomes.reward[:, order]
        )
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        np.testing.assert_array_equal(conventions(found.state), conventions(outcomes.state)[:, order])


@everywhere
def test_observations_turn_with_the_seats(environment: Environment) -> None:
    """Teammates are seen in the order of the seats after the own, so an agent may sit in any seat."""
    state = environment.reset(jax.random.key(4))
    observations = np.asarray(environment.observe(state))
    for turn in range(environment.num_seats):
        order = (jnp.arange(environment.num_seats) + turn) % environment.num_seats
        np.testing.assert_array_equal(environment.observe(exchange(state, order)), observations[order])


@everywhere
def test_every_heuristic_plays_in_every_seat_of_the_team(environment: Environment) -> None:
    state, seats = environment.reset(jax.random.key(1)), environment.num_seats
    percepts = perceive(environment, state, jnp.zeros(seats), jnp.array(True))
    act = jax.jit(jax.vmap(lambda policy, percept: policy.act(key, percept, policy.initial_memory())[0], (0, None)))
    key, policies = jax.random.key(0), stacked_heuristics(environment)
    for percept, number in list(zip(percepts, environment.num_actions, strict=True))[1:]:
        actions = np.asarray(act(policies, percept))
        assert ((actions >= 0) & (actions < number)).all()


@everywhere
def test_drawings_have_a_place_for_everybody(environment: Environment) -> None:
    state, board = environment.reset(jax.random.key(1)), environment.board()
    assert [len(actions) for actions in board.actions] == list(environment.num_actions)
    for seat in (None, *range(environment.num_seats)):
        scene = scene_for(environment, jax.tree.map(np.asarray, state), seat)
        if board.grid is not None:
            hidden = seat is not None and board.hides_partner
            seen = [cell is not None for cell in scene.positions]
            assert seen == [not hidden or seat == number for number in range(environment.num_seats)]
