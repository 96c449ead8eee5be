"""`coverset studio`: watch runs and play with them in a browser."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coverset.cli.json_output import print_json
from coverset.cli.options import TrustOptions, read_options
from coverset.cli.shared import enable_compilation_cache

DESCRIPTION = """Show the runs below DIR in a browser: live training curves, cross-play to watch, coverage, and trials
in which you play the teammate. Trials are recorded in DIR/recordings, as moves and nothing else.

Examples:
  coverset studio runs
  coverset studio runs --port 0 --open
  coverset studio runs --host 0.0.0.0
"""


@dataclass(frozen=True)
class StudioOptions(TrustOptions):
    """Command-line options."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Directory with runs: one written by coverset generate, or a parent of several."""
    host: str = "127.0.0.1"
    """Address to listen on. On other addresses than the loopback, visitors need the token in the printed address."""
    port: int = 8642
    """Port to listen on; 0 chooses a free port."""
    token: str | None = None
    """Token that visitors must present (default: none on the loopback address, else a random one)."""
    open: bool = False
    """Open the page in a browser."""
    json: bool = False
    """Print the address as one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, listen, print the address, serve."""
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
        print_json({"address": listening.address})
    else:
        print(f"The studio of {command.directory} is at {listening.address} (stop with Ctrl-C).", flush=True)
    if command.open:
        import webbrowser

        webbrowser.open(listening.address)
    sys.setswitchinterval(0.001)  # importing and tracing in the background must not delay requests
    listening.run()
    return 0
