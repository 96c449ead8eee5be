"""The progress bar of a training run: steps, speed, time left, status. Silent unless on a terminal."""

import sys
from collections.abc import Callable, Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from coverset.cli.wording import in_options
from coverset.pipeline.loop import Reporter

SPEED_SECONDS = 300.0
"""Averaging window of the speed; it needs two chunks, which may be a minute apart in a large game."""


class _Speed(ProgressColumn):
    """Environment steps per second, over the seeds that train together."""

    def render(self, task: Task) -> Text:
        speed = (task.speed or 0.0) * task.fields["seeds"]
        return Text(f"{speed / 1000:,.0f}k steps/s" if speed else "compiling")


class _Steps(ProgressColumn):
    """Completed and total steps, abbreviated."""

    def render(self, task: Task) -> Text:
        return Text(f"{_abbreviate(task.completed)}/{_abbreviate(task.total or 0)}")


def _abbreviate(count: float) -> str:
    """A count such as 1.25M, 40k or 7."""
    if count >= 1e6:
        return f"{count / 1e6:.2f}M"
    return f"{count / 1e3:.0f}k" if count >= 1e3 else f"{count:.0f}"


class _Bars(Progress):
    """Progress bars, with the status of the newest training below; each line fits into 80 columns."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.tasks and self.tasks[-1].fields["status"]:
            yield Text(f"  {self.tasks[-1].fields['status']}", no_wrap=True, overflow="ellipsis")


class TrainingProgress(Reporter):
    """Shows the progress of a run on standard error."""

    def __init__(self, *, quiet: bool, should_stop: Callable[[], bool]) -> None:
        console = Console(stderr=True)
        self.stop_requested = should_stop
        self.bar = _Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            _Steps(),
            _Speed(),
            TimeRemainingColumn(compact=True),
            speed_estimate_period=SPEED_SECONDS,
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self.tasks: list[TaskID] = []

    def __enter__(self) -> "TrainingProgress":
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        fields = {"status": "", "seeds": len(seeds)}
        self.tasks.append(self.bar.add_task(f"{title} {which}", total=total_steps, completed=steps_done, **fields))

    def chunk(self, env_steps: int, status: str) -> None:
        if self.tasks:
            self.bar.update(self.tasks[-1], completed=env_steps, status=status)

    def clear(self) -> None:
        """Remove its bars."""
        while self.tasks:
            self.bar.remove_task(self.tasks.pop())

    def warn(self, sentence: str) -> None:
        print(f"coverset: {in_options(sentence)}", file=sys.stderr)

    def should_stop(self) -> bool:
        return self.stop_requested()
