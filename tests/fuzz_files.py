"""Files of a small study, mutated in every way we could think of, and the loaders that must bear them.

Whatever a file holds, a loader succeeds or raises what the command line turns into one sentence and exit code 2.
As a program, `python tests/fuzz_files.py COUNT SEED`, it prints what that many files cost, as JSON.
"""

import io
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import safe_open

import toy_run
from coverset.adhoc.saved import load_agent_policy
from coverset.cli.main import _format_error
from coverset.cli.tables import print_summaries
from coverset.exported.file import load_saved
from coverset.partners import PartnerGame, check_fits, find_group, read_run
from coverset.pipeline.certify import _read as read_to_certify
from coverset.pipeline.generate import GenerationJob, make_plan
from coverset.pipeline.loop import Clock, seed_groups
from coverset.pipeline.report import make_document, read_study
from coverset.policies.population import load_population
from coverset.policy import Policy
from coverset.reports.records import read_run_summary
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile, load_tensors
from coverset.studio.catalogue import Catalogue
from coverset.studio.files import SafeDirectory
from coverset.studio.recordings import RecordingStore
from coverset.studio.records import RunRecords
from coverset.study.time_estimates import find_recorded_speed
from coverset.study.units import Evaluation, Experiment
from coverset.types import Percept
from fuzz_mutations import mutators
from fuzz_study import CHUNK, RECORDING, SEED, make_study, state_shapes

USER_ERRORS = (ValueError, TypeError, OSError)
"""What `cli.main` turns into a sentence."""
HANG_SECONDS = 60


@dataclass
class Loaders:
    """Everything that reads a file of the study at `root`, by the file's name."""

    root: Path
    readers: dict[str, tuple[Callable[[], Any], ...]] = field(init=False)
    reports: int = 0

    def __post_init__(self) -> None:
        seed, plan = self.root / SEED, make_plan("matrix", **toy_run.SETTINGS)
        run, agent = RunDirectory(seed), RunDirectory(seed / "plastic")
        like, job = state_shapes(), GenerationJob(plan, (0,))
        experiment = Experiment("matrix", "lbrdiv", "fast", (0,), self.root / "matrix", toy_run.SETTINGS)
        config, environment = plan.config(0), plan.environment
        pages = (self.read_report, self.read_studio)
        self.readers = {
            f"{SEED}/policies.safetensors": (
                lambda: load_population(seed / "policies.safetensors"),
                lambda: load_saved(seed / "policies.safetensors"),
                lambda: read_run(seed),
                lambda: check_library(seed / "policies.safetensors"),
            ),
            **{
                f"{SEED}/{learner}/agent.safetensors": (
                    lambda path=seed / learner / "agent.safetensors": try_agent(*load_agent_policy(path)),
                    lambda path=seed / learner: find_group(str(path), PartnerGame(environment, config), seat=0),
                )
                for learner in ("rl2", "feedforward", "plastic")
            },
            f"{SEED}/checkpoints/{CHUNK:08d}.safetensors": (lambda: run.load_checkpoint(CHUNK, like),),
            f"{SEED}/config.json": (
                lambda: read_run(seed),
                lambda: read_to_certify(seed),
                lambda: run.check_claim(config, resume=True),
                lambda: seed_groups({0: run}, 1),
                lambda: run.describe_version_changes(config),
                *pages,
            ),
            f"{SEED}/summary.json": (
                lambda: show_summary(run),
                lambda: find_recorded_speed(self.root / "matrix", "matrix", "fast"),
                *pages,
            ),
            f"{SEED}/metrics.jsonl": (
                run.rows,
                lambda: run.count_intact_rows(job.check_row),
                lambda: run.rewind(CHUNK, 2),
                *pages,
            ),
            f"{SEED}/timing.json": (lambda: Clock([seed / "timing.json"], 1.0, lambda sentence: None),),
            f"{SEED}/certificate.json": pages,
            f"{SEED}/plastic/config.json": (lambda: agent.check_same_run(config), *pages),
            f"{SEED}/plastic/summary.json": (agent.summary, *pages),
            f"{SEED}/plastic/evaluation.json": (lambda: Evaluation(experiment, "plastic").seeds_left(), *pages),
            f"recordings/{RECORDING}.json": (lambda: self.recordings().load(RECORDING), self.list_recordings),
        }

    def read_report(self) -> None:
        """Every other time, and seldom the page itself: they take longer than all others together."""
        self.reports += 1
        if self.reports % 2:
            study = read_study(self.root)
            if self.reports % 50 == 1:
                make_document("title", *study)

    def read_studio(self) -> None:
        directory = SafeDirectory(self.root)
        records = RunRecords(directory)
        for run in Catalogue(directory).runs().values():
            json.dumps(records.details(run), allow_nan=False).encode()

    def recordings(self) -> RecordingStore:
        return RecordingStore(SafeDirectory(self.root))

    def list_recordings(self) -> None:
        json.dumps(self.recordings().briefs(), allow_nan=False).encode()


def show_summary(run: RunDirectory) -> None:
    """What `generate` prints of a run that is done."""
    with redirect_stdout(io.StringIO()):
        print_summaries([read_run_summary(run)])


def try_agent(policy: Policy, about: dict[str, Any]) -> None:
    """An agent that was accepted can play."""
    check_fits("agent", policy, make_plan("matrix").environment, seat=about["seat"])
    percept = Percept(jnp.zeros(1), jnp.float32(0.0), jnp.bool_(True))
    jax.eval_shape(policy.act, jax.random.key(0), percept, policy.initial_memory())


def check_library(path: Path) -> None:
    """What our reader of safetensors accepts, the library reads as the same."""
    tensors, _ = load_tensors(path)
    with safe_open(path, framework="numpy") as file:
        assert sorted(file.keys()) == sorted(tensors)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(file.get_tensor(name), tensor)


def wrong_end(read: Callable[[], Any], path: Path) -> str | None:
    """How reading ended, if that was neither success nor one sentence about the file."""
    try:
        read()
    except USER_ERRORS as error:
        sentence = _format_error(error)
        if not sentence.endswith(".") or len(sentence) > 1500:
            return f"{type(error).__name__}: {sentence[:300]}"
        if isinstance(error, DamagedFile) and path.name not in sentence and path.parent.name not in sentence:
            return f"The file is not named: {sentence}"
    except BaseException as error:  # also what a native library may throw
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


@dataclass
class Findings:
    """What came of some files. Seconds are of this process alone, however busy the machine is."""

    files: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slowest_read: str = ""


def fuzz(root: Path, count: int, seed: int, *, thorough: bool) -> Findings:
    """Write `count` mutated files in turn, each among the whole others, and read them.

    Args:
      thorough: by everything that reads such a file; else by one of its readers in turn.
    """
    rng = random.Random(seed)
    loaders, found = Loaders(root), Findings()
    whole = {name: (root / name).read_bytes() for name in loaders.readers}
    signal.signal(signal.SIGALRM, _too_long)
    for number in range(count):
        name = [*whole][number % len(whole)]
        mutate, readers = rng.choice(mutators(name)), loaders.readers[name]
        (root / name).write_bytes(mutate(rng, whole[name]))
        for read in readers if thorough else (readers[number // len(whole) % len(readers)],):
            what = f"{name} by {mutate.__name__}, number {number}, reader {readers.index(read)}"
            began = time.process_time()
            signal.alarm(HANG_SECONDS)
            end = wrong_end(read, root / name)
            signal.alarm(0)
            found.wrong += [f"{what}: {end}"] if end else []
            found.slowest, found.slowest_read = max(
                (found.slowest, found.slowest_read), (time.process_time() - began, what)
            )
        (root / name).write_bytes(whole[name])
        found.files += 1
    return found


def _too_long(*_: Any) -> None:
    raise RuntimeError(f"Reading took more than {HANG_SECONDS} seconds.")


def peak_megabytes() -> float:
    """The most memory that this program has held. `ru_maxrss` would include that of the process which started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main(count: int, seed: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        make_study(root)
        fuzz(root, 100, seed + 1, thorough=True)  # what is imported and compiled once is not the files' cost
        before = peak_megabytes()
        found = fuzz(root, count, seed, thorough=True)
        peak = peak_megabytes()
        print(json.dumps({**vars(found), "megabytes_before": before, "megabytes": peak}))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
