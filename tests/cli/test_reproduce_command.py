"""`coverset reproduce` as people and scripts meet it: tables, JSON, exit codes, and real processes that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

import toy_study
from coverset.cli.main import run
from coverset.cli.tables import format_duration
from coverset.runs.directory import RunDirectory
from coverset.study import reproduce
from coverset.study.planning import plan_study
from toy_study import results

PATIENCE = 300
CHUNKS = 600
LONG = {"total_steps": CHUNKS * 80}
"""Long enough to be killed in the middle of each training, however fast the machine."""
RUN = Path("matrix-brdiv-fast") / "seed-0"


def arguments(out: Path, **changes) -> list[str]:
    chosen = ["--methods", "brdiv", "--seeds", "0", "--out", str(out)]
    return ["reproduce", "matrix", *chosen, *toy_study.words(changes, changes)]


def start(out: Path, *options: str) -> subprocess.Popen:
    """A real process, which shares the tests' compiled programs."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    program = [sys.executable, "-c", "from coverset.cli.main import main; main()"]
    command = [*program, *arguments(out, **LONG), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, **pipes, text=True)


def stop_in(out: Path, log: Path, how: signal.Signals) -> subprocess.Popen:
    """Start the study, and end it as soon as a log has rows."""
    process = start(out)
    deadline = time.monotonic() + PATIENCE
    while not (log.is_file() and log.read_bytes().count(b"\n") > 5):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(how)
    return process


@pytest.mark.slow
def test_killed_and_interrupted_a_study_ends_with_the_same_results(tmp_path: Path) -> None:
    """Killed while it generates, interrupted while it trains an agent."""
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    process = stop_in(disturbed, disturbed / RUN / "metrics.jsonl", signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert not (disturbed / RUN / "summary.json").exists()
    process = stop_in(disturbed, disturbed / RUN / "rl2" / "metrics.jsonl", signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == "coverset: stopped; repeat the command to continue.\n"
    assert "stopped" in out
    assert not (disturbed / RUN / "rl2" / "summary.json").exists()
    out, err = start(disturbed, "--json").communicate(timeout=PATIENCE)
    assert err == ""
    assert {unit["state"] for unit in json.loads(out)["units"]} == {"done"}
    assert run([*arguments(whole, **LONG), "--json"]) == 0
    assert results(disturbed) == results(whole)


def test_the_plan_the_study_and_the_study_again(tmp_path: Path, capfd, monkeypatch) -> None:
    monkeypatch.setattr(reproduce, "write_report", lambda directory: directory / "report.html")
    assert run([*arguments(tmp_path), "--dry-run"]) == 0
    assert "matrix-brdiv-fast/generate" in capfd.readouterr().out
    assert not any(tmp_path.iterdir())
    assert run([*arguments(tmp_path), "--dry-run", "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert [unit["state"] for unit in plan["units"]] == ["to do"] * 4
    assert plan["seconds"] == pytest.approx(sum(unit["seconds"] for unit in plan["units"]), abs=0.5)
    assert run(arguments(tmp_path)) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    assert printed.out.count("done") >= 4
    assert run([*arguments(tmp_path), "--json"]) == 0
    again = json.loads(capfd.readouterr().out)
    assert set(again) == {"units", "report"}
    assert again["report"] == str(tmp_path / "report.html")
    assert set(again["units"][0]) == {"name", "state", "seconds", "error"}
    before = results(tmp_path)
    (tmp_path / RUN / "rl2" / "evaluation.json").unlink()
    (tmp_path / RUN / "rl2" / "agent.safetensors").write_bytes(b"nothing")
    assert run([*arguments(tmp_path), "--json"]) == 0
    assert "agent.safetensors is damaged and is made again." in capfd.readouterr().err
    assert results(tmp_path) == before
    (tmp_path / RUN / "certificate.json").unlink()
    config = tmp_path / RUN / "config.json"
    config.write_text(config.read_text().replace('"margin"', '"gone"'))
    assert run([*arguments(tmp_path), "--json"]) == 2
    assert "holds another run" in capfd.readouterr().err


def test_a_second_study_in_the_same_place_is_told_so(tmp_path: Path, capfd) -> None:
    """By a sentence and a code of its own, before anything is begun; a study of other experiments is welcome."""
    place = tmp_path / "matrix-brdiv-fast"
    with reproduce.lock_experiment(place):
        assert run(arguments(tmp_path)) == 3
        printed = capfd.readouterr()
        assert printed.out == ""
        wanted = f"Another `coverset reproduce` is working in {place}: wait for it, or stop it. Nothing was started."
        assert printed.err == f"coverset: {wanted}\n"
        assert [path.name for path in place.iterdir()] == [reproduce.LOCK]
        with reproduce.lock_experiment(tmp_path / "matrix-lipo-fast"):
            pass
    assert not place.exists()


def test_a_unit_on_which_a_command_is_at_work_is_no_failure(tmp_path: Path, capfd, monkeypatch) -> None:
    monkeypatch.setattr(reproduce, "write_report", lambda directory: directory / "report.html")
    directory = RunDirectory(tmp_path / RUN)
    (experiment, *_) = plan_study(["matrix"], methods=["brdiv"], learners=["rl2"], preset="fast", seeds=[0],
        out=tmp_path, generation=toy_study.GENERATION, training=toy_study.TRAINING)  # fmt: skip
    directory.claim({**experiment.config(0), "trained_with": [0]})
    with directory.hold_lock():
        assert run([*arguments(tmp_path), "--json"]) == 3
    printed = capfd.readouterr()
    assert printed.err.startswith("coverset: matrix-brdiv-fast/generate is in use: ")
    states = [unit["state"] for unit in json.loads(printed.out)["units"]]
    assert states == ["in use", "skipped", "skipped", "skipped", "done"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["matrxi"], "Did you mean 'matrix'?"),
        (["matrix", "--methods"], "methods must name at least one"),
        (["matrix", "--methods", "brdif"], "Did you mean 'brdiv'?"),
        (["matrix", "--seeds", "a"], "seeds must be non-negative integers"),
        (["matrix", "--generation", "total_steps"], "generation must be given as NAME=VALUE"),
        (["matrix", "--generation", "total_steps=many"], "total_steps must be a whole number, got 'many'"),
        (["matrix", "--training", "total_steps=0"], "total_steps must be at least 1"),
        (["matrix", "--engine"], "--engine"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, capfd, options: list[str], words: str) -> None:
    assert run(["reproduce", *options, "--out", str(tmp_path)]) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert words in printed.err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "unknown"), (0.4, "0 s"), (99, "99 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_durations_are_for_people(seconds: float | None, words: str) -> None:
    assert format_duration(seconds) == words
