"""`coverset demo`: the whole workflow on the matrix game, with a report."""

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.cli.shared import enable_compilation_cache, stop_on_interrupt

METHODS = ("lbrdiv", "brdiv", "lipo")
SEEDS = (0, 1, 2, 3)
AGENT_STEPS = 100_000
"""Enough to train agents in the matrix game; the preset trains longer."""
PICTURE = "cross-play.png"
RUNS = tuple(f"matrix-{method}-fast" for method in METHODS)
MARK = ".coverset-demo"
"""File that marks a demo's directory, since the user's own runs may have the same names."""

DESCRIPTION = """Generate teammates for the paper's matrix game with L-BRDiv, BRDiv and LIPO, certify them, train an
agent with each population, evaluate the agents with held-out partners, and write a report.

Examples:
  coverset demo
  coverset demo --out runs/first-look
"""


@dataclass(frozen=True)
class Demo:
    """Command-line options."""

    out: Path = Path("runs/demo")
    """Directory of the runs; an earlier demo there is removed, and any other non-empty directory is refused."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def demo(out: Path, *, as_json: bool = False) -> int:
    """Run a small study of the matrix game."""
    enable_compilation_cache()

    from coverset.pipeline.loop import Stopped
    from coverset.runs.storage import write_bytes

    _remove_earlier_demo(out)
    write_bytes(out / MARK, b"This directory holds a demo of coverset; the next demo with this --out replaces it.\n")
    summaries: list[Sequence[dict[str, Any]]] = []
    with stop_on_interrupt() as stop:
        try:
            for method, name in zip(METHODS, RUNS, strict=True):
                summaries.append(_run_method(out / name, method, stop))
        except Stopped as stopped:
            print(f"coverset: {stopped} Run the demo again to start over.", file=sys.stderr)
            return stop.exit_code
    page = _print_findings(out, summaries)
    if as_json:
        print_json({"runs": [summary for found in summaries for summary in found], "report": str(page)})
    return 0


def _remove_earlier_demo(out: Path) -> None:
    """Remove an earlier demo; raises ValueError, and removes nothing, if the directory holds anything else."""
    from coverset.runs.storage import TEMPORARY

    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a directory, but {out} is a file.")
    found = [path for path in sorted(out.glob("*")) if not path.match(TEMPORARY) and path.name != MARK]
    removable = (*RUNS, "report", PICTURE) if (out / MARK).is_file() else ()
    for path in found:
        if path.name not in removable:
            raise ValueError(
                f"out must be new, empty or an earlier demo, but {out} holds {path.name}: choose another --out."
            )
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _run_method(directory: Path, method: str, should_stop: Callable[[], bool]) -> Sequence[dict[str, Any]]:
    """Generate, certify, train and evaluate with one method; returns the summaries of its populations."""
    from rich.console import Console

    from coverset.cli.progress import CommandProgress
    from coverset.cli.tables import print_summaries
    from coverset.pipeline.certify import certify_runs
    from coverset.pipeline.evaluate import evaluate
    from coverset.pipeline.generate import generate
    from coverset.pipeline.train import train

    with CommandProgress(quiet=False, should_stop=should_stop) as progress:
        summaries = generate("matrix", method=method, seeds=SEEDS, out=directory, reporter=progress)
    print_summaries(summaries)
    with Console(stderr=True).status("Certifying the teammates"):
        certify_runs(directory)
    with CommandProgress(quiet=False, should_stop=should_stop) as progress:
        train(directory, reporter=progress, total_steps=AGENT_STEPS)
    with Console(stderr=True).status("Evaluating the agents with held-out partners"):
        evaluate(directory)
    return summaries


def _print_findings(out: Path, summaries: list[Sequence[dict[str, Any]]]) -> Path:
    """Draw the cross-play figure, write the report, and print the main findings; returns the page of the report."""
    from coverset.cli.tables import print_table
    from coverset.pipeline.report import read_study, write_report
    from coverset.reports.document import overview_table
    from coverset.reports.figures import cross_play_figure, save_figure
    from coverset.reports.findings import describe_findings

    picture = out / PICTURE
    save_figure(picture, cross_play_figure([method_summaries[0] for method_summaries in summaries]))
    page = write_report(out)
    chapters, _, _ = read_study(out)
    table = overview_table(chapters)
    narrow = replace(table, columns=table.columns[1:], rows=[row[1:] for row in table.rows], text_columns=2)
    print_table("The matrix game needs three conventions", narrow)
    for sentence in describe_findings(chapters[0]):
        print(f"- {sentence}")
    print(f"Cross-play of each method: {picture}")
    print(f"Report: {page}")
    return page


def main(arguments: list[str]) -> int:
    """Parse the arguments and run the demo."""
    command = read_options(Demo, arguments, command="demo", description=DESCRIPTION)
    return demo(command.out, as_json=command.json)
