"""`coverset tune`: alpha for BRDiv and LIPO."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.console import Console
from rich.table import Table

from coverset.cli.options import read_options
from coverset.cli.shared import FAILED, enable_compilation_cache, key_values, seed_list, stop_on_interrupt

if TYPE_CHECKING:
    from coverset.study.tune import Tuning

DESCRIPTION = """Choose alpha, the weight of cross-play in BRDiv and LIPO, as the paper did: generate with each alpha of
a grid, take the one whose populations hold the most members of the coverage set, and look again close to it. Ties, and
environments whose coverage set is not known, are decided by regret: what the best responses of an alpha give away with
the teammates that all alphas have found. Held-out partners are never looked at. Runs that are done are used again, and
stopped or killed ones go on.

Examples:
  coverset tune matrix --method lipo
  coverset tune foraging --method brdiv --alphas 0.1 0.4 1 --seeds 0..3 --refinements 0
"""


@dataclass(frozen=True)
class Tune:
    """Options of the command."""

    env: tyro.conf.Positional[str]
    """Environment, as for `coverset generate`."""
    method: str
    """Method: brdiv or lipo."""
    alphas: tuple[float, ...] = (0.1, 0.5, 1.0, 5.0, 10.0)
    """The grid; the default is the paper's."""
    seeds: tuple[str, ...] = ("0", "1")
    """Runs of each alpha; 0..3 means all from 0 to 3."""
    refinements: int = 1
    """How often to try values between the best alpha and its neighbours."""
    preset: str = "fast"
    """Where the other settings come from: fast or paper."""
    generation: tuple[str, ...] = ()
    """Settings of `coverset generate` that replace the preset's, as NAME=VALUE."""
    out: Path | None = None
    """Directory of the runs (default: runs/tune-ENV-METHOD-PRESET)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


def main(arguments: list[str]) -> int:
    """Parse, run, print."""
    command = read_options(Tune, arguments, command="tune", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.cli.study_progress import StudyProgress
    from coverset.study.tune import tune

    with stop_on_interrupt() as stop, StudyProgress(quiet=command.json, should_stop=stop) as progress:
        tuning = tune(
            command.env,
            method=command.method,
            alphas=command.alphas,
            seeds=seed_list(command.seeds),
            refinements=command.refinements,
            preset=command.preset,
            out=command.out,
            generation=key_values("generation", command.generation),
            reporter=progress,
        )
    if tuning.stopped:
        print("coverset: stopped; repeat the command to go on.", file=sys.stderr)
        return stop.exit_code
    if command.json:
        print(json.dumps(tuning.to_json()))
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
