"""Real processes, killed, terminated and interrupted at random moments, and resumed to the bytes of an undisturbed run.

Most moments lie in the training, where files are written all the time, and in the measuring and drawing after it; the
others lie anywhere from the start of the process on.
"""

import json
import os
import random
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import jax
import pytest

import toy_run

PATIENCE = 600
MOMENTS = 50
CHUNKS = 200
GENERATE = ["generate", "matrix", "--checkpoint-seconds", "0", "--json"]
GENERATE += toy_run.words(total_steps=CHUNKS * toy_run.SETTINGS["chunk_steps"])
TRAIN = ["--total-steps", str(CHUNKS * 40), "--hidden-sizes", "4", "--memory-size", "4", "--envs-per-partner", "4"]
TRAIN += ["--rollout-length", "5", "--chunk-steps", "40", "--evaluations", "2", "--parallel-seeds", "1", "--json"]
CODES = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}


class Place:
    """Where one command writes, again and again from the start, and how it is called."""

    def __init__(self, root: Path, command: str, generated: Path | None = None) -> None:
        self.root = root
        self.command = command
        self.generated = generated
        self.tries = 0
        self.renew()

    def renew(self) -> None:
        """An untouched directory."""
        self.tries += 1
        out = self.root / f"{self.command}-{self.tries}"
        self.run = out / "seed-0" / ("" if self.generated is None else "rl2")
        if self.generated is None:
            self.arguments = [*GENERATE, "--out", str(out)]
            return
        (out / "seed-0").mkdir(parents=True)
        for name in ("config.json", "summary.json", "policies.safetensors"):
            (out / "seed-0" / name).write_bytes((self.generated / "seed-0" / name).read_bytes())
        self.arguments = ["train", str(out), *TRAIN]

    def start(self) -> BaseProcess:
        """The command, resumed where there is something to resume."""
        from fault_process import start

        return start([*self.arguments, "--resume"], self.log)

    @property
    def log(self) -> Path:
        return self.root / f"{self.command}.log"

    def rows(self) -> int:
        metrics = self.run / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.is_file() else 0

    def results(self) -> dict[str, object]:
        """All that a finished run holds, but for clocks and older checkpoints, which depend on where it was stopped."""
        found: dict[str, object] = {}
        for path in sorted(self.run.rglob("*")):
            name = str(path.relative_to(self.run))
            if path.is_dir() or name == "timing.json" or name.startswith("rl2"):
                continue
            if path.parent.name == "checkpoints" and int(path.stem) < CHUNKS:
                continue
            found[name] = path.read_bytes()
        summary = json.loads((self.run / "summary.json").read_text())
        del summary["train_seconds"], summary["steps_per_second"]
        return {**found, "summary.json": summary}


def wait(process: BaseProcess) -> int | None:
    process.join(PATIENCE)
    return process.exitcode


def disturb(place: Place, how: signal.Signals, moments: random.Random, reach: float) -> bool:
    """Start a session and end it at a random moment; False if it was through before."""
    process = place.start()
    before = place.rows()
    if moments.random() < 0.2:
        time.sleep(moments.uniform(0.0, 2.0))
    else:
        deadline = time.monotonic() + PATIENCE
        while place.rows() == before and process.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, reach))
    if process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, how)
    code = wait(process)
    printed = place.log.read_text()
    if code == 0:
        return False
    assert code == CODES[how], (code, printed)
    if how is not signal.SIGKILL:
        (sentence,) = printed.splitlines()
        assert sentence.startswith("coverset: "), printed
        assert "--resume" in sentence
        assert not list(place.run.rglob(".*.tmp")) or not place.rows()
    return True


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> Place:
    """An undisturbed run of the same processes, which share the tests' compiled programs."""
    place = Place(tmp_path_factory.mktemp("undisturbed"), "generate")
    with pytest.MonkeyPatch.context() as patch:  # what the server of processes sees when it starts
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(jax.config.jax_compilation_cache_dir))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        assert wait(place.start()) == 0, place.log.read_text()
    return place


@pytest.fixture(scope="module")
def trained(generated: Place, tmp_path_factory) -> Place:
    place = Place(tmp_path_factory.mktemp("undisturbed"), "train", generated.run.parent)
    assert wait(place.start()) == 0, place.log.read_text()
    return place


@pytest.mark.slow
@pytest.mark.parametrize("command", ["generate", "train"])
@pytest.mark.parametrize("how", CODES)
def test_ended_at_random_moments_a_run_comes_to_the_same_bytes(
    how: signal.Signals, command: str, request, tmp_path: Path
) -> None:
    undisturbed: Place = request.getfixturevalue("generated" if command == "generate" else "trained")
    wanted = undisturbed.results()
    moments = random.Random(f"{how} {command}")
    place = Place(tmp_path, command, undisturbed.generated)
    hits, compared = 0, 0
    while hits < MOMENTS:
        if disturb(place, how, moments, reach=2.0):
            hits += 1
        else:
            assert place.results() == wanted
            compared += 1
            place.renew()
    assert wait(place.start()) == 0, place.log.read_text()
    assert place.results() == wanted
    assert not list(place.run.rglob(".*.tmp"))
    print(f"{command} {how.name}: {hits} moments, {compared + 1} runs compared")
