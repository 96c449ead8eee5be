"""Reaching of three and more players: where they meet, what that pays, and what each of them may see."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.extensions import heuristics
from coverset.envs.reaching import WEIGHTED, Reaching, ReachingState
from coverset.envs.registry import make, parameters_to_record
from coverset.evaluation.conventions import coverage_set
from heuristic_play import play

CORNER_CELLS = [(0, 0), (0, 4), (4, 4), (4, 0)]


def state_of(*cells) -> ReachingState:
    return ReachingState(jnp.array(cells, jnp.int32), jnp.int32(3))


def stay(environment: Reaching, *cells):
    """Reward and end of a step in which nobody moves."""
    actions = jnp.zeros(environment.players, jnp.int32)
    outcome = environment.step(jax.random.key(0), state_of(*cells), actions)
    return float(outcome.reward), bool(outcome.terminated)


def test_all_must_stand_on_the_same_corner() -> None:
    environment = Reaching(players=3)
    assert stay(environment, (0, 0), (0, 0), (0, 0)) == (1.0, True)
    assert stay(environment, (0, 0), (0, 0), (0, 4)) == (0.0, False)
    assert stay(environment, (0, 0), (0, 0), (0, 1)) == (0.0, False)
    assert stay(environment, (2, 2), (0, 0), (0, 0)) == (0.0, False)
    assert stay(environment, (2, 2), (2, 2), (2, 2)) == (0.0, False)


@pytest.mark.parametrize("players", [3, 4])
def test_the_worst_pair_of_corners_pays(players: int) -> None:
    """Every combination of corners, by a loop over pairs; one player off the corners, and nothing ends."""
    table = tuple(tuple(float(7 * row + column * column - 9) for column in range(4)) for row in range(4))
    environment = Reaching(payoffs=table, ends_apart=True, players=players)
    combinations = [*itertools.product(range(4), repeat=players)]
    cells = jnp.array([[CORNER_CELLS[corner] for corner in corners] for corners in combinations], jnp.int32)
    step = jax.jit(jax.vmap(lambda positions: environment.step(jax.random.key(0), state_of(*positions), stays)))
    stays = jnp.zeros(players, jnp.int32)
    outcome = step(cells)
    pays = [min(table[one][other] for one, other in itertools.combinations(corners, 2)) for corners in combinations]
    np.testing.assert_array_equal(outcome.reward, pays)
    assert outcome.terminated.all()
    away = step(cells.at[:, 1].set(jnp.array([0, 2])))
    assert not away.terminated.any()
    assert not away.reward.any()


def test_weighted_conventions_of_three_are_those_of_two() -> None:
    """Seat 0 with a team on one corner, played; so the coverage set is the same."""
    environment = make("weighted-reaching", players=3)
    played = [[stay(environment, own, team, team)[0] for team in CORNER_CELLS] for own in CORNER_CELLS]
    assert environment.convention_payoffs == tuple(map(tuple, played)) == WEIGHTED
    assert coverage_set(environment) == coverage_set(make("weighted-reaching"))
    cheap = Reaching(payoffs=((3.0, 2, 0, 0), (2, 1.0, 0, 0), (0,) * 4, (0,) * 4), ends_apart=True, players=3)
    assert cheap.convention_payoffs[0][:2] == (3.0, 1.0)  # with both others on B, who are a pair as well


def test_the_convention_is_each_players_corner() -> None:
    environment = make("weighted-reaching", players=3)
    state = state_of((0, 0), (4, 4), (4, 0))
    assert [int(environment.convention(state, seat)) for seat in range(3)] == [0, 2, 3]
    assert int(environment.convention(state_of((0, 0), (4, 4), (4, 1)), 0)) == 4


@pytest.mark.parametrize("players", [3, 4])
def test_a_team_that_walks_to_one_corner_meets_there(players: int) -> None:
    environment = Reaching(players=players)
    walker = heuristics(environment)["H9"]
    start = environment.reset(jax.random.key(3))
    played = jax.jit(lambda start: play(environment, start, jax.random.key(0), (walker,) * players))(start)
    assert float(played.total) == 1.0
    assert played.final.positions.tolist() == [[0, 4]] * players


def test_observations_hold_the_own_cell_and_then_the_next_seats() -> None:
    state = state_of((0, 0), (1, 2), (4, 4))
    own = Reaching(players=3, encoding="coordinates").observe(state)
    np.testing.assert_allclose(own, [[-1, -1], [-0.5, 0], [1, 1]])
    seen = Reaching(players=3, encoding="coordinates", sees_teammate=True).observe(state)
    np.testing.assert_allclose(seen[1], [-0.5, 0, 1, 1, -1, -1])
    assert Reaching(players=3).observe(state).argmax(axis=-1).tolist() == [0, 7, 24]


def test_a_player_is_shown_only_what_it_observes() -> None:
    state = state_of((0, 0), (0, 0), (2, 1))
    blind, seeing = Reaching(players=3), Reaching(players=3, sees_teammate=True)
    everything = "* . . . b\n. . . . .\n. 3 . . .\n. . . . .\nd . . . c"
    assert blind.render(state) == seeing.render(state, 1) == everything
    assert blind.render(state, 2) == everything.replace("*", "a")
    assert blind.render(state, 1) == everything.replace("*", "2").replace("3", ".")
    assert blind.scene(state, 2).positions == (None, None, (2, 1))
    assert blind.scene(state).positions == seeing.scene(state, 0).positions == ((0, 0), (0, 0), (2, 1))
    two = Reaching()
    ended = ReachingState(jnp.array([(0, 0), (0, 0)], jnp.int32), jnp.int32(3))
    assert two.scene(ended).played == (0, 0)
    assert two.scene(ended, 1).played is None
    assert two.render(ended, 1) == "2 . . . b\n. . . . .\n. . . . .\n. . . . .\nd . . . c"


def test_the_table_is_marked_where_the_team_stands_on_one_corner() -> None:
    environment = make("weighted-reaching", players=3)
    assert environment.scene(state_of((0, 0), (4, 4), (4, 4))).played == (0, 2)
    assert environment.scene(state_of((0, 0), (4, 4), (4, 0))).played is None
    assert "all 3 stand" in environment.board().rules
    assert len(environment.board().actions) == 3


def test_players_are_recorded_only_where_there_are_more_than_two() -> None:
    assert "players" not in parameters_to_record("weighted-reaching", make("weighted-reaching"), {})
    recorded = parameters_to_record("weighted-reaching", make("weighted-reaching", players=3), {})
    assert make("weighted-reaching", **recorded) == make("weighted-reaching", players=3)
    with pytest.raises(ValueError, match="players must be at least 2, got 1"):
        make("reaching", players=1)


def test_starts_are_listed_unless_there_are_too_many() -> None:
    states, chances = Reaching(players=3).initial_states()
    assert states.positions.shape == (9**3, 3, 2)
    assert len(np.unique(states.positions.reshape(-1, 6), axis=0)) == len(chances) == 9**3
    assert Reaching(players=6).initial_states() is None
