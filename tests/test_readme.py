"""The README's Python block runs as it stands; only sizes are made small here. tests/docs follows its links."""

import pages


def test_the_python_example_runs(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    pages.shrink(monkeypatch)
    (block,) = (block for block in pages.blocks((pages.ROOT / "README.md").read_text()) if block.kind == "python")
    names: dict = {}
    exec(block.text, names)
    assert "of 3" in capsys.readouterr().out
    assert names["action"] in range(3)
    assert len(names["runs"]) == 2
