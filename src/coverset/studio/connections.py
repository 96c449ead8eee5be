"""Connection deadlines and limits.

A client can keep the studio waiting in four ways: an incomplete request head or body, an unread response, an idle
connection. Each wait has a deadline counted from its start, not from the last byte, so that slow clients cannot extend
it. When there are too many connections, the one that has waited longest for its client is closed. Connections
whose request is being processed are never closed.
"""

import asyncio
import itertools
import json
import sys
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from coverset.studio.guard import HEADERS

WAIT_NUMBERS = itertools.count()
"""Sequence numbers of waits; start times may be equal."""
CLOSE_SECONDS = 1.0
"""Time for a client to read the error before its connection is aborted."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Deadlines for clients, and the maximum number of connections."""

    head_seconds: float = 5.0
    """From the start of a connection, or the first byte of a later request, to the end of the request's head."""
    body_seconds: float = 5.0
    """From the end of the head to the end of the body."""
    answer_seconds: float = 60.0
    """From sending a response until the client has read it."""
    idle_seconds: float = 20.0
    """Between a response and the next request on the same connection."""
    most_connections: int = 512


class Wait(Enum):
    """What the studio waits for, and the error when the deadline passes."""

    HEAD = "The request took too long to arrive."
    BODY = "The message took too long to arrive."
    ANSWER = "The response was not read in time."
    IDLE = "The connection was idle for too long."


class Connection(H11Protocol):
    """uvicorn's connection with deadlines. Every network event may end one wait and start another."""

    limits = ConnectionLimits()
    dropped = False
    wait_number: int | None = None
    """Sequence number of the current wait; None while a request is processed."""
    _wait: tuple[Wait | None, RequestResponseCycle | None] = (None, None)
    """The current wait and the request at its start: the next request starts a new wait of the same kind."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # uvloop's transport is not an asyncio.Transport
        """Wait for the first request; close another connection if there are too many."""
        super().connection_made(transport)
        self._update_deadline()
        if len(self.connections) > self.limits.most_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Process bytes, unless the connection is being closed."""
        if not self.dropped:
            super().data_received(data)
            self._update_deadline()

    def pause_writing(self) -> None:
        """The client reads its response too slowly."""
        super().pause_writing()
        self._update_deadline()

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._update_deadline()

    def on_response_complete(self) -> None:
        """The response is sent; wait for the next request."""
        super().on_response_complete()
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed by either side."""
        self.dropped = True
        self._cancel_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not a valid request."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self.close_with_error(
            status, "The request is too long." if status == 431 else "This is not a valid HTTP request."
        )

    def close_with_error(self, status: int, sentence: str) -> None:
        """Close the connection; send the error if a request has started and its response has not."""
        self.dropped = True
        self._cancel_deadline()
        if not self._can_send_error():
            self.transport.abort()
            return
        self.transport.write(_error_response(status, sentence))
        self.transport.close()
        self._deadline = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _can_send_error(self) -> bool:
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            return False
        if self.conn.our_state is h11.IDLE:
            return self._head_has_begun() or self.conn.their_state is h11.ERROR
        return self.conn.our_state is h11.SEND_RESPONSE

    def _head_has_begun(self) -> bool:
        return self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])

    def _update_deadline(self) -> None:
        """Set the deadline of the current wait, unless it is unchanged."""
        wait = (self._current_wait(), self.cycle)
        if self.dropped or wait == self._wait:
            return
        self._wait = wait
        self._cancel_deadline()
        kind = wait[0]
        self.wait_number = None if kind is None else next(WAIT_NUMBERS)
        if kind is not None:
            self._deadline = self.loop.call_later(self._seconds(kind), self.close_with_error, 408, kind.value)

    def _current_wait(self) -> Wait | None:
        """What the studio waits for; None while a request is processed."""
        if self.flow.write_paused:
            return Wait.ANSWER
        if self.cycle is None:
            return Wait.HEAD
        if self.conn.their_state is h11.SEND_BODY:
            return Wait.BODY
        if not self.cycle.response_complete:
            return None
        if self.transport.get_write_buffer_size():
            return Wait.ANSWER
        return Wait.HEAD if self._head_has_begun() else Wait.IDLE

    def _seconds(self, wait: Wait) -> float:
        limits = self.limits
        seconds = (limits.head_seconds, limits.body_seconds, limits.answer_seconds, limits.idle_seconds)
        return dict(zip(Wait, seconds, strict=True))[wait]

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        """Close the connection with the longest wait: this one if all others have requests in progress."""
        open_connections = [one for one in cast("set[Connection]", self.connections) if not one.dropped]
        if len(open_connections) > self.limits.most_connections:
            waiting = [one for one in open_connections if one.wait_number is not None]
            longest = min(waiting, key=lambda one: one.wait_number or 0)
            longest.close_with_error(503, "The studio has too many connections: try again in a moment.")


def limit_connections(limits: ConnectionLimits) -> type[Connection]:
    """Make the connection class with these limits, which uvicorn instantiates."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def _error_response(status: int, sentence: str) -> bytes:
    """Build a raw error response, for requests that do not reach the app."""
    body = json.dumps({"error": sentence}).encode()
    headers = HEADERS | {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
