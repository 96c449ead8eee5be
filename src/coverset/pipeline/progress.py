"""Progress of long work: steps, speed, time left, status, in a terminal or a notebook. Silent anywhere else."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from coverset.pipeline.loop import Reporter

SPEED_SECONDS = 300.0
"""Averaging window of the speed; it needs two chunks, which may be a minute apart in a large game."""


class _Speed(ProgressColumn):
    """Environment steps per second, over the seeds that train together."""

    def render(self, task: Task) -> Text:
        speed = (task.speed or 0.0) * task.fields["seeds"]
        waiting = "compiling" if task.total else ""
        return Text(f"{speed / 1000:,.0f}k steps/s" if speed and task.total else waiting)


class _Steps(ProgressColumn):
    """Completed and total steps, abbreviated."""

    def render(self, task: Task) -> Text:
        return Text(f"{_abbreviate(task.completed)}/{_abbreviate(task.total)}" if task.total else "")


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

    def __init__(self, *, quiet: bool = False, should_stop: Callable[[], bool] = lambda: False) -> None:
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
        self.clear()
        self.bar.stop()

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        self.clear()
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        fields = {"status": "", "seeds": len(seeds)}
        self.tasks.append(self.bar.add_task(f"{title} {which}", total=total_steps, completed=steps_done, **fields))

    def chunk(self, env_steps: int, status: str) -> None:
        if self.tasks:
            self.bar.update(self.tasks[-1], completed=env_steps, status=status)

    def work(self, words: str) -> None:
        """Show work without steps in place of the bars: one at 100% would say that all is done."""
        self.clear()
        self.tasks.append(self.bar.add_task(words, total=None, status="", seeds=1))

    def clear(self) -> None:
        """Remove its bars."""
        while self.tasks:
            self.bar.remove_task(self.tasks.pop())

    def warn(self, sentence: str) -> None:
        print(f"coverset: {sentence}", file=sys.stderr)

    def should_stop(self) -> bool:
        return self.stop_requested()


class NotebookProgress(Reporter):
    """Shows the progress of a run as one line below the cell of a notebook, which is rewritten in place."""

    def __init__(self) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        self.handle = display(_Line(""), display_id=True)
        self.title, self.total = "", 0

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        self.title, self.total = f"{title}, {which}", total_steps
        self.chunk(steps_done, "compiling")

    def chunk(self, env_steps: int, status: str) -> None:
        self._show(f"{self.title}: {_abbreviate(env_steps)} of {_abbreviate(self.total)} steps, {status}")

    def work(self, words: str) -> None:
        self._show(words)

    def warn(self, sentence: str) -> None:
        warnings.warn(sentence, stacklevel=2)

    def _show(self, words: str) -> None:
        self.handle.update(_Line(words))

    def __enter__(self) -> "NotebookProgress":
        return self

    def __exit__(self, *exception: object) -> None:
        self._show("")


class _Line:
    """Text that a notebook shows as it is."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def show_progress(reporter: Reporter | None, *, progress: bool) -> Iterator[Reporter]:
    """How a call of Python is followed: by the reporter that it names, or in a terminal or notebook, or not at all."""
    if reporter is not None or not progress:
        yield reporter or Reporter()
        return
    with NotebookProgress() if is_notebook() else TrainingProgress() as shown:
        yield shown
