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
has the same observations; they are never clipped. In games of three or more players a partner takes all seats but the
agent's, and teams of several partners are measured too.

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
        first = records[0]
        title = f"{first['env']}: {first['learner']} trained with {first['method']} teammates"
        _show(records, title)
    return 0


def _show(records: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from coverset.evaluation.seed_averages import average_over_seeds

    first = records[0]
    table = Table(title=title)
    columns = ("partner", "mean return", "95% interval over seeds", "oracle", "fraction", "episode 1", "episode 5")
    for column in columns:
        table.add_column(column, justify="left" if column == "partner" else "right")
    cells = {name: [record["partners"][name] for record in records] for name in first["partners"]}
    cells |= {"mean": records}
    cells |= {name: [record["mixed_teams"][name] for record in records] for name in first["mixed_teams"]}
    for name, found in cells.items():
        average = average_over_seeds(found)
        interval, bound = average.interval, "" if average.oracle_exact else " (bound)"
        table.add_row(
            escape(name),
            f"{interval.mean:.3g}",
            f"{interval.low:.3g} to {interval.high:.3g}" if interval.n > 1 else "one seed",
            "" if average.oracle is None else f"{average.oracle:.3g}{bound}",
            "" if average.oracle_fraction is None else f"{average.oracle_fraction:.2f}",
            *(f"{average.curve[i]:.3g}" if len(average.curve) > i else "" for i in (0, 4)),
        )
    Console().print(table)
    if first["mixed_teams"]:
        print("Whole teams of one partner come first, with their mean; teams of several partners stand below it.")
    if unit := first.get("return_unit"):
        mean = sum(record["mean_return"] for record in records) / len(records) / unit["size"]
        print(f"The mean return is {mean:.3g} {unit['name']}.")
    if (seats := _describe_seats(records)) is not None:
        print(seats)


def _describe_seats(records: list[dict[str, Any]]) -> str | None:
    """The mean return of every seat over seeds and partners, where seats have rewards of their own."""
    every = [cell["seat_returns"] for record in records for cell in record["partners"].values()]
    if every[0] is None:
        return None
    means = [sum(values) / len(values) for values in zip(*every, strict=True)]
    words = ", ".join(f"{mean:.3g} in seat {seat}" for seat, mean in enumerate(means))
    return f"Mean return by seat: {words}; the agent sits in seat {records[0]['seat']}."
