"""What may happen to the place of a run: a full disk, a removed directory, lost results, a second process, odd clocks.

Nothing is lost, and everything is said in one sentence.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

import toy_run
from coverset.cli.main import run
from coverset.cli.progress import CommandProgress
from coverset.pipeline.loop import Clock
from coverset.policies.population import load_population, save_population
from coverset.runs.directory import AgentDirectory, RunDirectory

CHUNKS = 4
WORDS = toy_run.words(total_steps=CHUNKS * 80)
AGENT = ["--total-steps", "120", "--hidden-sizes", "4", "--memory-size", "4", "--envs-per-partner", "4"]
AGENT += ["--rollout-length", "5", "--chunk-steps", "40", "--evaluations", "0", "--parallel-seeds", "1"]


def generate(out: Path, *options: str, seeds: str = "0", checkpoint_seconds: float = 0) -> int:
    chosen = ["--checkpoint-seconds", str(checkpoint_seconds), "--seeds", seeds, "--out", str(out)]
    return run(["generate", "matrix", *WORDS, *chosen, "--json", *options])


def files(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


def but_clocks(found: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in found.items() if name not in ("timing.json", "summary.json")}


def ended(run: Path) -> dict[str, bytes]:
    """What a run ends with whenever its checkpoints were written: neither clocks, nor older checkpoints, nor agents."""
    found = but_clocks(files(run)).items()
    last = f"checkpoints/{CHUNKS:08d}.safetensors"
    return {k: v for k, v in found if not k.startswith("rl2") and (k == last or not k.startswith("checkpoints"))}


def sentence(capfd) -> str:
    """The one line on standard error."""
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("coverset: ")
    return line


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run with an agent."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert generate(out) == 0
    assert run(["train", str(out), *AGENT, "--json"]) == 0
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def after_chunks(monkeypatch) -> Callable[[int, Callable[[], None]], None]:
    """Have something happen while a run is at work."""

    def arrange(chunks: int, happen: Callable[[], None]) -> None:
        seen = itertools.count(1)
        monkeypatch.setattr(
            CommandProgress, "chunk", lambda self, env_steps, status: happen() if next(seen) == chunks else None
        )

    return arrange


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def fill_with_nan(path: Path) -> None:
    population, about = load_population(path)
    save_population(path, jax.tree.map(lambda weights: weights * np.nan, population), about)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("policies.safetensors", remove),
        ("policies.safetensors", flip),
        ("policies.safetensors", fill_with_nan),
        ("summary.json", cut),
        ("figures/training.png", remove),
        ("figures/cross-play.png", flip),
        ("figures/cross-play.png", cut),
    ],
)
def test_lost_results_of_a_finished_run_are_made_again(capfd, copy: Path, name: str, damage) -> None:
    """From the last checkpoint, without training, to the same bytes, the time that it took among them."""
    before = files(copy / "seed-0")
    damage(copy / "seed-0" / name)
    assert not RunDirectory(copy / "seed-0").is_done()
    assert generate(copy, "--resume") == 0
    said = sentence(capfd)
    assert name in said
    assert ("missing" if damage is remove else "damaged") in said
    assert files(copy / "seed-0") == before


@pytest.mark.parametrize(
    ("name", "damage"), [("agent.safetensors", remove), ("agent.safetensors", flip), ("summary.json", cut)]
)
def test_lost_agents_are_made_again(capfd, copy: Path, name: str, damage) -> None:
    agent = copy / "seed-0" / "rl2"
    before = files(agent)
    damage(agent / name)
    assert not AgentDirectory(agent).is_done()
    if damage is remove:
        assert run(["evaluate", str(copy), "--trials", "1"]) == 2
        assert f"coverset train {copy} --learner rl2 --resume" in sentence(capfd)
    assert run(["train", str(copy), *AGENT, "--json", "--resume"]) == 0
    assert name in sentence(capfd)
    assert files(agent) == before


def test_a_library_of_best_responses_that_is_lost_is_made_again(capfd, copy: Path) -> None:
    arguments = ["train", str(copy), *AGENT, "--learner", "plastic", "--json"]
    assert run(arguments) == 0
    before = files(copy / "seed-0" / "plastic")
    flip(copy / "seed-0" / "plastic" / "agent.safetensors")
    assert run([*arguments, "--resume"]) == 0
    assert files(copy / "seed-0" / "plastic") == before


def test_results_and_last_checkpoint_lost_it_goes_on_from_the_one_before(capfd, copy: Path) -> None:
    before = files(copy / "seed-0")
    cut(copy / "seed-0" / "policies.safetensors")
    cut(copy / "seed-0" / "checkpoints" / f"{CHUNKS:08d}.safetensors")
    assert generate(copy, "--resume") == 0
    assert f"the checkpoint of chunk {CHUNKS - 1}" in capfd.readouterr().err
    assert but_clocks(files(copy / "seed-0")) == but_clocks(before)


def test_a_seed_of_a_group_that_has_lost_everything_says_what_to_remove(capfd, tmp_path: Path) -> None:
    """Alone it would get other bytes; after the removal the same command has all seeds again."""
    options = ("--parallel-seeds", "2", "--resume")
    assert generate(tmp_path, *options, seeds="0..1") == 0
    before = but_clocks(files(tmp_path))
    shutil.rmtree(tmp_path / "seed-1" / "checkpoints")
    remove(tmp_path / "seed-1" / "policies.safetensors")
    kept = files(tmp_path)
    capfd.readouterr()
    assert generate(tmp_path, *options, seeds="0..1") == 2
    assert "trained in one program with seeds 0 1: remove the directories" in capfd.readouterr().err
    assert files(tmp_path) == kept
    for seed in (0, 1):
        shutil.rmtree(tmp_path / f"seed-{seed}")
    assert generate(tmp_path, *options, seeds="0..1") == 0
    skipped = ("timing.json", "summary.json")
    again = {name: data for name, data in files(tmp_path).items() if not name.endswith(skipped)}
    assert again == {name: data for name, data in before.items() if not name.endswith(skipped)}


def test_garbage_in_the_log_is_no_row(capfd, copy: Path) -> None:
    """The log cannot be had but by training; a finished run is left alone, one that is not goes back."""
    before = files(copy / "seed-0")
    log = copy / "seed-0" / "metrics.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"garbage\n", lines[3]]))
    assert generate(copy, "--resume") == 0
    remove(copy / "seed-0" / "summary.json")
    capfd.readouterr()
    assert generate(copy, "--resume") == 0
    assert "metrics.jsonl holds 2 of the 4 rows" in capfd.readouterr().err
    assert but_clocks(files(copy / "seed-0")) == but_clocks(before)


def test_a_damaged_config_says_what_to_do(capfd, copy: Path) -> None:
    cut(copy / "seed-0" / "config.json")
    assert generate(copy, "--resume") == 2
    assert f"Put a copy of it back, or remove {copy / 'seed-0'} to start over." in sentence(capfd)


@pytest.mark.parametrize("what", ["log", "checkpoint"])
def test_a_full_disk_loses_nothing(capfd, after_chunks, whole: Path, tmp_path: Path, what: str) -> None:
    """`/dev/full` is as full as a disk can be."""
    run_path = tmp_path / "seed-0"
    log, kept = run_path / "metrics.jsonl", tmp_path / "kept"

    def fill() -> None:
        if what == "log":
            log.rename(kept)
            log.symlink_to("/dev/full")
        else:
            (run_path / "checkpoints" / f".00000003.safetensors.{os.getpid()}.tmp").symlink_to("/dev/full")

    after_chunks(2, fill)
    assert generate(tmp_path, checkpoint_seconds=1e9 if what == "log" else 0) == 2
    said = sentence(capfd)
    assert said.endswith(": No space left on device.")
    assert ("metrics.jsonl" if what == "log" else "00000003.safetensors") in said
    assert not list(tmp_path.rglob(".*.tmp"))
    if what == "log":
        log.unlink()
        kept.rename(log)
    assert generate(tmp_path, "--resume") == 0
    assert ended(run_path) == ended(whole / "seed-0")


def test_a_removed_directory_is_not_made_again_in_parts(capfd, after_chunks, tmp_path: Path) -> None:
    out = tmp_path / "run"
    after_chunks(2, lambda: shutil.rmtree(out))
    assert generate(out) == 2
    assert sentence(capfd).endswith(
        f"{out / 'seed-0'} was removed or moved while the run was writing to it: start the run again."
    )
    assert not out.exists()
    assert generate(out) == 0


def test_two_at_once_are_told_apart_by_their_code(capfd, copy: Path, tmp_path: Path) -> None:
    remove(copy / "seed-0" / "policies.safetensors")
    with RunDirectory(copy / "seed-0").hold_lock():
        for options in ((), ("--resume",)):
            assert generate(copy, *options) == 3
            assert sentence(capfd).endswith("seed-0 is in use by another process: wait for it, or stop it.")
    assert generate(copy, "--resume") == 0


def test_two_that_claim_the_same_directory_at_the_same_moment_share_one_config(tmp_path: Path, monkeypatch) -> None:
    """The second finds it free, and then finds that it is not."""
    first, second = RunDirectory(tmp_path / "seed-0"), RunDirectory(tmp_path / "seed-0")
    config = {"env": "matrix"}
    monkeypatch.setattr(RunDirectory, "_is_free", lambda self: True)
    assert first.claim(config)
    with first.hold_lock():
        assert second.claim(config) == []
        with pytest.raises(ValueError, match="is in use"), second.hold_lock():
            pass
    with pytest.raises(ValueError, match="holds another run"):
        second.claim({"env": "reaching"})


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file/below", "out must be a writable directory, but"),
        ("n" * 300, "File name too long"),
        ("/proc/nowhere", "out must be a writable directory, but"),
    ],
)
def test_places_that_cannot_be(capfd, tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    assert generate(tmp_path / place) == 2
    assert words in sentence(capfd)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_clock_that_jumps_spends_no_negative_time(monkeypatch, tmp_path: Path) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock([tmp_path / "timing.json"], 5.0, pytest.fail)
    now += 3
    clock.save()
    now -= 800
    assert clock.elapsed() == 0
    assert clock.checkpoint_due(), "nobody knows how long ago the last one was"
    clock.save()
    assert not clock.checkpoint_due()
    assert json.loads((tmp_path / "timing.json").read_text()) == {"train_seconds": 3.0}
    now += 1e6
    assert clock.checkpoint_due()


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_changes_no_result(
    capfd, after_chunks, whole: Path, tmp_path: Path, monkeypatch, jump
) -> None:
    real, offset = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + offset[0])
    after_chunks(2, lambda: offset.__setitem__(0, jump))
    assert generate(tmp_path) == 0
    assert capfd.readouterr().err == ""
    assert ended(tmp_path / "seed-0") == ended(whole / "seed-0")
    assert json.loads((tmp_path / "seed-0" / "summary.json").read_text())["train_seconds"] >= 0


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_disk_that_fills_up_and_is_enlarged(whole: Path, tmp_path: Path) -> None:
    """A real one, in a process of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        program = [sys.executable, "-c", "from coverset.cli.main import main; main()"]
        command = [*program, "generate", "matrix", *WORDS, "--checkpoint-seconds", "0", "--json", "--out", str(disk)]
        first = subprocess.run(command, capture_output=True, text=True)
        assert first.returncode == 2
        assert first.stderr.count("\n") == 1
        assert "No space left on device" in first.stderr
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        assert generate(disk, "--resume") == 0
        assert ended(disk / "seed-0") == ended(whole / "seed-0")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
