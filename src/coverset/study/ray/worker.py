"""Run one unit of a study inside a Ray worker, under the conditions of the process that started the study.

Compiled programs split their work by the number of threads, which changes the reduction order and so the last digits.
A worker therefore uses as many threads as the process that started the study, whatever its own machine has.
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
from coverset.study.engine import UnitOutcome, UnitState, attempt
from coverset.study.file_transfer import Changes, find_changes, read_snapshot, write_changes
from coverset.study.units import Unit

FLAGS = "XLA_FLAGS"
"""Like `THREADS`, an environment variable that XLA reads at the first computation of a process."""
SECONDS_BETWEEN_MESSAGES = 0.5


@dataclass(frozen=True)
class Conditions:
    """Everything outside a unit that determines which bytes it writes, and where."""

    versions: Mapping[str, str]
    variables: Mapping[str, str]
    import_path: tuple[str, ...]
    """Where `module:function` names are imported from."""
    compilation_cache: str | None
    """Only within one machine: programs compiled here may not run on another."""
    mark: str
    """Name of a file beside the experiment; a worker that finds it shares the file system."""
    grant: Grant
    """What the user trusts, and the key that marks files written by workers as the user's own."""

    @classmethod
    def capture(cls, *, mark: str, one_machine: bool) -> "Conditions":
        """The conditions of this process."""
        cache = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
        variables = {THREADS: count_threads(), FLAGS: os.environ.get(FLAGS, "")}
        return cls(versions(), variables, tuple(sys.path), cache if one_machine else None, mark, trust_store.grant())

    def adopt(self) -> None:
        """Apply the conditions to this process; raises RuntimeError if installed versions differ."""
        for name, version in versions().items():
            if version != self.versions[name]:
                raise RuntimeError(
                    f"{platform.node()} has {name} {version}, but the study was started with {self.versions[name]}, "
                    "and results would differ: install the same version on all machines."
                )
        trust_store.adopt(self.grant)
        os.environ.update(self.variables)
        sys.path.extend(entry for entry in self.import_path if entry not in sys.path)
        if self.compilation_cache is not None:
            jax.config.update("jax_compilation_cache_dir", self.compilation_cache)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@dataclass(frozen=True)
class UnitResult:
    """What a worker returns."""

    outcome: UnitOutcome
    changes: Changes | None = None
    """Changed files of the experiment, if the worker does not share the file system."""


class MailboxReporter(Reporter):
    """Reports to a mailbox, at a limited rate so that training with short chunks is not slowed down."""

    def __init__(self, mailbox: Any, unit: str) -> None:
        self.mailbox = mailbox
        self.unit = unit
        self.last_message = self.last_query = -float("inf")
        self.stopping = False

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        self.mailbox.post.remote(self.unit, "start", (title, seeds, steps_done, total_steps))

    def chunk(self, env_steps: int, status: str) -> None:
        if time.monotonic() - self.last_message > SECONDS_BETWEEN_MESSAGES:
            self.last_message = time.monotonic()
            self.mailbox.post.remote(self.unit, "chunk", (env_steps, status))

    def warn(self, sentence: str) -> None:
        self.mailbox.post.remote(self.unit, "warn", (sentence,))

    def should_stop(self) -> bool:
        import ray

        if not self.stopping and time.monotonic() - self.last_query > SECONDS_BETWEEN_MESSAGES:
            self.stopping = bool(ray.get(self.mailbox.should_stop.remote()))
            self.last_query = time.monotonic()
        return self.stopping


def run_unit(conditions: Conditions, mailbox: Any, sent: tuple[Any, Any]) -> UnitResult:
    """Run a unit in this worker.

    Args:
      conditions: adopted first, since unpickling the unit may need their import path.
      mailbox: receives progress.
      sent: references to the unit and to the files of its experiment, which are fetched only if needed.
    """
    import ray

    conditions.adopt()
    unit: Unit = ray.get(sent[0])
    reporter = MailboxReporter(mailbox, unit.name)
    if reporter.should_stop():
        return UnitResult(UnitOutcome(unit.name, UnitState.TO_DO))
    if (unit.experiment.directory.parent / conditions.mark).is_file():
        return UnitResult(attempt(unit, reporter))
    return run_on_copy(unit, ray.get(sent[1]), reporter)


def run_on_copy(unit: Unit, before: Mapping[str, bytes], reporter: Reporter) -> UnitResult:
    """Run a unit on a copy of its experiment and return the changed files, whether or not the unit succeeded."""
    with tempfile.TemporaryDirectory(prefix="coverset-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch) / unit.experiment.directory.name
        write_changes(directory, Changes(before, ()))
        outcome = attempt(replace(unit, experiment=replace(unit.experiment, directory=directory)), reporter)
        return UnitResult(outcome, find_changes(before, read_snapshot(directory)))
