"""`coverset evaluate`: robustness of the agents of a run."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import enable_compilation_cache, parse_seeds

DESCRIPTION = """Evaluate the agents that `coverset train` has written to DIR with held-out partners: by default every
heuristic of the environment. Scores are mean returns and fractions of the oracle, an agent that knows its partner but
has the same observations; they are never clipped.

Examples:
  coverset evaluate runs/matrix-lbrdiv-fast
  coverset evaluate runs/matrix-lbrdiv-fast --partners teammates runs/matrix-brdiv-fast/seed-0 --json
"""


@dataclass(frozen=True)
class Evaluate(TrustOptions):
    """Command-line options."""

    directory: tyro.conf.Positional[Path]
    """Directory of a generation run with trained agents."""
    learner: str = "rl2"
    """Learner of the agents: rl2, feedforward, plastic, an installed one, or module:Class."""
    seeds: tuple[str, ...] = ()
    """Seeds of the run (default: all)."""
    partners: tuple[str, ...] = ()
    """Partners, named as for `coverset train` (default: the environment's heuristics, or else other-seeds)."""
    trials: int | None = None
    """Trials per partner (default: 128, or fewer if episodes are very long)."""
    episodes: int | None = None
    """Episodes per trial (default: 20, or fewer if they are very long)."""
    mixed_teams: bool = True
    """Whether to play with teams of different partners too, in games of three or more players."""
    rotate_seats: bool = False
    """Whether agents take another seat in each trial, in games whose seats are alike."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Evaluate, arguments, command="evaluate", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.pipeline.evaluate import evaluate

    records = evaluate(
        command.directory,
        learner=command.learner,
        seeds=parse_seeds(command.seeds) or None,
        partners=command.partners,
        trials=command.trials,
        episodes=command.episodes,
        mixed_teams=command.mixed_teams,
        rotate_seats=command.rotate_seats,
    )
    if command.json:
        print(json.dumps({"agents": records}))
    else:
        _show(records)
    return 0


def _show(records: list[dict[str, Any]]) -> None:
    """Print a table of all partners, and one of mixed teams where there are any."""
    first = records[0]
    title = f"{first['env']}: {first['learner']} trained with {first['method']} teammates"
    _show_partners(records, title)
    if "mixed_teams" in first:
        _show_partners([record["mixed_teams"] for record in records], f"{title}, mixed teams")


def _show_partners(records: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from coverset.evaluation.seed_averages import average_over_seeds

    first = records[0]
    table = Table(title=title)
    columns = ("partner", "mean return", "95% interval over seeds", "oracle", "fraction", "episode 1", "episode 5")
    for column in columns:
        table.add_column(column, justify="left" if column == "partner" else "right")
    for name in [*first["partners"], "mean"]:
        average = average_over_seeds([record if name == "mean" else record["partners"][name] for record in records])
        interval, bound = average.interval, "" if average.oracle_exact else " (bound)"
        table.add_row(
            name,
            f"{interval.mean:.3g}",
            f"{interval.low:.3g} to {interval.high:.3g}" if interval.n > 1 else "one seed",
            "" if average.oracle is None else f"{average.oracle:.3g}{bound}",
            "" if average.oracle_fraction is None else f"{average.oracle_fraction:.2f}",
            *(f"{average.curve[i]:.3g}" if len(average.curve) > i else "" for i in (0, 4)),
        )
    Console().print(table)
