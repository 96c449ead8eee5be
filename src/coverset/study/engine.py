"""The interface of study engines, which run the units of a study, and the engine that runs them in this process."""

import abc
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from coverset.pipeline.loop import Reporter, Stopped
from coverset.runs.storage import InUseError
from coverset.study.units import Unit


class UnitState(StrEnum):
    """State of a unit after a study."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """A unit that it depends on is not done."""
    IN_USE = "in use"
    """Another process is working on it."""
    STOPPED = "stopped"
    """Interrupted, with a checkpoint to resume from."""
    TO_DO = "to do"
    NOT_POSSIBLE = "not possible"
    """The environment does not support it."""


@dataclass(frozen=True)
class UnitOutcome:
    """Result of one unit of a study."""

    name: str
    state: UnitState
    seconds: float | None = None
    """Time spent on the unit in this study; None if it was not run."""
    error: str | None = None
    """Why the unit is not done, in one sentence."""

    def to_json(self) -> dict[str, Any]:
        """The record that `coverset reproduce --json` prints."""
        return asdict(self)


class StudyReporter(Reporter):
    """Receives the progress of a study. The base class ignores it."""

    def unit_reporter(self, name: str) -> Reporter:
        """The reporter for one unit, used when several units run in parallel."""
        return self

    def unit_finished(self, outcome: UnitOutcome) -> None:
        """Called when the engine has finished with a unit, whether or not it succeeded."""


class StudyEngine(abc.ABC):
    """Runs units in dependency order."""

    @abc.abstractmethod
    def run(self, units: Sequence[Unit], reporter: StudyReporter) -> list[UnitOutcome]:
        """Run the units that are not done and return the outcome of every unit, in the given order.

        `units` is sorted so that each unit follows its dependencies. A failed unit stops only the units that depend on
        it. When the reporter asks to stop, running units save a checkpoint and no further unit starts.
        """


class LocalEngine(StudyEngine):
    """Runs units sequentially in this process."""

    def run(self, units: Sequence[Unit], reporter: StudyReporter) -> list[UnitOutcome]:
        outcomes: dict[str, UnitOutcome] = {}
        for unit in units:
            outcome = find_settled_outcome(unit, outcomes)
            if outcome is None:
                outcome = UnitOutcome(unit.name, UnitState.TO_DO) if reporter.should_stop() else attempt(unit, reporter)
            outcomes[unit.name] = outcome
            reporter.unit_finished(outcome)
        return [*outcomes.values()]


def find_settled_outcome(unit: Unit, before: Mapping[str, UnitOutcome]) -> UnitOutcome | None:
    """The outcome of a unit that is already done or cannot run; None if it should be run."""
    if (obstacle := unit.find_obstacle()) is not None:
        return UnitOutcome(unit.name, UnitState.NOT_POSSIBLE, error=obstacle)
    missing = [before[name] for name in unit.dependencies if before[name].state is not UnitState.DONE]
    if not missing:
        return _check_files(unit)
    if missing[0].state in (UnitState.STOPPED, UnitState.TO_DO):
        return UnitOutcome(unit.name, UnitState.TO_DO)
    error = f"It depends on {missing[0].name}, which is {missing[0].state}."
    return UnitOutcome(unit.name, UnitState.SKIPPED, error=error)


def _check_files(unit: Unit) -> UnitOutcome | None:
    """The outcome according to the unit's files; None if work is left to do."""
    try:
        return UnitOutcome(unit.name, UnitState.DONE) if unit.is_done() else None
    except Exception as failure:  # unreadable files of one unit must not stop the others
        return UnitOutcome(unit.name, UnitState.FAILED, error=describe_failure(failure))


def attempt(unit: Unit, reporter: Reporter) -> UnitOutcome:
    """Run one unit and turn any exception into an outcome."""
    started = time.monotonic()
    try:
        unit.run(reporter)
        state, error = UnitState.DONE, None
    except Stopped as stopped:
        state, error = UnitState.STOPPED, str(stopped)
    except InUseError as use:
        state, error = UnitState.IN_USE, str(use)
    except Exception as failure:  # one failed unit must not end a study of several hours
        state, error = UnitState.FAILED, describe_failure(failure)
    return UnitOutcome(unit.name, state, round(max(0.0, time.monotonic() - started), 3), error)


def describe_failure(failure: Exception) -> str:
    """The message in one line, preceded by the exception's type unless the message is written for users."""
    words = " ".join(str(failure).split())
    return words if words and isinstance(failure, ValueError | OSError) else f"{type(failure).__name__}: {words}"
