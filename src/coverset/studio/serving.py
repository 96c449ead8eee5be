"""Listening: a socket that is open before its address is told, and uvicorn behind it."""

import errno
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp

from coverset.checks import check_between
from coverset.studio.app import Studio, make_app
from coverset.studio.connections import ConnectionLimits, limit_connections
from coverset.studio.guard import MOST_HEAD_BYTES, Door, make_door

BACKLOG = 256
"""Connections that the system holds ready. All may be opened at once before the first is read from: half as many as
there may be in all, so that an honest client among them is read from before it would have to make room for others."""


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
    prepare: Callable[[], None] = lambda: None,
    limits: ConnectionLimits | None = None,
) -> Listening:
    """Open the socket and put the studio of `directory` behind it.

    Args:
      directory: the runs below it are shown.
      host: where to listen; elsewhere than on loopback a token is needed, and made up if not given.
      port: where to listen; 0 takes any that is free.
      token: what a visitor must bring.
      prepare: called in the background before JAX is used.
      limits: deadlines for clients and the number of connections, if not the usual ones.
    """
    check_between("port", port, 0, 65535)
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("token must be at least 8 letters, digits or signs without spaces.")
    studio = Studio(directory, prepare=prepare)
    open_socket = _open(host, port)
    bound = open_socket.getsockname()[1]
    door = make_door(host, token, port=bound, machine=socket.gethostname())
    server = uvicorn.Server(_configure(make_app(studio, door), limits or ConnectionLimits()))
    shown = f"[{host}]" if ":" in host else "localhost" if host == "127.0.0.1" else host
    address = f"http://{shown}:{bound}/" + (f"?token={quote(door.token, safe='')}" if door.token else "")
    return Listening(studio, server, open_socket, door, address)


def _configure(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    """Settings of uvicorn. Requests are not logged: addresses may hold a token, and anybody could fill the log."""
    return uvicorn.Config(
        app,
        http=limit_connections(limits),
        ws="none",
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=2,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )


def _open(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use: choose another with --port, or 0 for any free one.") from error
        raise ValueError(f"host must be an address of this machine, got '{host}' ({error.strerror}).") from error
