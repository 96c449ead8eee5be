"""The notebook runs from its first cell to its last, and holds what its cells print and show."""

import base64
import importlib.util
from pathlib import Path
from types import ModuleType

import pages

PNG = b"\x89PNG"


def load_tool() -> ModuleType:
    """The script that executes the notebook."""
    spec = importlib.util.spec_from_file_location("execute_tour", pages.ROOT / "docs" / "execute_tour.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def shown(cells: list[dict], kind: str) -> list[str]:
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return ["".join(output["data"][kind]) for output in outputs if kind in output.get("data", {})]


def pictures(cells: list[dict]) -> list[bytes]:
    return [base64.b64decode(data) for data in shown(cells, "image/png")]


def test_the_tour_runs(monkeypatch, tmp_path: Path) -> None:
    """Training is small here; the notebook has the results of a real one."""
    monkeypatch.chdir(tmp_path)
    pages.shrink(monkeypatch)
    tool = load_tool()
    stored = tool.read_cells()
    done = tool.execute(stored)
    assert [cell["source"] for cell in done] == [cell["source"] for cell in stored]
    for cells in (done, stored):
        assert len(pictures(cells)) == 2
        assert all(picture.startswith(PNG) for picture in pictures(cells))
        assert len(shown(cells, "text/html")) == 3
    kinds = [[output["output_type"] for output in cell.get("outputs", [])] for cell in stored]
    assert kinds == [[output["output_type"] for output in cell.get("outputs", [])] for cell in done]


def test_the_stored_results_are_those_of_a_robust_agent() -> None:
    (table, _, evaluated) = shown(load_tool().read_cells(), "text/html")
    assert table.count("3 of 3") == 2
    assert "recurrent" in evaluated
