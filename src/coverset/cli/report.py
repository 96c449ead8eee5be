"""`coverset report`: one page about a study."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options

DESCRIPTION = """Write one self-contained HTML page about all runs below DIR: robustness curves, final returns with
intervals, coverage, cross-play, constraints, certificates, settings. Figures are also written as PNG and SVG, data as
CSV. Unfinished and damaged runs are listed, and the others are reported.

Examples:
  coverset report runs
  coverset report runs/matrix-lbrdiv-fast --out matrix.html
"""


@dataclass(frozen=True)
class Report:
    """Command-line options."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Directory with runs: a study, a run of several seeds, or one seed."""
    out: Path | None = None
    """The HTML file, or a directory for it (default: DIR/report/index.html)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Report, arguments, command="report", description=DESCRIPTION)

    from rich.console import Console

    from coverset.pipeline.report import report

    with Console(stderr=True).status("Reading runs and drawing figures"):
        written = report(command.directory, out=command.out)
    if command.json:
        print_json(written)
    else:
        figures, data = len(written["figures"]), len(written["data"])
        print(f"Report: {written['page']}, with {figures} figure files and {data} data tables beside it.")
    return 0
