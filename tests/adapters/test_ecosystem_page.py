"""The Python of docs/how-to/integrations.md runs, one block after the other, and its commands name what there is."""

import re
from importlib import import_module
from itertools import takewhile
from pathlib import Path

import pytest

import pages
from coverset.cli.shared import parse_key_values
from coverset.envs.registry import make

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "integrations.md").read_text()


@pytest.mark.filterwarnings("ignore:.*Box.*precision lowered:UserWarning")
def test_the_python_blocks_run(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict = {}
    blocks = re.findall(r"^```python(?: title=\S+)?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(block, known)
    assert set(known["rewards"]) == {"seat_0", "seat_1"}
    assert known["returns"].shape == (10,)
    assert known["make_listener"]()(None, 1.0, False) == 1
    assert (tmp_path / "takes-turns.zip").is_file()
    printed = capsys.readouterr().out
    assert "> seat 0 (you): ?? [?? RYG123]" in printed
    assert "[[4.66666667]]" in printed


SEATS = [
    ("coverset.adapters.pettingzoo:from_parallel", 2),
    ("coverset.adapters.pettingzoo:from_parallel", 3),
    ("coverset.adapters.jumanji:JumanjiForaging", 2),
    ("coverset.adapters.jumanji:JumanjiForaging", 3),
    ("coverset.adapters.jaxmarl:overcooked", 2),
    ("coverset.adapters.jaxmarl:from_jaxmarl", 3),
    ("coverset.adapters.hanabi:mini_hanabi", 2),
    ("coverset.adapters.hanabi:Hanabi", 2),
    ("coverset.adapters.hanabi:mini_hanabi", 2),
    ("coverset.adapters.hanabi:mini_hanabi", 2),
]


def test_every_command_names_an_environment_that_can_be_made() -> None:
    """This trains nothing: other tests here run some of the commands in small."""
    made = []
    for words in pages.commands(PAGE):
        if words[0] == "generate" and words[1].startswith("coverset.adapters."):
            after = words[words.index("--env-args") + 1 :] if "--env-args" in words else []
            given = takewhile(lambda word: not word.startswith("--"), after)
            made.append((words[1], make(words[1], **parse_key_values("env_args", tuple(given))).num_seats))
    assert made == SEATS


def test_every_module_and_function_on_the_page_exists() -> None:
    named = set(re.findall(r"(coverset\.adapters\.\w+)(?::(\w+))?", PAGE))
    assert len(named) > 8
    for module, attribute in named:
        assert not attribute or hasattr(import_module(module), attribute), f"{module}:{attribute}"
