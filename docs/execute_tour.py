"""Execute the notebook tutorials/tour.ipynb and store what its cells print and show: python docs/execute_tour.py

It needs no Jupyter: cells are plain Python, run in one namespace and in an empty directory.
"""

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

TOUR = Path(__file__).parent / "tutorials" / "tour.ipynb"


def read_cells(path: Path = TOUR) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    return json.loads(path.read_text())["cells"]


def execute_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the code of a cell; returns its outputs as notebooks store them, with the value of the last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # pyright: ignore[reportAttributeAccessIssue]
    text = printed.getvalue()
    outputs = [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []
    return outputs + ([_display(value)] if value is not None else [])


def _display(value: Any) -> dict[str, Any]:
    """What a notebook shows of a value."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if (table := getattr(value, "_repr_html_", lambda: None)()) is not None:
        data["text/html"] = table.splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    return {"output_type": "execute_result", "data": data, "metadata": {}}


def execute(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells with the outputs of their code."""
    names: dict[str, Any] = {"__name__": "tour"}
    done, number = [], 0
    for cell in cells:
        if cell["cell_type"] == "code":
            number += 1
            outputs = execute_cell("".join(cell["source"]), names)
            for output in outputs:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = number
            cell = {**cell, "execution_count": number, "outputs": outputs}
        done.append(cell)
    return done


def main() -> None:
    """Execute the notebook in an empty directory and write it back."""
    notebook = json.loads(TOUR.read_text())
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        notebook["cells"] = execute(notebook["cells"])
    TOUR.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
