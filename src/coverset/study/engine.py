"""Who runs the units of a study: the seam at which other engines than this process can be put in."""

import abc
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from coverset.pipeline.loop import Reporter, Stopped
from coverset.runs.storage import InUseError
from coverset.study.units import Unit


class State(StrEnum):
    """What has become of a unit."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """A unit that it needs is not done."""
    IN_USE = "in use"
    """Another process is at work on it."""
    STOPPED = "stopped"
    """In the middle, with what is needed to go on."""
    TO_DO = "to do"
    NOT_POSSIBLE = "not possible"
    """Not for this environment."""


@dataclass(frozen=True)
class Outcome:
    """A unit after the study."""

    name: str
    state: State
    seconds: float | None = None
    """Time spent on it now; None where nothing was left to do or nothing was tried."""
    error: str | None = None
    """One sentence on why it is not done."""

    def to_json(self) -> dict[str, Any]:
        """As `coverset reproduce --json` prints it."""
        return asdict(self)


class StudyReporter(Reporter):
    """How a study talks to whoever started it. This one is silent."""

    def of_unit(self, name: str) -> Reporter:
        """Who hears of the progress of one unit, where several run side by side."""
        return self

    def unit_finished(self, outcome: Outcome) -> None:
        """The engine is through with a unit, well or not."""


class Engine(abc.ABC):
    """Runs units so that each comes after those it needs."""

    @abc.abstractmethod
    def run(self, units: Sequence[Unit], reporter: StudyReporter) -> list[Outcome]:
        """Do all that is left, and say what became of every unit, in their order.

        Units come in an order in which each stands behind those it needs. A unit that fails stops only those that need
        it. Where the reporter asks to stop, what is running is left with a checkpoint and nothing new is begun.
        """


class LocalEngine(Engine):
    """One unit after the other, in this process."""

    def run(self, units: Sequence[Unit], reporter: StudyReporter) -> list[Outcome]:
        outcomes: dict[str, Outcome] = {}
        for unit in units:
            outcome = settled(unit, outcomes)
            if outcome is None:
                outcome = Outcome(unit.name, State.TO_DO) if reporter.should_stop() else attempt(unit, reporter)
            outcomes[unit.name] = outcome
            reporter.unit_finished(outcome)
        return [*outcomes.values()]


def settled(unit: Unit, before: Mapping[str, Outcome]) -> Outcome | None:
    """The outcome of a unit that there is no need or no way to run; None if it should be run."""
    if (obstacle := unit.obstacle()) is not None:
        return Outcome(unit.name, State.NOT_POSSIBLE, error=obstacle)
    missing = [before[name] for name in unit.needs if before[name].state is not State.DONE]
    if not missing:
        return _done_or_damaged(unit)
    if missing[0].state in (State.STOPPED, State.TO_DO):
        return Outcome(unit.name, State.TO_DO)
    return Outcome(unit.name, State.SKIPPED, error=f"It needs {missing[0].name}, which is {missing[0].state}.")


def _done_or_damaged(unit: Unit) -> Outcome | None:
    """The outcome of a unit by its files; None if something is left to do."""
    try:
        return Outcome(unit.name, State.DONE) if unit.is_done() else None
    except Exception as failure:  # files of one unit that cannot be read should not stop the others either
        return Outcome(unit.name, State.FAILED, error=sentence(failure))


def attempt(unit: Unit, reporter: Reporter) -> Outcome:
    """Run one unit; whatever goes wrong with it becomes a sentence."""
    started = time.monotonic()
    try:
        unit.run(reporter)
        state, error = State.DONE, None
    except Stopped as stopped:
        state, error = State.STOPPED, str(stopped)
    except InUseError as use:
        state, error = State.IN_USE, str(use)
    except Exception as failure:  # whatever it is, the other units of a study of hours should go on
        state, error = State.FAILED, sentence(failure)
    return Outcome(unit.name, state, round(max(0.0, time.monotonic() - started), 3), error)


def sentence(failure: Exception) -> str:
    """What went wrong, in one line; its kind is named where the message was not written for the user."""
    words = " ".join(str(failure).split())
    return words if words and isinstance(failure, ValueError | OSError) else f"{type(failure).__name__}: {words}"
