"""A run that dies before any one of its file operations goes on to the bytes of an undisturbed one.

Death is simulated in this process: from the chosen operation on, every one fails, also those of `finally` blocks,
so that the disk looks as after `kill -9`. What was being written at that moment may be torn. An audit hook sees each
opening for writing, renaming, linking, removing and making of a directory, whoever asks for it.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import toy_run
from coverset.pipeline.generate import generate
from coverset.pipeline.loop import Reporter
from coverset.pipeline.train import train

CHUNKS = 3
TEAMMATES = {**toy_run.SETTINGS, "total_steps": CHUNKS * 80}
AGENT = {
    "total_steps": CHUNKS * 40,
    "hidden_sizes": (4,),
    "memory_size": 4,
    "envs_per_partner": 4,
    "rollout_length": 5,
    "chunk_steps": 40,
    "evaluations": 0,
    "parallel_seeds": 1,
}
CHANGING = ("os.rename", "os.remove", "os.mkdir", "os.link", "os.rmdir", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Died(BaseException):
    """The process is gone: nothing may catch this."""


class Disk:
    """Counts the operations below a directory, and fails all from a given one on."""

    def __init__(self) -> None:
        self.below: str | None = None
        self.last = float("inf")
        self.count = 0
        self.opened: Path | None = None
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple) -> None:
        if self.below is None or not (event in CHANGING or (event == "open" and arguments[2] & WRITING)):
            return
        path = str(arguments[0])
        if not path.startswith(self.below) or (path.endswith("config.json") and event == "open"):
            return  # to lock a run changes nothing
        self.count += 1
        if self.count > self.last:
            raise Died
        self.opened = Path(path) if event == "open" else None

    @contextmanager
    def dying(self, below: Path, *, after: float) -> Iterator[None]:
        """Within the block the disk works for `after` operations."""
        self.below, self.last, self.count, self.opened = str(below), after, 0, None
        try:
            yield
        finally:
            self.below = None


DISK = Disk()


def generation(out: Path, reporter: Reporter | None = None) -> None:
    generate("matrix", out=out, resume=True, checkpoint_seconds=0, reporter=reporter, **TEAMMATES)


def training(out: Path, reporter: Reporter | None = None) -> None:
    train(out, resume=True, checkpoint_seconds=0, reporter=reporter, **AGENT)


def results(run: Path) -> dict[str, bytes]:
    """Every file of a run but for what depends on clocks, and older checkpoints."""
    files = (path for path in run.rglob("*") if path.is_file() and path.name not in ("summary.json", "timing.json"))
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in files
        if path.parent.name != "checkpoints" or int(path.stem) == CHUNKS
    }


def die(work: Callable[[Path], None], out: Path, operation: int, *, torn: bool) -> None:
    """Work until the operation; what was opened just before it is cut in half where it is to be torn."""
    with DISK.dying(out, after=operation), suppress(Died):
        work(out)
        return  # a session after a death may have less to do
    if torn and DISK.opened is not None and DISK.opened.is_file():
        whole = DISK.opened.read_bytes()
        lines = whole.splitlines(keepends=True)
        half = b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2] if DISK.opened.suffix == ".jsonl" else whole[:99]
        DISK.opened.write_bytes(half)


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> tuple[Path, int]:
    """An undisturbed run, and how many operations it takes."""
    out = tmp_path_factory.mktemp("generated")
    with DISK.dying(out, after=float("inf")):
        generation(out)
    return out, DISK.count


@pytest.fixture(scope="module")
def trained(generated, tmp_path_factory) -> tuple[Path, int]:
    out = copied(generated[0], tmp_path_factory.mktemp("trained"))
    with DISK.dying(out, after=float("inf")):
        training(out)
    return out, DISK.count


def copied(generated: Path, out: Path) -> Path:
    """Teammates alone."""
    (out / "seed-0").mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "summary.json", "policies.safetensors"):
        (out / "seed-0" / name).write_bytes((generated / "seed-0" / name).read_bytes())
    return out


def check_points(work: Callable[[Path], None], whole: Path, new: Callable[[int], Path], points: list[int]) -> None:
    """Die at each of the points in turn, in directories of their own, and go on."""
    for point in points:
        out = new(point)
        die(work, out, point, torn=point % 2 == 1)
        assert DISK.count > point
        work(out)
        run = next(path for path in (out / "seed-0" / "rl2", out / "seed-0") if path.is_dir())
        reference = whole / run.relative_to(out)
        assert results(run) == results(reference), f"after operation {point}"


def sample(count: int, size: int) -> list[int]:
    return sorted(random.Random(count).sample(range(count), min(size, count)))


@pytest.mark.parametrize("size", [8, pytest.param(10_000, marks=pytest.mark.slow)])
def test_teammates(generated, tmp_path: Path, size: int) -> None:
    whole, count = generated
    assert count > 40
    check_points(generation, whole, lambda point: tmp_path / str(point), sample(count, size))


@pytest.mark.parametrize("size", [6, pytest.param(10_000, marks=pytest.mark.slow)])
def test_agents(generated, trained, tmp_path: Path, size: int) -> None:
    whole, count = trained
    assert count > 30
    check_points(training, whole, lambda point: copied(generated[0], tmp_path / str(point)), sample(count, size))


@pytest.mark.slow
def test_dying_again_and_again(generated, tmp_path: Path) -> None:
    """Ten deaths in one run, each at an operation of the session that the death before has left to do."""
    moments = random.Random(1)
    for attempt in range(5):
        out = tmp_path / str(attempt)
        for _ in range(10):
            die(generation, out, moments.randrange(30), torn=moments.random() < 0.5)
        generation(out)
        assert results(out / "seed-0") == results(generated[0] / "seed-0")
