"""`coverset evaluate`: how robust the agents of a run are."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from coverset.cli.options import Trusting, read_options
from coverset.cli.shared import enable_compilation_cache, seed_list

DESCRIPTION = """Play the agents that `coverset train` has written to DIR with partners they have never met: by default
every heuristic of the environment. Scores are raw and as a fraction of the oracle, an agent that knows its partner but
sees no more than ours; they are never clipped.

Examples:
  coverset evaluate runs/matrix-lbrdiv-fast
  coverset evaluate runs/matrix-lbrdiv-fast --partners teammates runs/matrix-brdiv-fast/seed-0 --json
"""


@dataclass(frozen=True)
class Evaluate(Trusting):
    """Options of the command."""

    directory: tyro.conf.Positional[Path]
    """Directory of a generation run with trained agents."""
    learner: str = "rl2"
    """Whose agents: rl2, feedforward or plastic."""
    seeds: tuple[str, ...] = ()
    """Seeds of the run (default: all)."""
    partners: tuple[str, ...] = ()
    """Partners, named as for `coverset train` (default: the environment's heuristics, or else other-seeds)."""
    trials: int | None = None
    """Trials with each partner (default: 128, or fewer where episodes are very long)."""
    episodes: int | None = None
    """Episodes of a trial (default: 20, or fewer where they are very long)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""


def main(arguments: list[str]) -> int:
    """Parse, run, print."""
    command = read_options(Evaluate, arguments, command="evaluate", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.measuring import evaluate

    records = evaluate(
        command.directory,
        learner=command.learner,
        seeds=seed_list(command.seeds) or None,
        partners=command.partners,
        trials=command.trials,
        episodes=command.episodes,
    )
    if command.json:
        print(json.dumps({"agents": records}))
    else:
        _show(records)
    return 0


def _show(records: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from coverset.evaluation.statistics import student_interval

    first = records[0]
    table = Table(title=f"{first['env']}: {first['learner']} trained with {first['method']} teammates")
    columns = ("partner", "mean return", "95% interval over seeds", "oracle", "fraction", "episode 1", "episode 5")
    for column in columns:
        table.add_column(column, justify="left" if column == "partner" else "right")
    for name in [*first["partners"], "mean"]:
        cells = [record if name == "mean" else record["partners"][name] for record in records]
        interval = student_interval([cell["mean_return"] for cell in cells])
        oracle = cells[0].get("oracle")
        bound = "" if cells[0].get("oracle_exact") in (True, None) else " (bound)"
        fractions = [cell["oracle_fraction"] for cell in cells if cell["oracle_fraction"] is not None]
        curves = [cell["curve"] for cell in cells]
        table.add_row(
            name,
            f"{interval.mean:.3g}",
            f"{interval.low:.3g} to {interval.high:.3g}" if interval.n > 1 else "one seed",
            "" if oracle is None else f"{oracle:.3g}{bound}",
            f"{sum(fractions) / len(fractions):.2f}" if fractions else "",
            *(f"{sum(c[i] for c in curves) / len(curves):.3g}" if len(curves[0]) > i else "" for i in (0, 4)),
        )
    Console().print(table)
