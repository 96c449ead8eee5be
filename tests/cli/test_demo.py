"""`coverset demo` around its long middle: what it clears away before, and what it shows at the end."""

import json
from functools import partial

import pytest

import toy_run
from coverset.cli import demo
from coverset.cli.main import run
from coverset.pipeline import generate, train
from reports.synthetic import write_agent, write_run


def write_method(directory, method, should_stop):
    """In place of minutes of training: one seed as the commands would leave it."""
    path = directory / "seed-0"
    write_run(path, env="matrix", method=method, seed=0, size=3, level=5.0)
    write_agent(path / "rl2", learner="rl2", seed=0, level=5.0)
    return [json.loads((path / "summary.json").read_text())]


def test_the_demo_ends_in_the_report_and_its_findings(tmp_path, monkeypatch, capsys):
    out = tmp_path / "demo"
    monkeypatch.setattr(demo, "_run_method", write_method)
    assert run(["demo", "--out", str(out), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3
    earlier = out / "matrix-lbrdiv-fast" / "seed-9" / "config.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("{}")
    capsys.readouterr()
    assert demo.main(["--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "RL² agents trained with L-BRDiv teammates earn most" in printed
    assert f"Report: {out / 'report' / 'index.html'}" in printed
    assert (out / "report" / "index.html").is_file()
    assert (out / "cross-play.png").is_file()
    assert not earlier.exists()


@pytest.mark.slow
def test_the_middle_of_the_demo_does_the_whole_job(tmp_path, monkeypatch, capsys):
    """One method as the demo runs it, but with one seed, small networks and few steps."""
    monkeypatch.setattr(demo, "SEEDS", (0,))
    monkeypatch.setattr(demo, "AGENT_STEPS", 640)
    monkeypatch.setattr(generate, "generate", partial(generate.generate, **toy_run.SETTINGS))
    small = {"hidden_sizes": (4,), "memory_size": 4, "rollout_length": 5, "chunk_steps": 200, "evaluations": 1}
    monkeypatch.setattr(train, "train", partial(train.train, **small))
    (summary,) = demo._run_method(tmp_path, "brdiv", lambda: False)
    assert (summary["method"], summary["env_steps"]) == ("brdiv", toy_run.SETTINGS["total_steps"])
    assert "matrix: brdiv, preset fast" in capsys.readouterr().out
    seed = tmp_path / "seed-0"
    assert json.loads((seed / "certificate.json").read_text())["method"] == "brdiv"
    agent = json.loads((seed / "rl2" / "summary.json").read_text())
    assert (agent["learner"], agent["env_steps"]) == ("rl2", 640)
    assert set(json.loads((seed / "rl2" / "evaluation.json").read_text())["partners"]) == {f"H{n}" for n in range(1, 7)}


def test_a_directory_that_is_no_demo_is_not_emptied(tmp_path):
    (tmp_path / "thesis").mkdir()
    with pytest.raises(ValueError, match="holds thesis"):
        demo._remove_earlier_demo(tmp_path)
    assert (tmp_path / "thesis").is_dir()


@pytest.mark.parametrize(
    "names",
    [
        ["notes.txt"],
        ["mine/seed-0/config.json"],
        ["matrix-lbrdiv-fast/seed-0/config.json"],
        [demo.MARK, "report/index.html", "recordings/recording-1.json"],
    ],
    ids=["only files", "other runs", "a run of the demo's name", "a demo and more"],
)
def test_what_the_demo_has_not_made_is_refused_and_kept(tmp_path, monkeypatch, capsys, names):
    monkeypatch.setattr(demo, "_run_method", write_method)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    assert run(["demo", "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "out must be new, empty or an earlier demo" in printed.err
    assert sorted(tmp_path.rglob("*")) == before
