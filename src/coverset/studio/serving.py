"""Open a socket and serve the studio on it with uvicorn."""

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
from coverset.studio.guard import MOST_HEAD_BYTES, AccessRules, make_access_rules

BACKLOG = 256
"""Connections that the operating system queues. Half of the connection limit, so that a queued client is served before
it could be closed to make room for others."""


@dataclass(frozen=True)
class StudioServer:
    """A studio with an open socket."""

    studio: Studio
    server: uvicorn.Server
    socket: socket.socket
    access: AccessRules
    address: str
    """URL to open in a browser, including the token."""

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
) -> StudioServer:
    """Open the socket for the studio of `directory`; call `run` on the result to serve.

    Args:
      directory: contains the runs to show.
      host: address to listen on; unless it is loopback a token is required, and generated if not given.
      port: port to listen on; 0 takes any free port.
      token: token that visitors need.
      prepare: called in the background before JAX is imported.
      limits: deadlines for clients and the maximum number of connections.
    """
    check_between("port", port, 0, 65535)
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("token must have at least 8 printable ASCII characters and no spaces.")
    studio = Studio(directory, prepare=prepare)
    open_socket = _open(host, port)
    bound = open_socket.getsockname()[1]
    access = make_access_rules(host, token, port=bound, machine=socket.gethostname())
    server = uvicorn.Server(_configure(make_app(studio, access), limits or ConnectionLimits()))
    shown = f"[{host}]" if ":" in host else "localhost" if host == "127.0.0.1" else host
    address = f"http://{shown}:{bound}/" + (f"?token={quote(access.token, safe='')}" if access.token else "")
    return StudioServer(studio, server, open_socket, access, address)


def _configure(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    """Configure uvicorn. Requests are not logged: they may contain a token, and clients could fill the log."""
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
            raise ValueError(f"port {port} is in use: choose another `port`, or 0 for any free port.") from error
        raise ValueError(f"host must be an address of this machine, got '{host}' ({error.strerror}).") from error
