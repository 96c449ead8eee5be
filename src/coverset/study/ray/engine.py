"""The units of a study on a Ray cluster: side by side, each behind those it needs, and again if a worker is lost."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from coverset.checks import check_at_least
from coverset.study.engine import Engine, Outcome, State, StudyReporter, sentence, settled
from coverset.study.ray.cluster import connected
from coverset.study.ray.desk import Desk
from coverset.study.ray.worker import Conditions, Finished, run_unit
from coverset.study.transfer import snapshot, write_changes
from coverset.study.units import Unit

RETRIES = 3
POLL_SECONDS = 0.2


class RayEngine(Engine):
    """Runs units in the workers of a Ray cluster, one CPU each; the cluster is a local one unless it is given.

    What a worker writes goes straight to the experiment's directory if it sees the same disk. Otherwise the files
    travel to the worker, and what it changed travels back when it is through.
    """

    def __init__(self, address: str | None = None, *, cpus: int | None = None, retries: int = RETRIES) -> None:
        """Check the choice; nothing is started before `run`.

        Args:
          address: `HOST:PORT` of a running cluster of which this machine is a part, or `auto` to find it.
          cpus: CPUs of a local cluster, and so the number of units side by side; all of this machine's if not given.
          retries: how often a unit is run again after its worker was lost.
        """
        if cpus is not None:
            check_at_least("cpus", cpus, 1)
            if address is not None:
                raise ValueError(
                    "cpus is for a local cluster; a cluster with an address has those it was started with."
                )
        check_at_least("retries", retries, 0)
        self.address = address
        self.cpus = cpus
        self.retries = retries

    def run(self, units: Sequence[Unit], reporter: StudyReporter) -> list[Outcome]:
        with ExitStack() as stack:
            ray = stack.enter_context(connected(self.address, self.cpus))
            mark = stack.enter_context(marked(units))
            conditions = Conditions.here(mark=mark, one_machine=self.address is None)
            return Dispatch(ray, conditions, self.retries, reporter).run(units)


class Dispatch:
    """One study on its way through a cluster."""

    def __init__(self, ray: ModuleType, conditions: Conditions, retries: int, reporter: StudyReporter) -> None:
        self.ray = ray
        self.retries = retries
        self.reporter = reporter
        self.conditions = ray.put(conditions)
        # The desk is a worker too and may be lost like any other; calls wait for the next one.
        lasting = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        self.desk = ray.remote(**lasting)(Desk).remote()
        # Ray would run lost units again by itself, but silently, and also after a stop.
        self.task = ray.remote(num_cpus=1, max_retries=0)(run_unit)
        self.running: dict[Any, Unit] = {}
        self.losses: dict[str, int] = {}
        self.outcomes: dict[str, Outcome] = {}

    def run(self, units: Sequence[Unit]) -> list[Outcome]:
        """Until nothing is left to begin or to wait for."""
        waiting = list(units)
        while waiting or self.running:
            waiting = [unit for unit in waiting if not self._begin(unit)]
            self._tell()
            if self.running:
                ready, _ = self.ray.wait([*self.running], timeout=POLL_SECONDS)
                for reference in ready:
                    self._end(self.running.pop(reference), reference)
        self._tell()
        return [self.outcomes[unit.name] for unit in units]

    def _begin(self, unit: Unit) -> bool:
        """Settle or start a unit; False if it has to wait."""
        if any(name not in self.outcomes for name in unit.needs):
            return False
        outcome = settled(unit, self.outcomes)
        if outcome is None and self.reporter.should_stop():
            outcome = Outcome(unit.name, State.TO_DO)
        if outcome is None:
            self._start(unit)
        else:
            self._note(outcome)
        return True

    def _start(self, unit: Unit) -> None:
        directory = unit.experiment.directory.absolute()
        absolute = replace(unit, experiment=replace(unit.experiment, directory=directory))
        # Inside of a tuple references travel, and what they refer to does not until the worker asks for it.
        sent = (self.ray.put(absolute), self.ray.put(snapshot(directory)))
        self.running[self.task.remote(self.conditions, self.desk, sent)] = unit

    def _end(self, unit: Unit, reference: Any) -> None:
        try:
            finished: Finished = self.ray.get(reference)
            if finished.changes is not None:
                write_changes(unit.experiment.directory, finished.changes)
        except (self.ray.exceptions.RayTaskError, OSError) as failure:
            cause = getattr(failure, "cause", None) or failure
            self._note(Outcome(unit.name, State.FAILED, error=sentence(cause)))
        except self.ray.exceptions.RayError as loss:
            self._again(unit, loss)
        else:
            self._note(finished.outcome)

    def _again(self, unit: Unit, loss: Exception) -> None:
        """Start a unit whose worker is gone once more, unless it was too often or everybody is to stop."""
        self.losses[unit.name] = losses = self.losses.get(unit.name, 0) + 1
        if self.reporter.should_stop():
            self._note(Outcome(unit.name, State.STOPPED, error="Its worker was lost; the run can be resumed."))
        elif losses > self.retries:
            error = f"Its worker was lost {losses} times, at last by {type(loss).__name__}; the run can be resumed."
            self._note(Outcome(unit.name, State.FAILED, error=error))
        else:
            self.reporter.warn(f"{unit.name} lost its worker and is run again ({losses} of {self.retries}).")
            self._start(unit)

    def _note(self, outcome: Outcome) -> None:
        self.outcomes[outcome.name] = outcome
        self.reporter.unit_finished(outcome)

    def _tell(self) -> None:
        """Carry messages between the reporter and the workers."""
        if self.reporter.should_stop():
            self.desk.ask_to_stop.remote()
        for unit, method, arguments in self.ray.get(self.desk.collect.remote()):
            if unit not in self.outcomes:
                getattr(self.reporter.of_unit(unit), method)(*arguments)


@contextmanager
def marked(units: Sequence[Unit]) -> Iterator[str]:
    """Put a file beside all experiments for as long as the study runs; its name is known to nobody else."""
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
