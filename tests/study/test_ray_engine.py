"""A toy study on a real local Ray cluster: killed workers, stops, failures, other disks, the local engine's bytes."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import pages
import toy_study
from coverset.pipeline.loop import Reporter
from coverset.runs.directory import THREADS
from coverset.study.engine import LocalEngine, StudyEngine, StudyReporter, UnitOutcome
from coverset.study.planning import plan_study
from coverset.study.ray import engine
from coverset.study.ray.cluster import LOOPBACK, connect, set_variables
from coverset.study.ray.engine import RayEngine, place_marker
from coverset.study.ray.worker import FLAGS, Conditions
from coverset.study.units import Experiment, Unit
from ray_units import Dying, Telling, birthmark, processes
from toy_study import CHOICE, GENERATION, TRAINING, results

pytestmark = [
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds workers by /proc"),
    # Ray leaves files open and forgets the objects of processes that it leaves to others to end.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

LONG = {"total_steps": 600 * 80}
"""Long enough to be in the middle of it when the first news arrive."""
METHODS = ("brdiv", "lipo")
OTHER_ADDRESSES = ("10.0.0.5:6379", "$ip:$port")
"""Of clusters on docs/how-to/distributed-studies.md."""
BIRTHMARK = birthmark()


def plan(out: Path, **changes) -> list[Unit]:
    chosen = {**CHOICE, "methods": METHODS, "generation": GENERATION | LONG, "training": TRAINING, **changes}
    return plan_study(("matrix",), learners=("rl2",), preset="fast", out=out, **chosen)


def states(outcomes: list[UnitOutcome]) -> dict[str, str]:
    return {outcome.name.removeprefix("matrix-"): str(outcome.state) for outcome in outcomes}


class Listener(StudyReporter):
    """Notes what is told of units, and does something once when the first is in the middle of its training."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.warnings: list[str] = []
        self.stopping = self.disturbed = False

    def unit_reporter(self, name: str) -> Reporter:
        return UnitListener(self, name)

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)

    def should_stop(self) -> bool:
        return self.stopping

    def disturb(self) -> None:
        """What to do in the middle."""


class UnitListener(Reporter):
    """Passes on what is told of one unit."""

    def __init__(self, listener: Listener, name: str) -> None:
        self.listener, self.name = listener, name

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        self.listener.begun.append((self.name, steps_done))

    def chunk(self, env_steps: int, status: str) -> None:
        if not self.listener.disturbed:
            self.listener.disturbed = True
            self.listener.disturb()


class Stopper(Listener):
    """Asks everybody to stop."""

    def disturb(self) -> None:
        self.stopping = True


class Killer(Listener):
    """Kills a worker that runs a unit."""

    def disturb(self) -> None:
        os.kill(processes(BIRTHMARK, "ray::run_unit")[0], signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[StudyEngine]:
    """Two workers, started once: an engine uses the cluster that its process is connected to."""
    with set_variables(dict([BIRTHMARK])), connect(None, 2):
        yield RayEngine()
    gc.collect()  # while warnings about what Ray has left are ignored


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    """The same study by the local engine."""
    out = tmp_path_factory.mktemp("local")
    assert set(states(LocalEngine().run(plan(out), StudyReporter())).values()) == {"done"}
    return out


@pytest.mark.slow
def test_stopped_and_with_a_worker_killed_a_study_ends_with_the_same_results(
    cluster: StudyEngine, local: Path, tmp_path: Path
) -> None:
    """The stop leaves checkpoints, from which the killed unit goes on too."""
    stopped = states(cluster.run(plan(tmp_path), Stopper()))
    assert "stopped" in (stopped["brdiv-fast/generate"], stopped["lipo-fast/generate"])
    assert set(stopped.values()) <= {"stopped", "to do"}
    assert not [*tmp_path.rglob("summary.json")]
    killer = Killer()
    assert set(states(cluster.run(plan(tmp_path), killer)).values()) == {"done"}
    assert len(killer.warnings) == 1
    lost = killer.warnings[0].removesuffix(" lost its worker and is restarted (retry 1 of 3).")
    assert lost in {unit.name for unit in plan(tmp_path)}
    assert any(steps_done > 0 for _, steps_done in killer.begun)
    assert results(tmp_path) == results(local)
    assert not [*tmp_path.rglob(".*.tmp")]


@pytest.mark.slow
def test_workers_on_another_disk_get_the_files_and_send_back_what_they_changed(
    cluster: StudyEngine, local: Path, tmp_path: Path, monkeypatch
) -> None:
    """Nobody finds a mark that was never made. A stopped training comes back too, and goes on where it was."""
    monkeypatch.setattr(engine, "place_marker", lambda units: place_marker([]))
    cluster.run(plan(tmp_path, methods=("brdiv",)), Stopper())
    listener = Listener()
    assert set(states(cluster.run(plan(tmp_path, methods=("brdiv",)), listener)).values()) == {"done"}
    assert listener.begun[0][1] > 0
    wanted = {name: content for name, content in results(local).items() if "brdiv" in name}
    assert results(tmp_path) == wanted


def test_a_failure_stops_only_what_needs_it(cluster: StudyEngine, local: Path, tmp_path: Path) -> None:
    shutil.copytree(local, tmp_path, dirs_exist_ok=True)
    seed = tmp_path / "matrix-brdiv-fast" / "seed-0"
    (seed / "certificate.json").unlink()
    (seed / "certificate.json").mkdir()
    (tmp_path / "matrix-lipo-fast" / "seed-0" / "certificate.json").unlink()
    outcomes = cluster.run(plan(tmp_path), StudyReporter())
    assert states(outcomes) == {
        "brdiv-fast/generate": "done", "brdiv-fast/certify": "failed",
        "brdiv-fast/rl2/train": "done", "brdiv-fast/rl2/evaluate": "done",
        "lipo-fast/generate": "done", "lipo-fast/certify": "done",
        "lipo-fast/rl2/train": "done", "lipo-fast/rl2/evaluate": "done",
    }  # fmt: skip
    assert "certificate.json" in (outcomes[1].error or "")


def test_a_unit_that_loses_every_worker_fails_after_some_attempts(cluster: StudyEngine, tmp_path: Path) -> None:
    experiment = Experiment("matrix", "lbrdiv", "fast", (0,), tmp_path / "doomed")
    [outcome] = RayEngine(retries=1).run([Dying(experiment, "doomed")], listener := Listener())
    assert outcome.state == "failed"
    assert "worker was lost 2 times" in (outcome.error or "")
    assert len(listener.warnings) == 1
    assert (experiment.directory / "attempts").read_text() == "xx"


def test_workers_are_other_processes_under_the_same_conditions(
    cluster: StudyEngine, tmp_path: Path, monkeypatch
) -> None:
    """Another number of threads would change the last digits of trained policies."""
    monkeypatch.setenv(THREADS, "3")
    experiment = Experiment("matrix", "lbrdiv", "fast", (0,), tmp_path / "told")
    [outcome] = cluster.run([Telling(experiment, "told")], StudyReporter())
    assert (outcome.state, outcome.error) == ("done", None)
    told = json.loads((experiment.directory / "told.json").read_text())
    assert told["variables"] == {THREADS: "3", FLAGS: os.environ[FLAGS]}
    assert told["parent"] != os.getpid()


@pytest.mark.parametrize("auto", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_cluster_with_an_address_is_used_and_left_running(
    cluster: StudyEngine, local: Path, tmp_path: Path, auto: bool
) -> None:
    """Other processes join it by the documented commands with this address; each makes what is missing."""
    import ray

    address = ray.get_runtime_context().gcs_address
    shutil.copytree(local, tmp_path, dirs_exist_ok=True)
    written = [words for words in documented() if "--address" in words]
    assert len(written) == 3
    here = {tuple(address if word in OTHER_ADDRESSES else word for word in words[:5]) for words in written}
    assert len(here) == 2
    for words in (words for words in here if ("auto" in words) == auto):
        done = study_on_ray(list(words), tmp_path, address)
        assert done.stderr == ""
        assert {unit["state"] for unit in json.loads(done.stdout)["units"]} == {"done"}
    assert set(states(cluster.run(plan(tmp_path), StudyReporter())).values()) == {"done"}
    assert results(tmp_path) == results(local)


@pytest.mark.slow
def test_without_an_address_a_cluster_comes_and_goes(local: Path, tmp_path: Path) -> None:
    """The other commands of docs/how-to/distributed-studies.md."""
    shutil.copytree(local, tmp_path, dirs_exist_ok=True)
    for words in documented():
        if "--address" not in words:
            done = study_on_ray(words, tmp_path)
            assert done.stderr == ""
            assert {unit["state"] for unit in json.loads(done.stdout)["units"]} == {"done"}
    assert results(tmp_path) == results(local)


def documented() -> list[list[str]]:
    """The commands on the page about clusters."""
    return pages.commands((pages.ROOT / "docs" / "how-to" / "distributed-studies.md").read_text())


def study_on_ray(words: list[str], out: Path, address: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command of the page in a process of its own, for a finished study of which one certificate is missing."""
    (out / "matrix-lipo-fast" / "seed-0" / "certificate.json").unlink()
    choice = ["--methods", *METHODS, "--seeds", "0", "--out", str(out), "--json"]
    settings = toy_study.words(generation=LONG)
    # On Linux, Ray takes a loopback address for that of the network, on which this cluster does not listen.
    environment = {**os.environ, **(LOOPBACK | {"RAY_ADDRESS": address} if address else {})}
    command = [sys.executable, "-c", "from coverset.cli.main import main; main()", "reproduce", "matrix", *words[1:]]
    return subprocess.run(
        [*command, *choice, *settings], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_a_worker_with_other_packages_refuses(monkeypatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    here = Conditions.capture(mark="", one_machine=False)
    here.adopt()
    with pytest.raises(RuntimeError, match=r"has jax .*, but the study was started with 0\.1, .*: install the same"):
        replace(here, versions={**here.versions, "jax": "0.1"}).adopt()
