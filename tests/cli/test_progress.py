"""What the progress bar shows."""

from io import StringIO

from rich.console import Console

from coverset.cli.progress import TrainingProgress


def test_everything_fits_into_eighty_columns() -> None:
    """After 100 seconds at 10,000 steps a second of each of four seeds, with a million steps to go."""
    progress = TrainingProgress(quiet=False, should_stop=lambda: False)
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
        with TrainingProgress(quiet=quiet, should_stop=lambda: False) as progress:
            progress.start("matrix lbrdiv", (0,), 0, 10)
            progress.chunk(10, "self-play 1.00")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""
