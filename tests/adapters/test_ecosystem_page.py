"""The Python of docs/how-to/integrations.md runs, one block after the other, and its commands name what there is."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "integrations.md").read_text()


@pytest.mark.filterwarnings("ignore:.*Box.*precision lowered:UserWarning")
def test_the_python_blocks_run(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict = {}
    blocks = re.findall(r"^```python(?: title=\S+)?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, known)
    assert set(known["rewards"]) == {"seat_0", "seat_1"}
    assert known["returns"].shape == (10,)
    assert known["make_listener"]()(None, 1.0, False) == 1
    assert (tmp_path / "takes-turns.zip").is_file()
    assert "[[4.66666667]]" in capsys.readouterr().out


def test_every_module_and_function_on_the_page_exists() -> None:
    named = set(re.findall(r"(coverset\.adapters\.\w+)(?::(\w+))?", PAGE))
    assert len(named) > 8
    for module, attribute in named:
        assert not attribute or hasattr(import_module(module), attribute), f"{module}:{attribute}"
