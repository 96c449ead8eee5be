"""`coverset certify`: exact values of a generated population."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import enable_compilation_cache, parse_seeds, print_text
from coverset.cli.tables import print_rows

if TYPE_CHECKING:
    from coverset.pipeline.results import CertificateResult

DESCRIPTION = """Compute exact values for the teammates that `coverset generate` made in a small environment: the return
of every pair, whether every constraint of the paper holds, and the value of a best response to each teammate.

A best response is *observed* if it sees the joint state, and *blind* if it sees only its own observations, as policies
do. A blind value that is not solved exactly is given as an interval of bounds. Writes certificate.json beside each
summary.json.

Examples:
  coverset certify runs/reaching-lbrdiv-fast
  coverset certify runs/matrix-lbrdiv-fast --seeds 0..3 --json
"""


@dataclass(frozen=True)
class Certify(TrustOptions):
    """Command-line options."""

    dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Directory written by coverset generate: of all seeds, or of one seed."""
    seeds: tuple[str, ...] = ()
    """Seeds to certify; 0..15 is a range (default: all)."""
    trials: int = 100
    """Search effort for the bounds of blind best responses, per teammate."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Certify, arguments, command="certify", description=DESCRIPTION)
    seeds = parse_seeds(command.seeds)
    enable_compilation_cache()

    from coverset.pipeline.certify import certify_runs

    with Console(stderr=True).status("Reading") as status:
        certificates = certify_runs(
            command.dir, seeds=seeds, trials=command.trials, starting=lambda path: status.update(f"Solving {path}")
        )
    if command.json:
        print_json({"certificates": certificates})
        return 0
    for certificate in certificates:
        _show(certificate)
    return 0


def _show(certificate: "CertificateResult") -> None:
    reading = certificate["discounted"]
    title = f"{certificate.game}: {certificate['method']}, preset {certificate['preset']}, seed {certificate.seed}"
    words = certificate["conventions"] or [""] * len(reading["best_responses"])
    rows = [
        (
            str(pair),
            f"{best['own']:.4f}",
            f"{best['observed']:.4f}",
            _format_interval(best["blind"]),
            _format_interval(best["regret_blind"]),
            words[pair - 1],
        )
        for pair, best in enumerate(reading["best_responses"], start=1)
    ]
    print_rows(title, ("pair", "own return", "observed", "blind", "regret", "teammate"), rows, text=-1)
    print_text(_verdict(certificate))


def _format_interval(bounds: dict[str, Any]) -> str:
    """Both ends, or one number if they print the same."""
    lower, upper = f"{bounds['lower']:.4f}", f"{bounds['upper']:.4f}"
    return lower if lower == upper else f"{lower}..{upper}"


def _verdict(certificate: dict[str, Any]) -> str:
    """One sentence on the constraints and the accuracy of the numbers."""
    violated, count = certificate["constraints_violated"], certificate["constraints"]
    where = f"exact over {certificate['states']:,} joint states and a horizon of {certificate['horizon']}"
    where += f"; {certificate['simulation']['episodes']:,} simulated episodes of each pair agree"
    if count == 0:
        return f"One pair has no constraints ({where})."
    verdict = f"All {count} constraints hold" if violated == 0 else f"{violated} of {count} constraints are violated"
    return (
        f"{verdict}: the smallest gap is {certificate['smallest_gap']:.4f} after a margin of {certificate['margin']:g} "
        f"(returns discounted by {certificate['discounted']['discount']:g}, {where})."
    )
