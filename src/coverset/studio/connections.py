"""Deadlines of connections, and room for new ones.

A client can keep the studio waiting in four ways: it does not finish the head of a request, or its body, does not take
its answer, or keeps a connection open and asks nothing. Each wait has a deadline, counted from when the wait began and
not from the last byte, so that a byte now and then buys no time. When there are too many connections, the one that has
kept the studio waiting longest is closed. A connection for which the studio itself is at work is left alone.
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

TURNS = itertools.count()
"""Numbers of waits in the order of their beginnings; times would not do, since many begin at the same time."""
FAREWELL_SECONDS = 1.0
"""For a client to take the sentence that it is sent before its connection is closed."""


@dataclass(frozen=True)
class ConnectionLimits:
    """How long a client may keep the studio waiting, and how many connections there may be."""

    head_seconds: float = 5.0
    """From the start of a connection, or the first byte of a later request, to the end of the request's head."""
    body_seconds: float = 5.0
    """From the end of the head to the end of the body."""
    answer_seconds: float = 60.0
    """From when an answer was given to the network to when it has been taken."""
    idle_seconds: float = 20.0
    """Between an answer and the next request of the same connection."""
    most_connections: int = 512


class Wait(Enum):
    """What a client has yet to do, and the sentence for one that took too long."""

    HEAD = "The request took too long to arrive."
    BODY = "The message took too long to arrive."
    ANSWER = "The answer was not taken in time."
    IDLE = "Nothing was asked for too long."


class Connection(H11Protocol):
    """uvicorn's connection with deadlines. Each event of the network may end a wait and begin another."""

    limits = ConnectionLimits()
    dropped = False
    turn: int | None = None
    """The number of the present wait among all waits; None while the studio is at work."""
    _wait: tuple[Wait | None, RequestResponseCycle | None] = (None, None)
    """The wait, and the newest request when it began: the next request starts another wait of the same kind."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # uvloop's is no asyncio.Transport
        """Wait for the first request, and make room for it."""
        super().connection_made(transport)
        self._note_wait()
        if len(self.connections) > self.limits.most_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take in bytes, unless the connection is being closed."""
        if not self.dropped:
            super().data_received(data)
            self._note_wait()

    def pause_writing(self) -> None:
        """The client does not take its answer as fast as it is given."""
        super().pause_writing()
        self._note_wait()

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._note_wait()

    def on_response_complete(self) -> None:
        """An answer was given; wait for the next request."""
        super().on_response_complete()
        self._note_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever wanted it."""
        self.dropped = True
        self._cancel_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self.hang_up(status, "The request is too long." if status == 431 else "This is not a valid HTTP request.")

    def hang_up(self, status: int, sentence: str) -> None:
        """Close the connection; say why, if a request has begun to arrive and its answer has not begun."""
        self.dropped = True
        self._cancel_deadline()
        if not self._can_be_told():
            self.transport.abort()
            return
        self.transport.write(_last_answer(status, sentence))
        self.transport.close()
        self._deadline = self.loop.call_later(FAREWELL_SECONDS, self.transport.abort)

    def _can_be_told(self) -> bool:
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            return False
        if self.conn.our_state is h11.IDLE:
            return self._head_has_begun() or self.conn.their_state is h11.ERROR
        return self.conn.our_state is h11.SEND_RESPONSE

    def _head_has_begun(self) -> bool:
        return self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])

    def _note_wait(self) -> None:
        """Set the deadline of the present wait, unless it is the same wait as before."""
        wait = (self._find_wait(), self.cycle)
        if self.dropped or wait == self._wait:
            return
        self._wait = wait
        self._cancel_deadline()
        kind = wait[0]
        self.turn = None if kind is None else next(TURNS)
        if kind is not None:
            self._deadline = self.loop.call_later(self._seconds(kind), self.hang_up, 408, kind.value)

    def _find_wait(self) -> Wait | None:
        """What the client has yet to do; None while the studio is at work."""
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
        """Close the connection that has waited longest, which is this one if the studio is at work for all others."""
        counted = [one for one in cast("set[Connection]", self.connections) if not one.dropped]
        if len(counted) > self.limits.most_connections:
            longest = min((one for one in counted if one.turn is not None), key=lambda one: one.turn or 0)
            longest.hang_up(503, "The studio has too many connections: try again in a moment.")


def limit_connections(limits: ConnectionLimits) -> type[Connection]:
    """The class of connections that keep to `limits`, for uvicorn, which makes them itself."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def _last_answer(status: int, sentence: str) -> bytes:
    """An answer written by hand, for what never became a request to the app."""
    body = json.dumps({"error": sentence}).encode()
    headers = HEADERS | {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
