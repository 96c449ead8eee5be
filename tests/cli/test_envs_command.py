"""`coverset envs` and `coverset check`."""

import json

import pytest

from coverset.cli.main import run


def told(capsys, *words: str) -> str:
    capsys.readouterr()
    assert run([*words]) == 0
    return capsys.readouterr().out


def test_every_game_and_adapter_is_listed(capsys) -> None:
    shown = told(capsys, "envs")
    for name in ("matrix", "weighted-reaching", "foraging", "coverset.adapters.jaxmarl:overcooked"):
        assert name in shown
    assert "rock-paper-scissors: 2 players, episodes of up to 1 step\n    Rock, paper, scissors:" in shown
    listed = json.loads(told(capsys, "envs", "--json"))
    assert {game["name"]: game["players"] for game in listed["environments"]}["reaching"] == 2
    assert all(adapter["installed"] for adapter in listed["adapters"])


def test_heuristics_are_explained(capsys) -> None:
    shown = told(capsys, "envs", "reaching")
    assert "partner H8: Walks to corner A." in shown
    assert "partner H15:" in shown
    assert "parameter size = 5" in shown
    assert "conventions: corner A" in shown


def test_parameters_change_the_game(capsys) -> None:
    game = json.loads(told(capsys, "envs", "reaching", "--env-args", "size=7", "horizon=9", "--json"))
    assert (game["horizon"], game["parameters"]["size"]) == (9, 7)
    assert game["observation_sizes"] == [49, 49]


def test_a_game_that_conforms_passes(capsys) -> None:
    assert "matrix keeps the contract: 2 players" in told(capsys, "check", "matrix", "--quick")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["check", "broken_game:TooLong"], "TooLong.observe must be float32[2, 1], got float32[2, 3]."),
        (["check", "matrxi"], "Did you mean 'matrix'?"),
        (["envs", "nowhere:Game"], "'nowhere:Game' must name an importable module:function"),
        (["envs", "--env-args", "size=3"], "env_args need the name of a game."),
    ],
)
def test_a_game_that_does_not_is_told_in_one_sentence(capsys, words: list[str], sentence: str) -> None:
    assert run(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
