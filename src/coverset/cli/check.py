"""`coverset check`: whether a game keeps the contract of environments."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.cli.shared import enable_compilation_cache, parse_key_values, print_text, quote_command

DESCRIPTION = """Check a game of your own before you train with it: shapes and types, rewards, ends of episodes, legal
actions, initial states, and that the same arguments give the same result. A game that fails gets one sentence, which
names the field, what was expected and what it got, and exit code 2.

Examples:
  coverset check my_package.games:Kitchen
  coverset check my_game:Corridor --env-args length=7
  coverset check coverset.adapters.jaxmarl:overcooked --quick --json
"""

SHOWS_ALL = (
    "Whoever plays it in the studio sees everything, because its `render` takes no seat: write "
    "render(state, seat=None) to hide what a player may not know."
)


@dataclass(frozen=True)
class Check:
    """Command-line options."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """The game: module:Class, module:function, or a name of `coverset envs`."""
    env_args: tuple[str, ...] = field(default=())
    """Its parameters as NAME=VALUE."""
    quick: bool = False
    """Leave out the steps that are not compiled, which take longest."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, check, print."""
    command = read_options(Check, arguments, command="check", description=DESCRIPTION)
    enable_compilation_cache()

    from coverset.envs import registry
    from coverset.envs.conformance import check_environment
    from coverset.envs.description import describe_environment

    environment = registry.make(command.env, **parse_key_values("env_args", command.env_args))
    check_environment(environment, quick=command.quick)
    described = describe_environment(command.env, environment)
    if command.json:
        print_json({"passed": True, **described.to_json()})
        return 0
    print_text(f"{command.env} keeps the contract: {described.players} players, actions {described.num_actions}.")
    if not described.shown_by_seat:
        print_text(SHOWS_ALL)
    print(f"Train teammates with: {quote_command('generate', command.env, env_args=command.env_args)}")
    return 0
