"""Listening: a socket that is open before its address is told, and uvicorn behind it."""

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from coverset.checks import between
from coverset.studio.app import Studio, make_app
from coverset.studio.guard import Door, make_door

MOST_CONNECTIONS = 512
KEEP_ALIVE_SECONDS = 20


@dataclass(frozen=True)
class Listening:
    """A studio that is about to be served."""

    studio: Studio
    server: uvicorn.Server
    socket: socket.socket
    door: Door
    address: str
    """What to open in a browser, token included."""

    def run(self) -> None:
        """Serve until interrupted."""
        self.server.run(sockets=[self.socket])


def listen(
    directory: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8642,
    token: str | None = None,
    import_environments: bool = False,
    prepare: Callable[[], None] = lambda: None,
) -> Listening:
    """Open the socket and put the studio of `directory` behind it.

    Args:
      directory: the runs below it are shown.
      host: where to listen; elsewhere than on loopback a token is needed, and made up if not given.
      port: where to listen; 0 takes any that is free.
      token: what a visitor must bring.
      import_environments: whether runs may name environments as `module:function`, which runs code of their choice.
      prepare: called in the background before JAX is used.
    """
    between("port", port, 0, 65535)
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("token must be at least 8 letters, digits or signs without spaces.")
    studio = Studio(directory, import_environments=import_environments, prepare=prepare)
    open_socket = _open(host, port)
    door = make_door(host, token, names=(socket.gethostname(),))
    config = uvicorn.Config(
        make_app(studio, door),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
    )
    shown = f"[{host}]" if ":" in host else "localhost" if host == "127.0.0.1" else host
    address = f"http://{shown}:{open_socket.getsockname()[1]}/" + (f"?token={door.token}" if door.token else "")
    return Listening(studio, uvicorn.Server(config), open_socket, door, address)


def _open(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use: choose another with --port, or 0 for any free one.") from error
        raise ValueError(f"host must be an address of this machine, got '{host}' ({error.strerror}).") from error
