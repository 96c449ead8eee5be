"""The whole study of the paper: for every method and environment generate, certify, train, evaluate and report."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverset.pipeline.report import write_report
from coverset.runs.storage import InUseError, lock_file
from coverset.study.engine import LocalEngine, StudyEngine, StudyReporter, UnitOutcome, UnitState, describe_failure
from coverset.study.planning import ENVIRONMENTS, METHODS, plan_study

REPORT = "report"
"""Name under which the report appears among the outcomes."""
LOCK = ".study.tmp"
"""File in an experiment's directory that is locked while a study works on the experiment."""


@dataclass(frozen=True)
class Study:
    """Outcomes of all units, and the path of the report."""

    outcomes: tuple[UnitOutcome, ...]
    report: Path | None = None

    @property
    def failed(self) -> bool:
        """Whether a unit failed."""
        return any(outcome.state is UnitState.FAILED for outcome in self.outcomes)

    @property
    def in_use(self) -> bool:
        """Whether another process is working on one of the units."""
        return any(outcome.state is UnitState.IN_USE for outcome in self.outcomes)

    @property
    def stopped(self) -> bool:
        """Whether the study was stopped before its end."""
        return any(outcome.state in (UnitState.STOPPED, UnitState.TO_DO) for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """The record that `coverset reproduce --json` prints."""
        units = [outcome.to_json() for outcome in self.outcomes]
        return {"units": units, "report": None if self.report is None else str(self.report)}


def reproduce(
    environments: Sequence[str] = ENVIRONMENTS,
    *,
    methods: Sequence[str] = METHODS,
    learners: Sequence[str] = ("rl2",),
    preset: str = "fast",
    seeds: Sequence[int] = (0, 1, 2, 3),
    out: str | Path = "runs",
    generation: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    engine: StudyEngine | None = None,
    reporter: StudyReporter | None = None,
) -> Study:
    """Generate, certify, train and evaluate for every environment and method, then write the report.

    Finished units are skipped, and units that were stopped or killed resume: call it again until the study is done.

    Args:
      environments: names as for `generate`.
      methods: how teammates are generated.
      learners: which ad hoc agents are trained with them.
      preset: `fast` or `paper`.
      seeds: as for `generate`.
      out: parent directory of all run directories, named as by the individual commands.
      generation: fields of `GenerateSettings` that replace the preset's, in every environment.
      training: fields of `TrainSettings` that replace the preset's, in every environment.
      engine: runs the units (default: `LocalEngine`, in this process).
      reporter: receives progress.
    Returns:
      The outcome of every unit. A failed unit is an outcome; only invalid arguments raise ValueError.

    Raises:
      InUseError: another `reproduce` is working on one of the experiments; nothing is started.
    """
    chosen = {"learners": learners, "preset": preset, "seeds": seeds, "generation": generation, "training": training}
    units = plan_study(environments, methods=methods, out=out, **chosen)
    reporter = reporter or StudyReporter()
    with ExitStack() as stack:
        for place in dict.fromkeys(unit.experiment.directory for unit in units):
            stack.enter_context(lock_experiment(place))
        study = Study(tuple((engine or LocalEngine()).run(units, reporter)))
        return study if study.stopped else _add_report(study, Path(out), reporter)


@contextmanager
def lock_experiment(place: Path) -> Iterator[None]:
    """Lock an experiment against other studies. The operating system releases the lock however the process ends.

    Raises:
      InUseError: another study holds the lock.
    """
    path = place / LOCK
    new = [directory for directory in (place, *place.parents) if not directory.exists()]
    place.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            lock_file(file)
        except BlockingIOError as error:
            raise InUseError(
                f"Another `coverset reproduce` is working in {place}: wait for it, or stop it. Nothing was started."
            ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # directories that are no longer empty stay
                for directory in new:
                    directory.rmdir()


def _add_report(study: Study, out: Path, reporter: StudyReporter) -> Study:
    """Write the report and add its outcome to the study."""
    path = None
    try:
        path = write_report(out)
        outcome = UnitOutcome(REPORT, UnitState.DONE)
    except Exception as failure:  # the units are on disk, and their outcomes must still be returned
        outcome = UnitOutcome(REPORT, UnitState.FAILED, error=describe_failure(failure))
    reporter.unit_finished(outcome)
    return Study((*study.outcomes, outcome), path)
