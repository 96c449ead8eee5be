"""Reading games: every accepted form, and one clear sentence for every refused one."""

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from coverset.envs.matrix import PAPER_PAYOFFS
from coverset.envs.reaching import SAME_CORNER, WEIGHTED
from coverset.solver import built_in_games, game_from_players, game_from_table, load
from coverset.solver.payoffs import MAX_CELLS


def test_built_in_tables_are_those_of_the_environments() -> None:
    environments = ("matrix", "reaching", "weighted-reaching")
    assert built_in_games() == (*environments, "rock-paper-scissors", "matching-pennies")
    for name, payoffs in [("matrix", PAPER_PAYOFFS), ("reaching", SAME_CORNER), ("weighted-reaching", WEIGHTED)]:
        assert load(name).ego == payoffs


@pytest.mark.parametrize(
    "source",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2.0), (3.0, 4.0)),
        np.array([[1, 2], [3, 4]], np.int8),
        np.array([[1, 2], [3, 4]], np.float32),
        [[np.int64(1), np.float64(2)], [Fraction(3), Decimal(4)]],
        [["1", "2e0"], ["6/2", "4.000"]],
        {"payoffs": [[1, 2], [3, 4]]},
        {"ego": [[1, 2], [3, 4]], "teammate": [[0, 0], [0, 0]]},
    ],
)
def test_accepted_forms(source) -> None:
    assert load(source).ego == ((1, 2), (3, 4))


@pytest.mark.parametrize(
    ("text", "ego_actions", "teammate_actions"),
    [
        ("1,2\n3,4\n", ("0", "1"), ("0", "1")),
        ("left,right\n1,2\n3,4\n", ("0", "1"), ("left", "right")),
        ("up,1,2\ndown,3,4\n", ("up", "down"), ("0", "1")),
        (",left,right\nup,1,2\ndown,3,4\n", ("up", "down"), ("left", "right")),
        ("left,right\nup,1,2\ndown,3,4\n", ("up", "down"), ("left", "right")),
        ("\ufeff1;2\r\n3;4\r\n\r\n", ("0", "1"), ("0", "1")),
        ("1\t2\n3\t4", ("0", "1"), ("0", "1")),
    ],
)
def test_csv_layouts(tmp_path, text, ego_actions, teammate_actions) -> None:
    path = tmp_path / "some.csv"
    path.write_text(text, encoding="utf-8")
    game = load(path)
    assert (game.ego, game.ego_actions, game.teammate_actions) == (((1, 2), (3, 4)), ego_actions, teammate_actions)
    assert game.name == "some"
    assert load(str(path)) == game


def test_a_single_named_row(tmp_path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("up,1,2\n")
    assert load(path).ego_actions == ("up",)


def test_decimals_in_files_are_read_as_written(tmp_path) -> None:
    as_csv, as_json = tmp_path / "a.csv", tmp_path / "a.json"
    as_csv.write_text("0.1,1e-3\n")
    as_json.write_text('{"payoffs": [[0.1, 1e-3]], "ego_actions": ["only"]}')
    assert load(as_csv).ego == load(as_json).ego == ((Fraction(1, 10), Fraction(1, 1000)),)
    assert load([[0.1]]).ego == ((Fraction(0.1),),)
    assert load(as_json).ego_actions == ("only",)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "at least one row and one column"),
        ([[]], "at least one row and one column"),
        ([[1, 2], [3]], "rectangular: row 0 has 2 entries, row 1 has 1"),
        ([[1, float("nan")]], "finite numbers up to 1e300, got nan in row 0, column 1"),
        ([[1], [float("-inf")]], "got -inf in row 1, column 0"),
        ([[10**400]], "finite numbers up to 1e300"),
        ([["1e999999999"]], "finite numbers"),
        ([["1e-999999999"]], "must hold numbers"),
        ([[1j]], "must hold numbers"),
        ([[None]], "must hold numbers, got None"),
        ([[True]], "must hold finite numbers up to 1e300, got True"),
        ([1, 2], "list of rows of numbers, got 1 as row 0"),
        (np.zeros(3), r"two dimensions, rows and columns, got shape \(3,\)"),
        (np.zeros((1, MAX_CELLS + 1)), "at most 250000 entries"),
        (5, "list of rows"),
        ("matrx", "Did you mean 'matrix'"),
        ("nothing.csv", "could not be read"),
        ({"payofs": [[1]]}, "got 'payofs'"),
        ({"teammate": [[1]]}, "either the key 'payoffs'"),
        ({"payoffs": [[1]], "teammate": [[1]]}, "'ego', not 'payoffs'"),
        ({"ego": [[1]], "teammate": [[1, 2]]}, "1 x 1 like the ego payoffs, got 1 x 2"),
        ({"ego": [[[1]]], "teammate": [[[1]]]}, "for two players, got 3; give one table per player as 'players'"),
        ({"players": [[[1]], [[1]]], "teammate": [[1]]}, "'ego', not 'players'"),
        ({"players": [[[1]], [[1]]], "payoffs": [[1]]}, "either the key 'payoffs'"),
        ({"payoffs": [[1]], "ego_player": 0}, "'ego_player' needs 'players'"),
        ({"players": 3}, "list of payoff tables, one per player, got 3"),
        ({"players": [[[1]]]}, "at least two payoff tables, one per player, got 1"),
        ({"players": [[[1]], [[1]], [[1]]]}, r"player 0 must have one dimension per player, 3, got shape \(1, 1\)"),
        ({"players": [[[1]], [[1, 2]]]}, r"player 1 must have the shape of player 0's, \(1, 1\), got \(1, 2\)"),
        ({"players": [[[1]], [["x"]]]}, "payoffs of player 1 must hold numbers, got 'x' in row 0, column 0"),
        ({"players": [[[1]], [[1]]], "ego_player": 2}, "ego_player must be a player from 0 to 1, got 2"),
        ({"players": [[[1]], [[1]]], "ego_player": "x"}, "ego_player must be a player from 0 to 1, got 'x'"),
        ([[[1, 2], [3]]], "rectangular: lists at depth 3 must hold 2 entries, got 1"),
        ([[[1, 2], 3]], "rectangular: lists at depth 3 must hold 2 entries, got 3"),
        ([[[1, 2]], [[3, 4], [5, 6]]], "rectangular: row 0 has 2 entries, row 1 has 4"),
        ([[1, [2]]], r"must hold numbers, got \[2\]"),
        ([[[1, 2], [3, None]]], r"must hold numbers, got None at \[0\]\[1\]\[1\]"),
        ([[[]]], "at least one row and one column"),
        (np.zeros((1,) * 17), "at most 16 dimensions, one per player"),
        ({"payoffs": [[[1]]], "teammate_actions": ["a"]}, "2 lists of names, one per teammate"),
        ({"payoffs": [[[1]]], "teammate_actions": [["a"], ["b", "c"]]}, "teammate 2 must hold 1 names"),
        ({"payoffs": [[1], [2]], "ego_actions": ["a"]}, "2 names, one per action, got 1"),
        ({"payoffs": [[1], [2]], "ego_actions": ["a", "a"]}, "'a' more than once"),
        ({"payoffs": [[1], [2]], "ego_actions": "ab"}, "list of 2 names"),
    ],
)
def test_refusals_name_what_came(source, message) -> None:
    with pytest.raises(ValueError, match=message):
        load(source)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "empty file"),
        ("a.csv", "1,2\n3o,4\n", "first column must be all names or all numbers, got '3o'"),
        ("a.csv", "1,2o\n3,4\n", "first row must be all names or all numbers, got '2o'"),
        ("a.csv", "1,2\n3,4o\n", "must hold numbers, got '4o' in row 1, column 1"),
        ("a.csv", "1,2\n3\n", "rectangular"),
        ("a.csv", "1,nan\n3,4\n", "finite numbers"),
        ("a.csv", "a,b\n", "at least one row"),
        ("a.json", "{", "must be JSON"),
        ("a.json", "[[1, NaN]]", "got nan"),
        ("a.json", '{"payoffs": 3}', "list of rows"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, name, text, message) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_binary_files_and_directories_are_refused(tmp_path) -> None:
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe1\x00")
    with pytest.raises(ValueError, match="UTF-8"):
        load(tmp_path / "b.csv")
    with pytest.raises(ValueError, match="could not be read"):
        load(tmp_path)


def test_tables_of_three_players(tmp_path) -> None:
    path = tmp_path / "g.json"
    payoffs = [[[1, 0.5], [2, 3]], [[4, 5], [6, 7]]]
    path.write_text(json.dumps({"payoffs": payoffs, "teammate_actions": [["l", "r"], ["u", "d"]]}))
    game = load(path)
    assert game == game_from_table(np.array(payoffs), teammate_actions=[["l", "r"], ["u", "d"]], name="g")
    assert game.ego == ((1, Fraction(1, 2), 2, 3), (4, 5, 6, 7))
    assert game.teammate_actions == ("(l, u)", "(l, d)", "(r, u)", "(r, d)")
    assert (game.players, game.team_shape) == (3, (2, 2))
    path.write_text(json.dumps({"players": [payoffs, payoffs, payoffs], "ego_player": 2}))
    assert load(path).ego == ((1, 2, 4, 6), (Fraction(1, 2), 3, 5, 7))


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3), (1, 2, 2, 1), (2, 3, 4, 5)])
def test_nested_tables_keep_their_shape(shape) -> None:
    payoffs = np.arange(np.prod(shape)).reshape(shape)
    for game in (load(payoffs), load(payoffs.tolist()), game_from_players([payoffs] * len(shape))):
        assert game.team_shape == shape[1:]
        np.testing.assert_array_equal(game.floats().reshape(shape), payoffs)


def test_a_bimatrix_from_the_column_player() -> None:
    game = load({"players": [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]], "ego_player": 1})
    assert game.ego == ((7, 10), (8, 11), (9, 12))
    assert game.teammate == ((1, 4), (2, 5), (3, 6))


def test_json_round_trip(tmp_path) -> None:
    path = tmp_path / "g.json"
    content = {"ego": [[1, 0.5]], "teammate": [[2, 3]], "ego_actions": ["x"], "teammate_actions": ["l", "r"]}
    path.write_text(json.dumps(content))
    assert load(path) == game_from_table([[1, 0.5]], [[2, 3]], ego_actions=["x"], teammate_actions=["l", "r"], name="g")
