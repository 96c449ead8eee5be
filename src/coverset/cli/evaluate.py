"""`coverset evaluate`: robustness of the agents of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import enable_compilation_cache, parse_seeds

DESCRIPTION = """Evaluate the agents that `coverset train` has written to DIR with held-out partners: by default all
agents with every heuristic of the environment, or with the teammates of other seeds if it has none. Several agents are
compared, each by its name. Scores are mean returns and fractions of the oracle, an agent that knows its partner but has
the same observations; they are never clipped. In games of three or more players a partner takes all seats but the
agent's, and teams of several partners are measured too.

Examples:
  coverset evaluate runs/matrix-lbrdiv-fast
  coverset evaluate runs/matrix-lbrdiv-fast --agents rl2 rl2-gru
  coverset evaluate runs/matrix-lbrdiv-fast --partners teammates runs/matrix-brdiv-fast/seed-0 --json
"""


@dataclass(frozen=True)
class Evaluate(TrustOptions):
    """Command-line options."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Directory of a generation run with trained agents."""
    agents: tuple[str, ...] = ()
    """Names of agents (default: all that are finished)."""
    learner: str | None = None
    """Only agents of this learner: rl2, feedforward, plastic, planner, an installed one, or module:Class."""
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
    bounds: bool = False
    """Also compute what is possible with the partners: covering bound and Bayes bound. It may take minutes a seed."""
    details: bool = False
    """Also print the partners of every agent, where there are several, and the results of every seed."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    command = read_options(Evaluate, arguments, command="evaluate", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.cli.progress import CommandProgress
    from coverset.pipeline.evaluate import evaluate

    with CommandProgress(quiet=command.json) as progress:
        records = evaluate(
            command.directory,
            agents=command.agents,
            learner=command.learner,
            seeds=parse_seeds(command.seeds) or None,
            partners=command.partners,
            trials=command.trials,
            episodes=command.episodes,
            mixed_teams=command.mixed_teams,
            rotate_seats=command.rotate_seats,
            bounds=command.bounds,
            reporter=progress,
        )
    if command.json:
        print_json({"agents": records})
        return 0
    from coverset.cli.evaluation_tables import show_evaluation

    show_evaluation(records, details=command.details)
    print(f"See all that is measured: coverset report {command.directory}")
    return 0
