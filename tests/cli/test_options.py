"""Mistakes in the options are one sentence and exit code 2, whatever the command."""

import itertools

import pytest

from coverset.cli.main import COMMANDS, run


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["generate", "matrix", "--foo", "3"], ("--foo", "coverset generate --help")),
        (["generate", "matrix", "--learning-rate", "abc"], ("--learning-rate", "'abc'", "coverset generate --help")),
        (["generate", "matrix", "--hidden-sizes", "a", "b"], ("--hidden-sizes", "['a', 'b']")),
        (["generate", "matrix", "--population-size"], ("--population-size", "Missing value")),
        (["solve", "matrix", "surplus"], ("surplus", "coverset solve --help")),
        (["solve"], ("Missing", "GAME", "coverset solve --help")),
        (["evaluate"], ("Missing", "coverset evaluate --help")),
        (["certify", "--trials", "many"], ("coverset certify --help",)),
    ],
)
def test_a_mistake_is_one_line(arguments, names, capfd) -> None:
    assert run(arguments) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("coverset: ")
    assert printed.err.count("\n") == 1
    assert not set("│╭╮╰╯─") & set(printed.err)
    for name in names:
        assert name.lower() in printed.err.lower()


def test_help_is_not_a_mistake(capfd) -> None:
    with pytest.raises(SystemExit) as end:
        run(["generate", "matrix", "--help"])
    assert end.value.code == 0
    printed = capfd.readouterr()
    assert "--learning-rate" in printed.out
    assert printed.err == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["generate", "matrix", "--populaton-size", "3"],
            "option --populaton-size. Did you mean '--population-size'?",
        ),
        (["generate", "matrix", "--populaton-size=3"], "option --populaton-size. Did you mean '--population-size'?"),
        (["generate", "matrix", "--multiplier-lerning-rate", "1"], "Did you mean '--multiplier-learning-rate'?"),
        (["evaluate", "runs", "--agent", "rl2"], "There is no option --agent. Did you mean '--agents'?"),
        (["envs", "--frobnicate"], "There is no option --frobnicate. See"),
    ],
)
def test_a_mistyped_option_is_told_the_nearest(capsys, words: list[str], sentence: str) -> None:
    assert run(words) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_flows_in_eighty_columns(monkeypatch, capsys, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run([command, "--help"])
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    examples = lines.index("Examples:")
    assert max(len(line) for line in lines[1:examples] + lines[lines.index("", examples) :]) <= 80
    texts = [line.strip("│ ") for line in lines if line.startswith("│                        ")]
    short = [one for one, after in itertools.pairwise(texts) if len(one) < 25 and after[:1].islower()]
    assert not short, "a line is broken in the middle of a sentence"
