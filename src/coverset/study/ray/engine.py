"""Run the units of a study in parallel on a Ray cluster, in dependency order, and retry units whose worker is lost."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from coverset.checks import check_at_least
from coverset.study.engine import (
    StudyEngine,
    StudyReporter,
    UnitOutcome,
    UnitState,
    describe_failure,
    find_settled_outcome,
)
from coverset.study.file_transfer import read_snapshot, write_changes
from coverset.study.ray.cluster import connect
from coverset.study.ray.mailbox import Mailbox
from coverset.study.ray.worker import Conditions, UnitResult, run_unit
from coverset.study.units import Unit

RETRIES = 3
POLL_SECONDS = 0.2


class RayEngine(StudyEngine):
    """Runs units in the workers of a Ray cluster, one CPU each; starts a local cluster unless given an address.

    A worker that shares the file system writes directly to the experiment's directory. Otherwise the files are copied
    to the worker, and its changes are copied back when the unit ends.
    """

    def __init__(self, address: str | None = None, *, cpus: int | None = None, retries: int = RETRIES) -> None:
        """Check the arguments; nothing starts before `run`.

        Args:
          address: `HOST:PORT` of a running cluster that includes this machine, or `auto` to find it.
          cpus: CPUs of a local cluster, and so the number of units in parallel (default: all CPUs of this machine).
          retries: how many times a unit is rerun after its worker was lost.
        """
        if cpus is not None:
            check_at_least("cpus", cpus, 1)
            if address is not None:
                raise ValueError(
                    "cpus is for a local cluster; a cluster with an address uses the CPUs it was started with."
                )
        check_at_least("retries", retries, 0)
        self.address = address
        self.cpus = cpus
        self.retries = retries

    def run(self, units: Sequence[Unit], reporter: StudyReporter) -> list[UnitOutcome]:
        with ExitStack() as stack:
            ray = stack.enter_context(connect(self.address, self.cpus))
            mark = stack.enter_context(place_marker(units))
            conditions = Conditions.capture(mark=mark, one_machine=self.address is None)
            return Dispatcher(ray, conditions, self.retries, reporter).run(units)


class Dispatcher:
    """Dispatches the units of one study to a cluster."""

    def __init__(self, ray: ModuleType, conditions: Conditions, retries: int, reporter: StudyReporter) -> None:
        self.ray = ray
        self.retries = retries
        self.reporter = reporter
        self.conditions = ray.put(conditions)
        # The mailbox may be lost like any worker; Ray restarts it and repeats the calls.
        restarting = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        self.mailbox = ray.remote(**restarting)(Mailbox).remote()
        # Ray's own retries would be silent and would continue after a stop.
        self.task = ray.remote(num_cpus=1, max_retries=0)(run_unit)
        self.running: dict[Any, Unit] = {}
        self.losses: dict[str, int] = {}
        self.outcomes: dict[str, UnitOutcome] = {}

    def run(self, units: Sequence[Unit]) -> list[UnitOutcome]:
        """Run all units and return their outcomes."""
        waiting = list(units)
        while waiting or self.running:
            waiting = [unit for unit in waiting if not self._settle_or_start(unit)]
            self._relay_messages()
            if self.running:
                ready, _ = self.ray.wait([*self.running], timeout=POLL_SECONDS)
                for reference in ready:
                    self._finish(self.running.pop(reference), reference)
        self._relay_messages()
        return [self.outcomes[unit.name] for unit in units]

    def _settle_or_start(self, unit: Unit) -> bool:
        """Settle or start a unit; False if it has to wait."""
        if any(name not in self.outcomes for name in unit.dependencies):
            return False
        outcome = find_settled_outcome(unit, self.outcomes)
        if outcome is None and self.reporter.should_stop():
            outcome = UnitOutcome(unit.name, UnitState.TO_DO)
        if outcome is None:
            self._start(unit)
        else:
            self._record(outcome)
        return True

    def _start(self, unit: Unit) -> None:
        directory = unit.experiment.directory.absolute()
        absolute = replace(unit, experiment=replace(unit.experiment, directory=directory))
        # References inside a tuple are not resolved until the worker asks for their content.
        sent = (self.ray.put(absolute), self.ray.put(read_snapshot(directory)))
        self.running[self.task.remote(self.conditions, self.mailbox, sent)] = unit

    def _finish(self, unit: Unit, reference: Any) -> None:
        try:
            result: UnitResult = self.ray.get(reference)
            if result.changes is not None:
                write_changes(unit.experiment.directory, result.changes)
        except (self.ray.exceptions.RayTaskError, OSError) as failure:
            cause = getattr(failure, "cause", None) or failure
            self._record(UnitOutcome(unit.name, UnitState.FAILED, error=describe_failure(cause)))
        except self.ray.exceptions.RayError as loss:
            self._retry(unit, loss)
        else:
            self._record(result.outcome)

    def _retry(self, unit: Unit, loss: Exception) -> None:
        """Restart a unit whose worker was lost, unless its retries are used up or the study is stopping."""
        self.losses[unit.name] = losses = self.losses.get(unit.name, 0) + 1
        if self.reporter.should_stop():
            self._record(
                UnitOutcome(unit.name, UnitState.STOPPED, error="Its worker was lost; the run can be resumed.")
            )
        elif losses > self.retries:
            error = f"Its worker was lost {losses} times, last by {type(loss).__name__}; the run can be resumed."
            self._record(UnitOutcome(unit.name, UnitState.FAILED, error=error))
        else:
            self.reporter.warn(f"{unit.name} lost its worker and is restarted (retry {losses} of {self.retries}).")
            self._start(unit)

    def _record(self, outcome: UnitOutcome) -> None:
        self.outcomes[outcome.name] = outcome
        self.reporter.unit_finished(outcome)

    def _relay_messages(self) -> None:
        """Pass stop requests to the workers and their messages to the reporter."""
        if self.reporter.should_stop():
            self.mailbox.ask_to_stop.remote()
        for unit, method, arguments in self.ray.get(self.mailbox.collect.remote()):
            if unit not in self.outcomes:
                getattr(self.reporter.unit_reporter(unit), method)(*arguments)


@contextmanager
def place_marker(units: Sequence[Unit]) -> Iterator[str]:
    """Keep a uniquely named file beside all experiments while the study runs."""
    name = f".{uuid.uuid4().hex}.tmp"
    marks = [place / name for place in {unit.experiment.directory.parent for unit in units}]
    try:
        for mark in marks:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        yield name
    finally:
        for mark in marks:
            mark.unlink(missing_ok=True)
