"""Every script in examples/ runs as it stands and prints what its docstring says."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTS = {
    "cross_play_matrix": r"members of the coverage set: 3 of 3",
    "custom_game": r"kinds of teammates: 3",
    "export_and_load": r"return of H1 with it: 4\.667",
    "play_with_a_heuristic": r"best response 1 and H1 play \[\d, 1\] for",
    "solve_exactly": r"rush is needed(.*\n)+.*stall is not needed",
    "train_and_evaluate": r"rl2: 0\.\d\d of the oracle",
}


def test_every_example_is_known() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(name: str, monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert names["__doc__"]
    assert re.search(PRINTS[name], capsys.readouterr().out)
    assert not [*tmp_path.iterdir()], "an example leaves nothing behind"
