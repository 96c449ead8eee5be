"""`coverset reproduce --engine ray` as people meet it: mistakes in a sentence, and Ctrl-C in a terminal."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

import toy_study
from coverset.cli.main import run
from ray_units import birthmark, processes

PATIENCE = 600


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "rai"], "Did you mean 'ray'?"),
        (["--address", "auto"], "--address needs --engine ray"),
        (["--cpus", "2"], "--cpus needs --engine ray"),
        (["--engine", "ray", "--cpus", "0"], "cpus must be at least 1"),
        (["--engine", "ray", "--cpus", "2", "--address", "auto"], "cpus is for a local cluster"),
        (["--engine", "ray", "--address", "somewhere"], "address must be HOST:PORT"),
        (["--engine", "ray", "--address", "ray://somewhere:1"], "address must be HOST:PORT"),
        (["--engine", "ray", "--address", "127.0.0.1:99999"], "Nothing answers at address 127.0.0.1:99999"),
        (["--engine", "ray", "--address", "{free}"], "start a cluster with `ray start --head`"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, capfd, options: list[str], words: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, but nobody listens
        free = f"127.0.0.1:{nobody.getsockname()[1]}"
        arguments = [option.format(free=free) for option in options]
        assert run(["reproduce", "matrix", *arguments, "--out", str(tmp_path)]) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert words in printed.err
    assert not any(tmp_path.iterdir())


def test_without_ray_it_says_what_to_install(tmp_path: Path, capfd, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(["reproduce", "matrix", "--engine", "ray", "--out", str(tmp_path)]) == 2
    assert capfd.readouterr().err == ("coverset: The ray engine needs the package ray: pip install 'coverset[ray]'.\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes by /proc")
def test_after_a_lost_worker_ctrl_c_stops_in_order_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A terminal sends the signal to all processes that were started from it, Ray's among them."""
    mark = birthmark()
    environment = {
        **os.environ,
        **dict([mark]),
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    settings = toy_study.words(generation={"total_steps": 20_000 * 80})
    out = tmp_path / "out"
    chosen = ["matrix", "--methods", "brdiv", "lipo", "--seeds", "0", "--out", str(out), *settings, "--json"]
    program = [sys.executable, "-c", "from coverset.cli.main import main; main()"]
    process = subprocess.Popen(
        [*program, "reproduce", *chosen, "--engine", "ray", "--cpus", "2"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: len([*out.glob("*/seed-0/metrics.jsonl")]) == 2, process)
    first, second = processes(mark, "ray::run_unit")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: len({*processes(mark, "ray::run_unit")} - {first, second}) == 1, process)
    os.killpg(process.pid, signal.SIGINT)
    printed, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    lost, stopped = err.splitlines()
    assert "lost its worker and is restarted (retry 1 of 3)" in lost
    assert stopped == "coverset: stopped; repeat the command to continue."
    assert {unit["state"] for unit in json.loads(printed)["units"]} == {"stopped", "to do"}
    assert [*out.glob("*/seed-0/checkpoints/*.safetensors")]
    wait_for(lambda: not processes(mark))


def wait_for(condition, process: subprocess.Popen | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
