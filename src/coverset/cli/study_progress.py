"""Progress of a study: a line for each finished unit above the bar of the one that trains."""

import sys

from coverset.cli.progress import TrainingProgress
from coverset.study.engine import Outcome, State, StudyReporter


class StudyProgress(TrainingProgress, StudyReporter):
    """Silent unless on a terminal, but for failures, which are always told on standard error."""

    def __enter__(self) -> "StudyProgress":
        super().__enter__()
        return self

    def unit_finished(self, outcome: Outcome) -> None:
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        if outcome.state is State.FAILED:
            print(f"coverset: {outcome.name} failed: {outcome.error}", file=sys.stderr)
        elif not self.bar.disable and outcome.seconds is not None:
            self.bar.console.print(f"{outcome.name}: {outcome.state} after {duration(outcome.seconds)}")


def duration(seconds: float | None) -> str:
    """Time for people: 42 s, 7 min, 3.5 h."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
