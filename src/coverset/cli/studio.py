"""`coverset studio`: watch what runs do, and play with them, in a browser."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from coverset.cli.options import Trusting, read_options
from coverset.cli.shared import enable_compilation_cache

DESCRIPTION = """Show the runs below DIR in a browser: training as it goes on, cross-play to watch, what is covered, and
a trial in which you are the teammate. Trials are recorded in DIR/recordings, as moves and nothing else.

Examples:
  coverset studio runs
  coverset studio runs --port 0 --open
  coverset studio runs --host 0.0.0.0
"""


@dataclass(frozen=True)
class StudioOptions(Trusting):
    """Options of the command."""

    directory: tyro.conf.Positional[Path]
    """Directory with runs: one that coverset generate has written, or one that holds several."""
    host: str = "127.0.0.1"
    """Where to listen. Elsewhere than on this machine visitors need the token in the address that is printed."""
    port: int = 8642
    """Where to listen; 0 takes any port that is free."""
    token: str | None = None
    """What visitors must bring (default: none on this machine, else one is made up)."""
    open: bool = False
    """Open the page in a browser."""
    json: bool = False
    """Print the address as one JSON object on standard output and nothing else there."""


def main(arguments: list[str]) -> int:
    """Parse, listen, print the address, serve."""
    command = read_options(StudioOptions, arguments, command="studio", description=DESCRIPTION)
    try:
        from coverset.studio.serving import listen
    except ImportError as error:
        raise ValueError(f"the studio needs an extra: pip install 'coverset[studio]' ({error}).") from error
    listening = listen(
        command.directory,
        host=command.host,
        port=command.port,
        token=command.token,
        prepare=enable_compilation_cache,
    )
    if command.json:
        print(json.dumps({"address": listening.address}), flush=True)
    else:
        print(f"The studio of {command.directory} is at {listening.address} (stop with Ctrl-C).", flush=True)
    if command.open:
        import webbrowser

        webbrowser.open(listening.address)
    sys.setswitchinterval(0.001)  # importing and tracing in the background should not keep requests waiting
    listening.run()
    return 0
