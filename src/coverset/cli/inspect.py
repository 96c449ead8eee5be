"""`coverset inspect`: conventions, handshakes and saboteurs among generated teammates."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import enable_compilation_cache, parse_seeds

DESCRIPTION = """Say what kind of partner every teammate of a run is. A *convention* can be served by whoever knows it.
A *handshake* plays with a stranger only after the opening of its own best response. A *saboteur* ruins the game for
any best response, too, once a stranger has played. An *incompetent* teammate is served by nobody.

Measures are exact in small games, and else estimated by simulation and by probes, trained side by side; the output says
which. Writes inspection.json beside each summary.json; a seed that has one of the same policies is not measured again.

Examples:
  coverset inspect runs/reaching-lbrdiv-fast
  coverset inspect runs/foraging-lbrdiv-fast --seeds 0 --steps 2000000
  coverset inspect runs/matrix-lbrdiv-fast --json
"""


@dataclass(frozen=True)
class Inspect(TrustOptions):
    """Command-line options."""

    dir: tyro.conf.Positional[Path]
    """Directory written by coverset generate: of all seeds, or of one seed."""
    seeds: tuple[str, ...] = ()
    """Seeds to inspect; 0..15 is a range (default: all)."""
    estimate: bool = False
    """Simulate and train probes even where the game can be solved exactly."""
    steps: int | None = None
    """Environment steps of all probes of a seed together (default: as many as the run's)."""
    episodes: int = 256
    """Simulated episodes of every pair, opening and switch."""
    trials: int = 100
    """Search effort for the bounds of exact best responses, per policy."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Inspect, arguments, command="inspect", description=DESCRIPTION)
    seeds = parse_seeds(command.seeds)
    enable_compilation_cache()

    from coverset.pipeline.inspect import inspect

    with Console(stderr=True).status("Reading") as status:
        found = inspect(
            command.dir,
            seeds=seeds,
            estimate=command.estimate,
            steps=command.steps,
            episodes=command.episodes,
            trials=command.trials,
            starting=lambda path: status.update(f"Inspecting {path}"),
        )
    if command.json:
        print_json({"inspections": list(found)})
        return 0
    console = Console()
    for record in found:
        _show(record, console)
    return 0


def _show(record: dict[str, Any], console: Console) -> None:
    title = f"{record['env']}: {record['method']}, preset {record['preset']}, seed {record['seed']}"
    table = Table(title=escape(title), title_justify="left")
    for column in ("teammate", "is a", "competence", "regret", "handshake", "sabotage"):
        table.add_column(column, justify="left" if column == "is a" else "right", overflow="fold")
    for mate in record["teammates"]:
        table.add_row(
            str(mate["teammate"]),
            mate["word"],
            _format(mate["competence"]),
            _format(mate["rationality"] and mate["rationality"]["regret"]),
            _format(mate["handshake"] and mate["handshake"]["gain"]),
            _format(mate["sabotage"] and mate["sabotage"]["loss"]),
        )
    console.print(table)
    console.print(_explain(record), highlight=False)


def _format(measure: dict[str, Any] | None) -> str:
    """A number, with its standard error if it has one."""
    if measure is None:
        return "-"
    error = f" ±{measure['standard_error']:.2f}" if measure["standard_error"] else ""
    return f"{measure['value'] + 0.0:.3f}{error}"


def _explain(record: dict[str, Any]) -> str:
    """How the numbers were found, and what they are."""
    limits = f"Returns range from {record['lowest_return']:.3g} to {record['highest_return']:.3g}"
    if record["measured"] == "exact":
        return f"Exact. {limits}."
    told = f"Estimated from {record['episodes']:,} episodes each and probes of {record['probe_steps']:,} steps"
    return f"{told} (± standard error): {escape(record['reason'])} {limits}."
