"""The order of units, what failures and interrupts do to the rest, and that units are plain data."""

import pickle
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coverset.pipeline.loop import Stopped
from coverset.study.engine import LocalEngine, StudyReporter, UnitOutcome, UnitState
from coverset.study.units import Certification, Evaluation, Experiment, Generation, Training, Unit

NOWHERE = Experiment("matrix", "lbrdiv", "fast", (0,), Path("nowhere"))


@dataclass(frozen=True)
class Task(Unit):
    """A unit that notes that it ran, and then does as it was told."""

    title: str
    log: list[str]
    after: tuple[str, ...] = ()
    failure: Exception | None = None
    finished: bool = False
    damage: Exception | None = None
    impossible: str | None = None

    @property
    def name(self) -> str:
        return self.title

    @property
    def dependencies(self) -> tuple[str, ...]:
        return self.after

    def find_obstacle(self) -> str | None:
        return self.impossible

    def seeds_left(self) -> list[int]:
        if self.damage is not None:
            raise self.damage
        return [] if self.finished else [0]

    def run(self, reporter) -> None:
        self.log.append(self.title)
        if self.failure is not None:
            raise self.failure

    def seconds_left(self) -> float | None:
        return None


@dataclass
class Watcher(StudyReporter):
    """Notes what it is told, and asks to stop once so much has happened."""

    stop_after: int = 99
    told: list[UnitOutcome] = field(default_factory=list)

    def unit_finished(self, outcome: UnitOutcome) -> None:
        self.told.append(outcome)

    def should_stop(self) -> bool:
        return len(self.told) >= self.stop_after


def states(outcomes: list[UnitOutcome]) -> dict[str, str]:
    return {outcome.name: str(outcome.state) for outcome in outcomes}


def test_finished_units_are_not_run_and_every_outcome_is_told_in_order() -> None:
    log: list[str] = []
    watcher = Watcher()
    units = [Task(NOWHERE, "a", log, finished=True), Task(NOWHERE, "b", log, ("a",)), Task(NOWHERE, "c", log)]
    outcomes = LocalEngine().run(units, watcher)
    assert log == ["b", "c"]
    assert states(outcomes) == {"a": "done", "b": "done", "c": "done"}
    assert [outcome.seconds is None for outcome in outcomes] == [True, False, False]
    assert watcher.told == outcomes


def test_a_failure_stops_only_what_needs_it() -> None:
    log: list[str] = []
    units = [
        Task(NOWHERE, "a", log, failure=ValueError("too\n  small.")),
        Task(NOWHERE, "b", log, ("a",), finished=True),
        Task(NOWHERE, "c", log, ("b",)),
        Task(NOWHERE, "d", log, failure=ZeroDivisionError("by zero")),
        Task(NOWHERE, "e", log),
    ]
    outcomes = LocalEngine().run(units, StudyReporter())
    assert log == ["a", "d", "e"]
    assert states(outcomes) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "failed", "e": "done"}
    assert [outcome.error for outcome in outcomes] == [
        "too small.", "It depends on a, which is failed.", "It depends on b, which is skipped.",
        "ZeroDivisionError: by zero", None,
    ]  # fmt: skip


def test_a_unit_whose_files_are_damaged_has_failed_and_the_others_go_on() -> None:
    log: list[str] = []
    units = [
        Task(NOWHERE, "a", log, damage=ValueError("summary.json is not valid JSON.")),
        Task(NOWHERE, "b", log, ("a",)),
        Task(NOWHERE, "c", log, damage=AttributeError("'list' object has no attribute 'get'")),
        Task(NOWHERE, "d", log),
    ]
    outcomes = LocalEngine().run(units, StudyReporter())
    assert log == ["d"]
    assert states(outcomes) == {"a": "failed", "b": "skipped", "c": "failed", "d": "done"}
    assert outcomes[0].error == "summary.json is not valid JSON."


def test_what_cannot_be_done_is_said_and_not_tried() -> None:
    log: list[str] = []
    outcomes = LocalEngine().run([Task(NOWHERE, "a", log, impossible="It is too large.")], StudyReporter())
    assert outcomes == [UnitOutcome("a", UnitState.NOT_POSSIBLE, error="It is too large.")]
    assert log == []


def test_nothing_is_begun_after_a_stop() -> None:
    log: list[str] = []
    units = [
        Task(NOWHERE, "a", log, failure=Stopped("Stopped after 5 steps.")),
        Task(NOWHERE, "b", log, ("a",)),
        Task(NOWHERE, "c", log),
    ]
    outcomes = LocalEngine().run(units, Watcher(stop_after=1))
    assert log == ["a"]
    assert states(outcomes) == {"a": "stopped", "b": "to do", "c": "to do"}


def test_seeds_are_measured_one_by_one_so_that_a_stop_need_not_wait_for_all() -> None:
    watcher = Watcher(stop_after=1)
    seeds = Certification(Experiment("matrix", "lbrdiv", "fast", (4, 2), Path("nowhere"))).iterate_seeds_left(watcher)
    assert next(seeds) == 4
    watcher.unit_finished(UnitOutcome("a", UnitState.DONE))
    with pytest.raises(Stopped, match="before seed 2"):
        next(seeds)


@pytest.mark.parametrize(
    "unit", [Generation(NOWHERE), Certification(NOWHERE), Training(NOWHERE, "rl2"), Evaluation(NOWHERE, "rl2")]
)
def test_units_travel_between_processes(unit: Unit) -> None:
    assert pickle.loads(pickle.dumps(unit)) == unit
    assert unit.name.startswith("nowhere/")
