"""`coverset envs`: the games that are there, and one of them in detail."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.cli.shared import parse_key_values, print_text, quote_command

if TYPE_CHECKING:
    from coverset.envs.description import Description

DESCRIPTION = """List the games that commands know by name, built in and installed, and the adapters for those of other
packages. With a game, describe it: seats, actions, observations, parameters, conventions, and what each of its
hand-written partners (H1, H2, ...) does.

Examples:
  coverset envs
  coverset envs reaching
  coverset envs my_package.games:Kitchen --env-args size=7
  coverset envs coverset.adapters.jaxmarl:overcooked --env-args layout=coord_ring --json
"""


@dataclass(frozen=True)
class Envs:
    """Command-line options."""

    env: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="ENV")] = None
    """The game to describe, as for `coverset generate` (default: list all)."""
    env_args: tuple[str, ...] = field(default=())
    """Parameters of that game as NAME=VALUE."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, describe, print."""
    command = read_options(Envs, arguments, command="envs", description=DESCRIPTION)
    if command.env is None and command.env_args:
        raise ValueError("env_args need the name of a game.")

    from coverset.envs import registry
    from coverset.envs.description import describe_all, describe_environment, list_adapters

    if command.env is not None:
        made = registry.make(command.env, **parse_key_values("env_args", command.env_args))
        described = describe_environment(command.env, made)
        print_json(described.to_json()) if command.json else _show_one(described, command.env_args)
        return 0
    known, adapters = describe_all(), list_adapters()
    if command.json:
        print_json({"environments": [one.to_json() for one in known], "adapters": adapters})
        return 0
    for one in known:
        size = f"{_count(one.players, 'player')}, episodes of up to {_count(one.horizon, 'step')}"
        print(f"{one.name}: {size}")
        print_text(one.summary, indent="    ")
    print("\nGames of other packages, with --env-args:")
    for adapter in adapters:
        needs = "" if adapter["installed"] else f" (needs pip install '{adapter['install']}')"
        print(adapter["name"])
        print_text(f"{adapter['summary']}{needs}", indent="    ")
    print("\nDescribe one with: coverset envs NAME")
    print("Write your own: docs/tutorials/bring-your-own-game.md")
    return 0


def _show_one(game: "Description", env_args: tuple[str, ...]) -> None:
    alike = "alike" if game.seats_alike else "not alike"
    print_text(f"{game.name}: {game.summary}")
    print(f"  {_count(game.players, 'player')}, seats {alike}, episodes of up to {_count(game.horizon, 'step')}")
    print(f"  actions by seat: {_list(game.num_actions)}; numbers observed: {_list(game.observation_sizes)}")
    for name, value in game.parameters.items():
        print_text(f"parameter {name} = {value!r}", indent="  ")
    print_text(f"conventions: {', '.join(game.conventions) or 'not named by the game'}", indent="  ")
    print(f"  exact certificates: {'yes' if game.certifiable else 'no, it does not list its initial states'}")
    seen = "shown to players by seat" if game.shown_by_seat else "all of it shown to every player"
    print(f"  studio: {'drawn' if game.drawn else 'as text'}, {seen}")
    for name, words in game.heuristics.items():
        print_text(f"partner {name}: {words or 'the game does not say what it does'}", indent="  ")
    if not game.heuristics:
        print("  no hand-written partners: agents meet the teammates of other seeds")
    print(f"Train teammates with: {quote_command('generate', game.name, env_args=env_args)}")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
