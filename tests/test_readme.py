"""The README's Python block runs as it stands; only sizes are made small here."""

import re
from functools import partial
from pathlib import Path

import coverset
import toy_study

README = Path(__file__).parents[1] / "README.md"


def small(settings: dict) -> dict:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def test_the_python_example_runs(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(coverset, "generate", partial(coverset.generate, **small(toy_study.GENERATION)), raising=False)
    monkeypatch.setattr(coverset, "train", partial(coverset.train, **small(toy_study.TRAINING)), raising=False)
    monkeypatch.setattr(coverset, "evaluate", partial(coverset.evaluate, trials=2, episodes=3), raising=False)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(block, names)
    assert "of 3" in capsys.readouterr().out
    assert names["action"] in range(3)
    assert len(names["runs"]) == 2


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert links
    for link in links:
        assert (README.parent / link).exists(), link
