"""What the progress bar shows."""

import sys
from io import StringIO
from types import ModuleType

import pytest
from rich.console import Console

from coverset.cli.progress import CommandProgress
from coverset.pipeline import progress as shared
from coverset.pipeline.loop import Reporter
from coverset.pipeline.progress import show_progress


def test_everything_fits_into_eighty_columns() -> None:
    """After 100 seconds at 10,000 steps a second of each of four seeds, with a million steps to go."""
    progress = CommandProgress(quiet=False, should_stop=lambda: False)
    seconds = 0.0
    progress.bar.get_time = lambda: seconds
    progress.start("weighted-reaching lbrdiv", (0, 1, 2, 3), 0, 2_000_000)
    for seconds in (50.0, 100.0):
        progress.chunk(int(10_000 * seconds), "self-play 9.00  cross-play 4.50  found 4 of 4 x4")
    screen = StringIO()
    console = Console(width=80, file=screen)
    for part in progress.bar.get_renderables():
        console.print(part)
    bar, status = screen.getvalue().splitlines()
    for words in ("weighted-reaching lbrdiv seeds 0 to 3", "1.00M/2.00M", "━", "40k steps/s", "01:40"):
        assert words in bar
    assert status.strip() == "self-play 9.00  cross-play 4.50  found 4 of 4 x4"
    assert "…" not in bar


def test_it_is_silent_when_asked_and_off_a_terminal(capfd) -> None:
    for quiet in (True, False):
        with CommandProgress(quiet=quiet, should_stop=lambda: False) as progress:
            progress.start("matrix lbrdiv", (0,), 0, 10)
            progress.chunk(10, "self-play 1.00")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""


def test_no_bar_sits_at_the_end_while_results_are_measured() -> None:
    progress = CommandProgress()
    progress.start("matrix lbrdiv", (0,), 0, 100)
    progress.chunk(100, "self-play 1.00")
    progress.work("matrix lbrdiv seed 0: measuring and writing results")
    (task,) = progress.bar.tasks
    assert (task.total, task.finished) == (None, False)
    screen = StringIO()
    for part in progress.bar.get_renderables():
        Console(width=80, file=screen).print(part)
    assert "measuring and writing results" in screen.getvalue()
    assert "100%" not in screen.getvalue()
    progress.start("matrix lbrdiv", (1,), 0, 100)
    assert [task.total for task in progress.bar.tasks] == [100]
    progress.clear()
    assert not progress.bar.tasks


def test_python_shows_progress_unless_it_is_told_not_to() -> None:
    with show_progress(None, progress=True) as shown:
        assert isinstance(shown, shared.TrainingProgress)
    with show_progress(None, progress=False) as shown:
        assert type(shown) is Reporter
    own = Reporter()
    with show_progress(own, progress=True) as shown:
        assert shown is own


def test_a_notebook_has_one_line_that_is_rewritten(monkeypatch) -> None:
    """IPython is not installed with coverset: a module of its two functions stands for the kernel."""
    lines: list[str] = []

    class Handle:
        def update(self, line) -> None:
            lines.append(repr(line))

    class ZMQInteractiveShell: ...

    kernel, shown_by = ModuleType("IPython"), ModuleType("IPython.display")
    kernel.get_ipython = ZMQInteractiveShell  # pyright: ignore[reportAttributeAccessIssue]
    shown_by.display = lambda line, display_id: Handle()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", shown_by)
    with show_progress(None, progress=True) as progress:
        progress.start("matrix lbrdiv", (0, 1), 0, 2000)
        progress.chunk(1000, "self-play 1.00")
        with pytest.warns(UserWarning, match="careful"):
            progress.warn("careful")
    assert lines == [
        "matrix lbrdiv, seeds 0 to 1: 0 of 2k steps, compiling",
        "matrix lbrdiv, seeds 0 to 1: 1k of 2k steps, self-play 1.00",
        "",
    ]
