"""The whole study of the paper: every method in every environment, agents trained with what it made, the evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverset.reporting import write_report
from coverset.study.engine import Engine, LocalEngine, Outcome, State, StudyReporter, sentence
from coverset.study.planning import ENVIRONMENTS, METHODS, plan_study

REPORT = "report"
"""Name under which the report appears among the outcomes."""


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
    """
    chosen = {"learners": learners, "preset": preset, "seeds": seeds, "generation": generation, "training": training}
    units = plan_study(environments, methods=methods, out=out, **chosen)
    reporter = reporter or StudyReporter()
    outcomes = (engine or LocalEngine()).run(units, reporter)
    study = Study(tuple(outcomes))
    return study if study.stopped else _reported(study, Path(out), reporter)


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
