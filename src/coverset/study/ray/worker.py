"""One unit of a study inside a worker of a Ray cluster: under the conditions of whoever started it, or not at all.

Compiled programs split their work by the number of threads of the process, and with it the order of sums and the last
digits. So a worker is given the threads of the process that started the study, whatever the worker's machine has.
"""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from coverset.pipeline.loop import Reporter
from coverset.runs import trust as trust_store
from coverset.runs.directory import THREADS, count_threads, versions
from coverset.runs.trust import Grant
from coverset.study.engine import Outcome, State, attempt
from coverset.study.transfer import Changes, changes, snapshot, write_changes
from coverset.study.units import Unit

FLAGS = "XLA_FLAGS"
"""Like `THREADS`, an environment variable that XLA reads when a process computes for the first time."""
SECONDS_BETWEEN_MESSAGES = 0.5


@dataclass(frozen=True)
class Conditions:
    """Everything outside of a unit that decides which bytes it writes, and where it may put them."""

    versions: Mapping[str, str]
    variables: Mapping[str, str]
    import_path: tuple[str, ...]
    """Where `module:function` is looked for."""
    compilation_cache: str | None
    """Only within one machine: another may not be able to run what this one has compiled."""
    mark: str
    """Name of a file beside the experiment by which a worker knows that it sees the same disk."""
    grant: Grant
    """What the user trusts, and the key by which files of workers are known as the user's own."""

    @classmethod
    def here(cls, *, mark: str, one_machine: bool) -> "Conditions":
        """Those of this process."""
        cache = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
        variables = {THREADS: count_threads(), FLAGS: os.environ.get(FLAGS, "")}
        return cls(versions(), variables, tuple(sys.path), cache if one_machine else None, mark, trust_store.grant())

    def adopt(self) -> None:
        """Make this process work under them; raises RuntimeError if it cannot."""
        for name, version in versions().items():
            if version != self.versions[name]:
                raise RuntimeError(
                    f"{platform.node()} has {name} {version}, but the study was started with {self.versions[name]}, "
                    "and results would differ: install the same on all machines."
                )
        trust_store.adopt(self.grant)
        os.environ.update(self.variables)
        sys.path.extend(entry for entry in self.import_path if entry not in sys.path)
        if self.compilation_cache is not None:
            jax.config.update("jax_compilation_cache_dir", self.compilation_cache)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@dataclass(frozen=True)
class Finished:
    """What a worker sends back."""

    outcome: Outcome
    changes: Changes | None = None
    """The experiment's files, where the worker does not see the disk they belong on."""


class DeskReporter(Reporter):
    """Reports to a desk, seldom enough not to slow down a training of quick chunks."""

    def __init__(self, desk: Any, unit: str) -> None:
        self.desk = desk
        self.unit = unit
        self.told = self.asked = -float("inf")
        self.stopping = False

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        self.desk.leave.remote(self.unit, "start", (title, seeds, steps_done, total_steps))

    def chunk(self, env_steps: int, status: str) -> None:
        if time.monotonic() - self.told > SECONDS_BETWEEN_MESSAGES:
            self.told = time.monotonic()
            self.desk.leave.remote(self.unit, "chunk", (env_steps, status))

    def warn(self, sentence: str) -> None:
        self.desk.leave.remote(self.unit, "warn", (sentence,))

    def should_stop(self) -> bool:
        import ray

        if not self.stopping and time.monotonic() - self.asked > SECONDS_BETWEEN_MESSAGES:
            self.stopping = bool(ray.get(self.desk.should_stop.remote()))
            self.asked = time.monotonic()
        return self.stopping


def run_unit(conditions: Conditions, desk: Any, sent: tuple[Any, Any]) -> Finished:
    """Run a unit in this worker.

    Args:
      conditions: adopted before anything else is looked at: the unit may be of a class that only they lead to.
      desk: whom to report to.
      sent: references to the unit and to the files of its experiment; the files come only if they are needed.
    """
    import ray

    conditions.adopt()
    unit: Unit = ray.get(sent[0])
    reporter = DeskReporter(desk, unit.name)
    if reporter.should_stop():
        return Finished(Outcome(unit.name, State.TO_DO))
    if (unit.experiment.directory.parent / conditions.mark).is_file():
        return Finished(attempt(unit, reporter))
    return run_elsewhere(unit, ray.get(sent[1]), reporter)


def run_elsewhere(unit: Unit, before: Mapping[str, bytes], reporter: Reporter) -> Finished:
    """Run a unit on a copy of its experiment, and tell what has changed, whether or not it came to its end."""
    with tempfile.TemporaryDirectory(prefix="coverset-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch) / unit.experiment.directory.name
        write_changes(directory, Changes(before, ()))
        outcome = attempt(replace(unit, experiment=replace(unit.experiment, directory=directory)), reporter)
        return Finished(outcome, changes(before, snapshot(directory)))
