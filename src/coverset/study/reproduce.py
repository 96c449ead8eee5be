"""The whole study of the paper: every method in every environment, agents trained with what it made, the evidence."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverset.pipeline.report import write_report
from coverset.runs.storage import InUseError, lock_file
from coverset.study.engine import Engine, LocalEngine, Outcome, State, StudyReporter, sentence
from coverset.study.planning import ENVIRONMENTS, METHODS, plan_study

REPORT = "report"
"""Name under which the report appears among the outcomes."""
LOCK = ".study.tmp"
"""Locked file in the directory of an experiment for as long as a study works on it."""


@dataclass(frozen=True)
class Study:
    """What became of every unit, and where the report is."""

    outcomes: tuple[Outcome, ...]
    report: Path | None = None

    @property
    def failed(self) -> bool:
        """Whether something could not be done."""
        return any(outcome.state is State.FAILED for outcome in self.outcomes)

    @property
    def in_use(self) -> bool:
        """Whether another process is at work on a part of it."""
        return any(outcome.state is State.IN_USE for outcome in self.outcomes)

    @property
    def stopped(self) -> bool:
        """Whether it was asked to stop before its end."""
        return any(outcome.state in (State.STOPPED, State.TO_DO) for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """As `coverset reproduce --json` prints it."""
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
    engine: Engine | None = None,
    reporter: StudyReporter | None = None,
) -> Study:
    """Generate, certify, train and evaluate for every environment and method, then write the report.

    What is done is skipped, what was stopped or killed goes on where it was: call it again until it is through.

    Args:
      environments: names as for `generate`.
      methods: how teammates are generated.
      learners: which ad hoc agents are trained with them.
      preset: `fast` or `paper`.
      seeds: as for `generate`.
      out: everything goes below this directory, where the single commands put it too.
      generation: fields of `GenerateSettings` that replace the preset's, in every environment.
      training: the same for `TrainSettings`.
      engine: what runs the units; this process if not given.
      reporter: how to follow the study.
    Returns:
      What became of every unit. Failures are outcomes too; only a study that makes no sense raises ValueError.

    Raises:
      InUse: another `reproduce` is at work on one of the experiments; then nothing is begun.
    """
    chosen = {"learners": learners, "preset": preset, "seeds": seeds, "generation": generation, "training": training}
    units = plan_study(environments, methods=methods, out=out, **chosen)
    reporter = reporter or StudyReporter()
    with ExitStack() as stack:
        for place in dict.fromkeys(unit.experiment.directory for unit in units):
            stack.enter_context(held(place))
        study = Study(tuple((engine or LocalEngine()).run(units, reporter)))
        return study if study.stopped else _reported(study, Path(out), reporter)


@contextmanager
def held(place: Path) -> Iterator[None]:
    """Keep other studies out of an experiment. The system lets go however the process ends.

    Raises:
      InUse: another study is at work there.
    """
    path = place / LOCK
    new = [directory for directory in (place, *place.parents) if not directory.exists()]
    place.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            lock_file(file)
        except BlockingIOError as error:
            raise InUseError(
                f"Another `coverset reproduce` is at work in {place}: wait for it, or stop it. Nothing was begun."
            ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # those that hold something by now stay
                for directory in new:
                    directory.rmdir()


def _reported(study: Study, out: Path, reporter: StudyReporter) -> Study:
    """The study with its report; a report that fails is an outcome like any other."""
    path = None
    try:
        path = write_report(out)
        outcome = Outcome(REPORT, State.DONE)
    except Exception as failure:  # the study itself is on disk and must be told of
        outcome = Outcome(REPORT, State.FAILED, error=sentence(failure))
    reporter.unit_finished(outcome)
    return Study((*study.outcomes, outcome), path)
