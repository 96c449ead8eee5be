"""The command line: finds the command, and turns the caller's mistakes into one sentence and exit code 2."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from coverset.cli.shared import BAD_INPUT, IN_USE

COMMANDS = {
    "generate": "train teammates that cover the conventions of an environment",
    "train": "train an ad hoc agent with generated teammates",
    "evaluate": "measure agents with held-out partners",
    "reproduce": "the whole study of the paper, resumable, ending in the report",
    "crossplay": "play any population, agent or heuristic with any other",
    "tune": "choose alpha for BRDiv or LIPO as the paper did",
    "export": "write an agent as a file that runs with jax alone",
    "certify": "solve a small environment exactly around generated teammates",
    "solve": "the exact minimum coverage set of a matrix game",
    "studio": "watch runs and play with them in a browser",
    "report": "one page with every figure and table of a study",
    "bench": "how fast this machine trains, and how near to what it could do",
    "demo": "the matrix game by three methods, from teammates to the report",
}

USAGE = """usage: coverset COMMAND [options]

{commands}

Examples:
  coverset generate weighted-reaching --seeds 0 1 2 3
  coverset generate matrix --method brdiv --seeds 0..15 --json
  coverset solve matrix

`coverset COMMAND --help` tells all about a command. Exit codes: 0 done, 1 a part of a study failed, 2 bad input,
3 another process is at work there, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""
RESUMABLE = ("generate", "train")

HOST_FAULT = "CpuCallback error"
"""How JAX reports that Python code which a compiled program called, such as somebody's partner, has failed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `coverset` program. `module:function` may lie in the current directory, as for `python -m`."""
    sys.path.append(os.getcwd())
    code = run(list(sys.argv[1:] if arguments is None else arguments))
    for signum in (signal.SIGINT, signal.SIGTERM):  # all is said and done: let no late signal end in a traceback
        signal.signal(signum, signal.SIG_IGN)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else BAD_INPUT
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(version("coverset"))
        return 0
    # What other people's code raises inside of a compiled program becomes one sentence; JAX would log it at length too.
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)
    try:
        return _command(arguments[0])(arguments[1:])
    except (ValueError, TypeError, OSError) as error:
        print(f"coverset: {_sentence(error)}", file=sys.stderr)
        return IN_USE if _is_use(error) else BAD_INPUT
    except RuntimeError as error:
        if HOST_FAULT not in str(error):
            raise
        print(f"coverset: {str(error).splitlines()[-1].partition(': ')[2]}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as interrupt:
        going_on = "; repeat the command with --resume to go on" if arguments[0] in RESUMABLE else ""
        print(f"coverset: interrupted{going_on}.", file=sys.stderr)
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


def _usage() -> str:
    return USAGE.format(commands="\n".join(f"  {name:<10} {purpose}" for name, purpose in COMMANDS.items()))


def _command(name: str) -> Callable[[list[str]], int]:
    """The command's entry point, imported only now: `--help` should not wait for JAX."""
    from coverset.checks import check_one_of

    check_one_of("command", name, COMMANDS)
    return import_module(f"coverset.cli.{name}").main


def _is_use(error: Exception) -> bool:
    """Whether another process is in the way."""
    from coverset.runs.storage import InUseError

    return isinstance(error, InUseError)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"cannot use {error.filename}: {error.strerror}."
    words = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)  # files could address the terminal
