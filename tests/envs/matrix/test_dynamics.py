"""Matrix games of several players and of payoffs by player."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.envs.base import render_for
from coverset.envs.matrix import MatrixGame
from coverset.envs.registry import make, parameters_to_record
from coverset.evaluation.conventions import coverage_set

ROCK_PAPER_SCISSORS = ((0.0, -1.0, 1.0), (1.0, 0.0, -1.0), (-1.0, 1.0, 0.0))
MATCHING_PENNIES = ((1.0, -1.0), (-1.0, 1.0))
DILEMMA = (((3.0, 0.0), (5.0, 1.0)), ((3.0, 5.0), (0.0, 1.0)))


def zero_sum(table) -> MatrixGame:
    """The game in which seat 1 loses what seat 0 wins."""
    return MatrixGame(payoffs=(table, nested(-np.array(table))), by_player=True)


def nested(table: np.ndarray) -> tuple:
    return tuple(map(nested, table)) if table.ndim > 1 else tuple(table.tolist())


def tables(shape: tuple[int, ...]):
    """Nested tuples of small numbers."""
    return st.lists(st.integers(-9, 9), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda numbers: nested(np.array(numbers, float).reshape(shape))
    )


shapes = st.lists(st.integers(1, 3), min_size=2, max_size=4).map(tuple)


def play(game: MatrixGame, actions: tuple[int, ...]):
    return game.step(jax.random.key(0), game.reset(jax.random.key(0)), jnp.array(actions, jnp.int32))


@settings(max_examples=15, deadline=None)
@given(st.data(), shapes, st.booleans())
def test_rewards_are_entries_of_the_tables(data, shape: tuple[int, ...], by_player: bool) -> None:
    parts = [data.draw(tables(shape)) for _ in shape]
    game = MatrixGame(payoffs=tuple(parts) if by_player else parts[0], by_player=by_player)
    assert game.num_actions == shape
    everything = jnp.array([*itertools.product(*map(range, shape))], jnp.int32)
    paid = jax.vmap(lambda actions: game.step(jax.random.key(0), game.reset(jax.random.key(0)), actions).reward)
    for actions, reward in zip(everything.tolist(), np.asarray(paid(everything)), strict=True):
        entries = [np.array(part)[tuple(actions)] for part in parts]
        np.testing.assert_array_equal(reward, entries if by_player else entries[0])


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 2), st.integers(2, 4), st.booleans(), st.booleans())
def test_seats_are_alike_if_and_only_if_every_permutation_keeps_the_payoffs(
    data, actions: int, players: int, by_player: bool, symmetric: bool
) -> None:
    """u_{p(s)}(permuted actions) = u_s(actions) for every permutation p and seat s, by brute force."""
    shape = (actions + 1,) * players
    parts = np.array([data.draw(tables(shape)) for _ in shape])
    if not by_player:
        parts = np.broadcast_to(parts[:1], parts.shape)
    permutations = [np.array(order) for order in itertools.permutations(range(players))]
    permuted = [parts[order].transpose(0, *(order + 1)) for order in permutations]
    parts = np.sum(permuted, axis=0) if symmetric else parts
    game = MatrixGame(payoffs=nested(parts if by_player else parts[0]), by_player=by_player)
    expected = all(np.array_equal(parts[order].transpose(0, *(order + 1)), parts) for order in permutations)
    assert game.seats_alike == expected
    assert game.seats_alike or not symmetric


def test_rock_paper_scissors_and_matching_pennies() -> None:
    rock_paper_scissors, pennies = zero_sum(ROCK_PAPER_SCISSORS), zero_sum(MATCHING_PENNIES)
    assert play(rock_paper_scissors, (1, 0)).reward.tolist() == [1.0, -1.0]  # paper wraps rock
    assert play(rock_paper_scissors, (2, 0)).reward.tolist() == [-1.0, 1.0]
    assert play(pennies, (1, 1)).reward.tolist() == [1.0, -1.0]
    assert (rock_paper_scissors.seats_alike, pennies.seats_alike) == (True, False)
    assert [len(coverage_set(game)) for game in (rock_paper_scissors, pennies)] == [3, 2]


def test_payoffs_by_player_from_the_command_line_are_recorded_and_common_ones_as_before() -> None:
    game = make("matrix", payoffs=[[[3, 0], [5, 1]], [[3, 5], [0, 1]]], by_player=True)
    assert game == MatrixGame(payoffs=DILEMMA, by_player=True)
    recorded = parameters_to_record("matrix", game, {})
    assert recorded == {"payoffs": DILEMMA, "horizon": 1, "by_player": True}
    assert make("matrix", **recorded) == game
    assert set(parameters_to_record("matrix", MatrixGame(), {})) == {"payoffs", "horizon"}


def test_conventions_of_three_players_are_the_ego_with_a_team_on_one_action() -> None:
    table = np.arange(12.0).reshape(3, 2, 2)
    assert MatrixGame(payoffs=nested(table)).convention_payoffs == ((0.0, 3.0), (4.0, 7.0), (8.0, 11.0))
    unequal = MatrixGame(payoffs=nested(np.zeros((2, 2, 3))))
    assert unequal.convention_payoffs == ()
    assert unequal.conventions == ("action 1", "action 2", "action 3")
    assert MatrixGame(payoffs=DILEMMA, by_player=True).convention_payoffs == DILEMMA[0]


def test_what_is_shown_of_several_players() -> None:
    game = MatrixGame(payoffs=nested(np.arange(8.0).reshape(2, 2, 2)))
    assert game.render(game.reset(jax.random.key(0))) == "not played"
    assert [render_for(game, play(game, (1, 0, 1)).state, seat) for seat in (None, 2)] == ["actions 2, 1 and 2: 5"] * 2
    dilemma = MatrixGame(payoffs=DILEMMA, by_player=True)
    assert dilemma.render(play(dilemma, (1, 0)).state) == "actions 2 and 1: 5 and 0"


def test_only_one_table_of_two_players_is_drawn() -> None:
    rock_paper_scissors = zero_sum(ROCK_PAPER_SCISSORS)
    assert rock_paper_scissors.board().table.payoffs == ROCK_PAPER_SCISSORS
    assert rock_paper_scissors.scene(play(rock_paper_scissors, (1, 0)).state).played == (1, 0)
    three = MatrixGame(payoffs=nested(np.zeros((2, 2, 2))))
    for game in (MatrixGame(payoffs=DILEMMA, by_player=True), three):
        assert game.board().table is None
        assert len(game.board().actions) == game.num_seats
        assert game.scene(game.reset(jax.random.key(0))) is None


@pytest.mark.parametrize(
    ("payoffs", "by_player", "message"),
    [
        ([1, 2], False, "payoffs must be a list of lists of numbers for two or more players, got [1, 2]."),
        ("high", False, "payoffs must be a list of items, got 'high'."),
        ([["a", 1]], False, "payoffs must be a list of lists of numbers, nested once for each player, got [['a', 1]]."),
        ([[1, [2]], [1, 2]], False, "payoffs must be a list of lists of numbers, nested once for each player, got [["),
        ([[[1, 2], [3]]], False, "payoffs[0] must be rectangular: row 0 has 2 entries, row 1 has 1."),
        ([[[1]], [[1], [2]]], False, "payoffs must hold tables of one shape: number 0 is 1 x 1, number 1 is 2 x 1."),
        ([[[1]], [[float("nan")]]], False, "payoffs[1] must hold finite numbers, got nan in row 0, column 0."),
        ([[[1]], []], False, "payoffs[1] must have at least one row and one column, got []."),
        ([[1, 2], [3, 4]], True, "payoffs must be a list of tables, one for each player, for two or more players, got"),
        ([[[1]]], True, "payoffs must hold one table for each player: tables of 2 axes are those of 2 players, got 1"),
    ],
)
def test_payoffs_that_are_no_tables_are_named(payoffs, by_player: bool, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make("matrix", payoffs=payoffs, by_player=by_player)
