"""The command-line entry point: dispatches to commands, and turns user errors into one sentence and exit code 2."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from coverset.cli.interrupts import leave_on_signals
from coverset.cli.json_output import reserve_stdout
from coverset.cli.shared import BAD_INPUT, IN_USE

COMMANDS = {
    "envs": "list and describe games",
    "check": "check a game of your own against the contract",
    "generate": "train teammates that cover the conventions of an environment",
    "train": "train an ad hoc agent with generated teammates",
    "evaluate": "measure agents with held-out partners",
    "reproduce": "run the whole study of the paper, resumable, and write the report",
    "crossplay": "play any population, agent or heuristic with any other",
    "tune": "choose alpha for BRDiv or LIPO as in the paper",
    "export": "write an agent as a file that runs with jax alone",
    "probe": "search for a teammate that generated best responses do not serve",
    "certify": "compute exact values of generated teammates in a small environment",
    "inspect": "find handshakes and saboteurs among generated teammates",
    "solve": "find the exact minimum coverage set of a matrix game",
    "studio": "watch runs and play with them in a browser",
    "report": "write one page with every figure and table of a study",
    "bench": "measure training speed and its share of the machine's peak",
    "demo": "run the matrix game with three methods, from teammates to the report",
}

USAGE = """usage: coverset COMMAND [options]

{commands}

Examples:
  coverset generate weighted-reaching --seeds 0 1 2 3
  coverset generate matrix --method brdiv --seeds 0..15 --json
  coverset solve matrix

`coverset COMMAND --help` describes a command. Exit codes: 0 done, 1 a part of a study failed, 2 bad input,
3 in use by another process, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""
HELP = {"-h", "--help"}
RESUMABLE = ("generate", "train")

HOST_CALL_ERROR = "CpuCallback error"
"""How JAX reports an exception in Python code called by a compiled program, such as a third-party partner."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command of the `coverset` program. `module:function` names may refer to the current directory."""
    sys.path.append(os.getcwd())
    code = run(list(sys.argv[1:] if arguments is None else arguments))
    for signum in (signal.SIGINT, signal.SIGTERM):  # a late signal must not cause a traceback
        signal.signal(signum, signal.SIG_IGN)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if not arguments or arguments[0] in HELP:
        print(_format_usage())
        return 0 if arguments else BAD_INPUT
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(version("coverset"))
        return 0
    # Exceptions of third-party code in callbacks are reported in one sentence below; JAX would also log a traceback.
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)
    try:
        with _output(arguments):
            with leave_on_signals(_describe_interrupt(arguments[0])):
                command = _import_command(arguments[0])
            return command(arguments[1:])
    except (ValueError, TypeError, OSError) as error:
        print(f"coverset: {_format_error(error)}", file=sys.stderr)
        return IN_USE if _is_in_use(error) else BAD_INPUT
    except RuntimeError as error:
        if HOST_CALL_ERROR not in str(error):
            raise
        print(f"coverset: {str(error).splitlines()[-1].partition(': ')[2]}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as interrupt:
        print(f"coverset: {_describe_interrupt(arguments[0])}", file=sys.stderr)
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


def _output(arguments: list[str]) -> AbstractContextManager[None]:
    """With --json, standard output is reserved for the one object, from before the command is imported."""
    return reserve_stdout() if "--json" in arguments and not HELP & set(arguments) else nullcontext()


def _describe_interrupt(command: str) -> str:
    return f"interrupted{'; repeat the command with --resume to continue' if command in RESUMABLE else ''}."


def _format_usage() -> str:
    return USAGE.format(commands="\n".join(f"  {name:<10} {purpose}" for name, purpose in COMMANDS.items()))


def _import_command(name: str) -> Callable[[list[str]], int]:
    """The command's entry point, imported on use, so that `coverset --help` does not wait for JAX.

    `generate --help` and `train --help` do: they show the settings of a method or learner, fields of a class in JAX.
    """
    from coverset.checks import check_one_of

    check_one_of("command", name, COMMANDS)
    return import_module(f"coverset.cli.{name}").main


def _is_in_use(error: Exception) -> bool:
    """Whether another process is using the run."""
    from coverset.runs.storage import InUseError

    return isinstance(error, InUseError)


def _format_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"cannot use {error.filename}: {error.strerror}."
    from coverset.cli.wording import in_options

    words = in_options(" ".join(str(error).split()))
    return "".join(letter if letter.isprintable() else "?" for letter in words)  # no terminal escapes from files
