"""`coverset export`: write an agent as a file that runs without coverset."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.runs.game_names import game_title

DESCRIPTION = """Write one step of an agent, or of one member of a population, weights included, as a file that runs
with jax and flatbuffers alone. It maps (key, observation, reward, done, memory) to (action, memory), and also reads the
legal actions and the seat where the game needs them; docs/how-to/export.md shows how to call it.

Examples:
  coverset export runs/matrix-lbrdiv-fast/seed-0/rl2 --out matrix-agent.zip
  coverset export runs/matrix-lbrdiv-fast/seed-0 --role teammates --member 1
"""


@dataclass(frozen=True)
class Export:
    """Command-line options."""

    agent: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PATH")]
    """Directory or file of an agent written by coverset train; with --role and --member, of a seed written by coverset
    generate."""
    out: Path | None = None
    """File to write (default: agent.zip beside the agent, or a name such as teammate-1.zip beside the population)."""
    role: str | None = None
    """Half of a population: teammates or best-responses."""
    member: int | None = None
    """Member of that half, counted from 1."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, write the file, print its path."""
    command = read_options(Export, arguments, command="export", description=DESCRIPTION)

    from coverset.exported.file import load_exported
    from coverset.pipeline.export import export_agent

    path = export_agent(command.agent, command.out, role=command.role, member=command.member)
    about = load_exported(path).about
    if command.json:
        print_json({"file": str(path), "bytes": path.stat().st_size, "about": about})
        return 0
    game = game_title(about["env"], about["env_parameters"])
    print(f"{path}: {_describe_seats(about)} of {game}, {path.stat().st_size / 1024:.0f} KB")
    return 0


def _describe_seats(about: dict[str, Any]) -> str:
    """Such as `seat 0`; a teammate in a game of more than two players plays all seats but the ego's."""
    last = about["num_seats"] - 1
    return f"seats 1 to {last}" if "seat" in about.get("further_inputs", ()) else f"seat {about['seat']}"
