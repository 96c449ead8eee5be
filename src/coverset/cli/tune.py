"""`coverset tune`: choose alpha for BRDiv and LIPO."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.cli.shared import FAILED, enable_compilation_cache, parse_key_values, parse_seeds, stop_on_interrupt

if TYPE_CHECKING:
    from coverset.study.tune import Tuning

DESCRIPTION = """Choose alpha, the weight of cross-play in BRDiv and LIPO, as in the paper: generate with each alpha of
a grid, take the one whose populations contain the most members of the coverage set, and refine the grid around it.
Ties, and environments whose coverage set is unknown, are decided by the coverage regret of an alpha's best responses
with the teammates that all alphas have found. Held-out partners are never used. Finished runs are reused, and stopped
or killed ones resume.

Examples:
  coverset tune matrix --method lipo
  coverset tune foraging --method brdiv --alphas 0.1 0.4 1 --seeds 0..3 --refinements 0
"""


@dataclass(frozen=True)
class Tune:
    """Command-line options."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """Environment, as for `coverset generate`."""
    method: str
    """Method: brdiv or lipo."""
    alphas: tuple[float, ...] = (0.1, 0.5, 1.0, 5.0, 10.0)
    """Grid of alphas; the default is the paper's."""
    seeds: tuple[str, ...] = ("0", "1")
    """Seeds of each alpha; 0..3 is a range."""
    refinements: int = 1
    """How many times to add values between the best alpha and its neighbours to the grid."""
    preset: str = "fast"
    """Where the other settings come from: fast or paper."""
    generation: tuple[str, ...] = ()
    """Settings of `coverset generate` that replace the preset's, as NAME=VALUE."""
    out: Path | None = None
    """Directory of the runs (default: runs/tune-ENV-METHOD-PRESET)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Tune, arguments, command="tune", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.cli.study_progress import StudyProgress
    from coverset.study.tune import tune

    with stop_on_interrupt() as stop, StudyProgress(quiet=command.json, should_stop=stop) as progress:
        tuning = tune(
            command.env,
            method=command.method,
            alphas=command.alphas,
            seeds=parse_seeds(command.seeds),
            refinements=command.refinements,
            preset=command.preset,
            out=command.out,
            generation=parse_key_values("generation", command.generation),
            reporter=progress,
        )
    if tuning.stopped:
        print("coverset: stopped; repeat the command to continue.", file=sys.stderr)
        return stop.exit_code
    if command.json:
        print_json(tuning.to_json())
    else:
        _show(tuning)
    return FAILED if tuning.failed else 0


def _show(tuning: "Tuning") -> None:
    table = Table(title=f"{tuning.environment}: alpha of {tuning.method}, mean over {len(tuning.seeds)} seeds")
    for column in ("alpha", "found", "regret", "self-play", "cross-play", ""):
        table.add_column(column, justify="right")
    for candidate in tuning.candidates:
        size, found = tuning.coverage_size, candidate.coverage_found
        table.add_row(
            f"{candidate.alpha:g}",
            "unknown" if found is None else f"{found:g} of {size}",
            f"{candidate.regret:.3g}",
            f"{candidate.self_play:.3g}",
            f"{candidate.cross_play:.3g}",
            "chosen" if candidate.alpha == tuning.chosen else "",
        )
    Console().print(table)
    if tuning.chosen is not None:
        print(f"coverset generate {tuning.environment} --method {tuning.method} --alpha {tuning.chosen:g}")
