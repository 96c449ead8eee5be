"""`coverset demo`: the whole job in small, with something to look at."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coverset.cli.options import read_options
from coverset.cli.shared import enable_compilation_cache, stop_on_interrupt

METHODS = ("lbrdiv", "brdiv", "lipo")
SEEDS = (0, 1, 2, 3)
AGENT_STEPS = 100_000
"""Enough for the agents of the matrix game; the preset trains them longer."""
PICTURE = "cross-play.png"
RUNS = tuple(f"matrix-{method}-fast" for method in METHODS)
MARK = ".coverset-demo"
"""Tells a demo's directory from one with runs of the user, who may well have generated a run of the same name."""

DESCRIPTION = """Generate teammates for the paper's matrix game by L-BRDiv, BRDiv and LIPO, solve them exactly, train an
agent with each set, play the agents with partners they never met, and report.

Examples:
  coverset demo
  coverset demo --out runs/first-look
"""


@dataclass(frozen=True)
class Demo:
    """Options of the command."""

    out: Path = Path("runs/demo")
    """Directory of the runs; an earlier demo there is removed, and a directory that holds anything else is refused."""


def demo(out: Path) -> int:
    """The whole study of the matrix game, in small."""
    enable_compilation_cache()

    from coverset.pipeline.loop import Stopped
    from coverset.runs.storage import write_bytes

    _empty(out)
    write_bytes(out / MARK, b"This is a demo of coverset: another one in its place removes it.\n")
    summaries = []
    with stop_on_interrupt() as stop:
        try:
            for method, name in zip(METHODS, RUNS, strict=True):
                summaries.append(_study(out / name, method, stop))
        except Stopped as stopped:
            print(f"coverset: {stopped} Start the demo again to begin anew.", file=sys.stderr)
            return stop.exit_code
    _conclude(out, summaries)
    return 0


def _empty(out: Path) -> None:
    """Remove an earlier demo; raise, and remove nothing, where anything else would go or stand beside the new one."""
    from coverset.runs.storage import TEMPORARY

    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a directory, but {out} is a file.")
    found = [path for path in sorted(out.glob("*")) if not path.match(TEMPORARY) and path.name != MARK]
    ours = (*RUNS, "report", PICTURE) if (out / MARK).is_file() else ()
    for path in found:
        if path.name not in ours:
            raise ValueError(
                f"out must be new, empty or an earlier demo, but {out} holds {path.name}: choose another --out."
            )
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _study(directory: Path, method: str, should_stop: Callable[[], bool]) -> list[dict[str, Any]]:
    """Everything for one method; returns the summaries of its populations."""
    from rich.console import Console

    from coverset.cli.progress import TrainingProgress
    from coverset.cli.tables import print_summaries
    from coverset.pipeline.certify import certify_runs
    from coverset.pipeline.evaluate import evaluate
    from coverset.pipeline.generate import generate
    from coverset.pipeline.train import train

    with TrainingProgress(quiet=False, should_stop=should_stop) as progress:
        summaries = generate("matrix", method=method, seeds=SEEDS, out=directory, reporter=progress)
    print_summaries(summaries)
    with Console(stderr=True).status("Solving the game around these teammates"):
        certify_runs(directory)
    with TrainingProgress(quiet=False, should_stop=should_stop) as progress:
        train(directory, reporter=progress, total_steps=AGENT_STEPS)
    with Console(stderr=True).status("Playing the agents with partners they never met"):
        evaluate(directory)
    return summaries


def _conclude(out: Path, summaries: list[list[dict[str, Any]]]) -> None:
    """Draw, report, and print the main findings."""
    from coverset.cli.tables import print_table
    from coverset.pipeline.report import read_study, write_report
    from coverset.reports.document import overview_table
    from coverset.reports.figures import cross_play_figure, save_figure
    from coverset.reports.findings import describe_findings

    picture = out / PICTURE
    save_figure(picture, cross_play_figure([of_method[0] for of_method in summaries]))
    page = write_report(out)
    chapters, _, _ = read_study(out)
    table = overview_table(chapters)
    narrow = replace(table, columns=table.columns[1:], rows=[row[1:] for row in table.rows], text_columns=2)
    print_table("The matrix game needs three conventions", narrow)
    for sentence in describe_findings(chapters[0]):
        print(f"- {sentence}")
    print(f"What each method found, side by side: {picture}")
    print(f"The report: {page}")


def main(arguments: list[str]) -> int:
    """Parse and run."""
    return demo(read_options(Demo, arguments, command="demo", description=DESCRIPTION).out)
