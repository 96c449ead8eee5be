"""Progress of a study: a line for each finished unit above the bars of those that train."""

import sys
from collections.abc import Callable

from coverset.cli.progress import TrainingProgress
from coverset.pipeline.loop import Reporter
from coverset.study.engine import StudyReporter, UnitOutcome, UnitState


class StudyProgress(TrainingProgress, StudyReporter):
    """Silent unless on a terminal, but for failures, which are always told on standard error."""

    def __init__(self, *, quiet: bool, should_stop: Callable[[], bool]) -> None:
        super().__init__(quiet=quiet, should_stop=should_stop)
        self.side_by_side: dict[str, TrainingProgress] = {}

    def __enter__(self) -> "StudyProgress":
        super().__enter__()
        return self

    def unit_reporter(self, name: str) -> Reporter:
        """A bar of the unit's own, among the others."""
        if name not in self.side_by_side:
            self.side_by_side[name] = unit = TrainingProgress(quiet=True, should_stop=self.stop_asked)
            unit.bar = self.bar
        return self.side_by_side[name]

    def unit_finished(self, outcome: UnitOutcome) -> None:
        self.side_by_side.pop(outcome.name, self).clear()
        if outcome.state in (UnitState.FAILED, UnitState.IN_USE):
            what = "failed" if outcome.state is UnitState.FAILED else "is left alone"
            print(f"coverset: {outcome.name} {what}: {outcome.error}", file=sys.stderr)
        elif not self.bar.disable and outcome.seconds is not None:
            self.bar.console.print(f"{outcome.name}: {outcome.state} after {duration(outcome.seconds)}")


def duration(seconds: float | None) -> str:
    """Time for people: 42 s, 7 min, 3.5 h."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
