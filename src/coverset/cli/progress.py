"""The progress bar of a generation run: steps, speed, time left, returns, coverage. Silent unless on a terminal."""

import sys
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from coverset.generation import Plan, Reporter
from coverset.generation import Progress as RunProgress


class _Speed(ProgressColumn):
    """Environment steps a second, over the seeds that train together."""

    def render(self, task: Task) -> Text:
        speed = (task.speed or 0.0) * task.fields["seeds"]
        return Text(f"{speed / 1000:,.0f}k steps/s" if speed else "compiling")


class GenerateProgress(Reporter):
    """Shows a run on standard error while it goes on."""

    def __init__(self, *, quiet: bool, should_stop: Callable[[], bool]) -> None:
        console = Console(stderr=True)
        self.stop_asked = should_stop
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            _Speed(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[status]}"),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> "GenerateProgress":
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def start(self, plan: Plan, seeds: tuple[int, ...], steps_done: int) -> None:
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        settings = plan.settings
        self.task = self.bar.add_task(
            f"{plan.environment_name} {plan.method} {which}",
            total=settings.num_chunks * settings.updates_per_chunk * settings.steps_per_update,
            completed=steps_done,
            status="",
            seeds=len(seeds),
        )

    def chunk(self, progress: RunProgress) -> None:
        if self.task is None:
            return
        status = f"self-play {_mean(progress.self_play_return)}  cross-play {_mean(progress.cross_play_return)}"
        if progress.coverage_size:
            found = np.bincount(progress.coverage_found)
            counts = ", ".join(
                f"{n} of {progress.coverage_size}" + (f" x{c}" if len(progress.seeds) > 1 else "")
                for n, c in reversed(list(enumerate(found)))
                if c
            )
            status += f"  found {counts}"
        self.bar.update(self.task, completed=progress.env_steps, status=status)

    def warn(self, sentence: str) -> None:
        print(f"coverset: {sentence}", file=sys.stderr)

    def should_stop(self) -> bool:
        return self.stop_asked()


def _mean(values: list[float]) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.2f}" if known else "-"
