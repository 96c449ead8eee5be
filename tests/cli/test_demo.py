"""`coverset demo` around its long middle: what it clears away before, and what it shows at the end."""

import json

from coverset.cli import demo
from reports.synthetic import write_agent, write_run


def write_method(directory, method, should_stop):
    """In place of minutes of training: one seed as the commands would leave it."""
    path = directory / "seed-0"
    write_run(path, env="matrix", method=method, seed=0, size=3, level=5.0)
    write_agent(path / "rl2", learner="rl2", seed=0, level=5.0)
    return [json.loads((path / "summary.json").read_text())]


def test_the_demo_ends_in_the_report_and_its_findings(tmp_path, monkeypatch, capsys):
    out = tmp_path / "demo"
    (out / "report").mkdir(parents=True)
    earlier = out / "lbrdiv" / "seed-0" / "config.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("{}")
    monkeypatch.setattr(demo, "_study", write_method)
    assert demo.main(["--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "RL² agents trained with L-BRDiv teammates earn most" in printed
    assert f"The report: {out / 'report' / 'index.html'}" in printed
    assert (out / "report" / "index.html").is_file()
    assert (out / "cross-play.png").is_file()
    assert not earlier.exists()


def test_a_directory_that_is_no_demo_is_not_emptied(tmp_path):
    (tmp_path / "thesis").mkdir()
    demo._empty(tmp_path)
    assert (tmp_path / "thesis").is_dir()
