"""Mistakes in the options are one sentence and exit code 2, whatever the command."""

import pytest

from coverset.cli.main import run


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
