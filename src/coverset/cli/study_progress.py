"""Progress of a study: a line for each finished unit above the bars of running ones."""

import sys
from collections.abc import Callable

from coverset.cli.progress import CommandProgress
from coverset.cli.tables import format_duration
from coverset.cli.wording import in_options
from coverset.pipeline.loop import Reporter
from coverset.study.engine import StudyReporter, UnitOutcome, UnitState


class StudyProgress(CommandProgress, StudyReporter):
    """Shows progress on a terminal; failures are always printed on standard error."""

    def __init__(self, *, quiet: bool, should_stop: Callable[[], bool]) -> None:
        super().__init__(quiet=quiet, should_stop=should_stop)
        self.unit_bars: dict[str, CommandProgress] = {}

    def __enter__(self) -> "StudyProgress":
        super().__enter__()
        return self

    def unit_reporter(self, name: str) -> Reporter:
        """A reporter with a progress bar for the unit."""
        if name not in self.unit_bars:
            self.unit_bars[name] = unit = CommandProgress(quiet=True, should_stop=self.stop_requested)
            unit.bar = self.bar
        return self.unit_bars[name]

    def unit_finished(self, outcome: UnitOutcome) -> None:
        self.unit_bars.pop(outcome.name, self).clear()
        if outcome.state in (UnitState.FAILED, UnitState.IN_USE):
            what = "failed" if outcome.state is UnitState.FAILED else "is in use"
            print(f"coverset: {outcome.name} {what}: {in_options(str(outcome.error))}", file=sys.stderr)
        elif not self.bar.disable and outcome.seconds is not None:
            self.bar.console.print(f"{outcome.name}: {outcome.state} after {format_duration(outcome.seconds)}")
