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


def test_lines_fit_a_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["envs"], ["envs", "overcooked"], ["envs", "reaching"]):
        assert max(map(len, told(capsys, *words).splitlines())) <= 80


def test_the_next_command_makes_the_same_game(capsys) -> None:
    words = ("reaching", "--env-args", "size=3")
    for command in ("envs", "check"):
        assert told(capsys, command, *words).splitlines()[-1].endswith("coverset generate reaching --env-args size=3")


def test_a_text_that_shows_everything_to_everybody_is_told(capsys) -> None:
    assert "sees everything, because its `render` takes no seat" in " ".join(
        told(capsys, "check", "lantern:Lantern", "--quick").split()
    )
    assert "as text, all of it shown to every player" in told(capsys, "envs", "lantern:Lantern")
    assert not json.loads(told(capsys, "envs", "lantern:Lantern", "--json"))["shown_by_seat"]
    assert "drawn, shown to players by seat" in told(capsys, "envs", "reaching")


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
        (["check", "broken_game:SeveralSizes"], "beside observation_shapes = ((1,), (2,)), got (1, 2)."),
        (["envs", "broken_game:SeveralSizes"], "SeveralSizes.observation_size must be an int of at least 1"),
        (["check", "broken_game:SeveralRows"], "as coverset.pad_observations(*rows) makes it, got 2 arrays."),
        (
            ["check", "broken_game:Unfinished"],
            "must define observation_size, observe, render, reset, step, got",
        ),
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
