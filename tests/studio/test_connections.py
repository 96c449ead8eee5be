"""Slow clients on real sockets: they are disconnected in time, and others are served meanwhile."""

import contextlib
import json
import select
import socket
import threading
import time

import pytest

from coverset.studio.connections import ConnectionLimits
from coverset.studio.guard import HEADERS
from studio_client import Served

POST = b"POST /api/trials HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 40000\r\nHost: "
CHUNKED = POST.replace(b"Content-Length: 40000", b"Transfer-Encoding: chunked")
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n"
GET = b"GET /api/engine HTTP/1.1\r\nHost: localhost\r\n\r\n"
STARTS = {
    "silent": b"",
    "head": b"GET / HTTP/1.1\r\nX: ",
    "body": POST + b"localhost\r\n\r\n",
    "body of a refused request": POST + b"evil.example\r\n\r\n",
    "websocket": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n",
    "kept alive": GET,
    "second head": GET + b"GET / HTTP/1.1\r\nX: ",
}
SHORT = ConnectionLimits(head_seconds=0.3, body_seconds=0.3, answer_seconds=0.3, idle_seconds=0.3)
PATIENCE = 30.0


def connect(studio: Served, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", studio.port), timeout=PATIENCE)
    connection.sendall(data)
    return connection


def trickle(connection: socket.socket) -> bytes:
    """Send a byte now and then; return everything received until the server closes the connection."""
    received, end = b"", time.monotonic() + PATIENCE
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while time.monotonic() < end:
            if select.select([connection], [], [], 0.02)[0]:
                part = connection.recv(65536)
                if not part:
                    return received
                received += part
            else:
                connection.sendall(b"a")
        pytest.fail("The connection was not closed.")
    return received


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("silent", [408]),
        ("head", [408]),
        ("body", [408]),
        ("body of a refused request", [421]),
        ("websocket", [400, 408]),
        ("kept alive", [200, 408]),
        ("second head", [200, 408]),
    ],
)
def test_a_byte_now_and_then_buys_no_time(tmp_path, kind, answers):
    with Served(tmp_path, limits=SHORT) as studio, connect(studio, STARTS[kind]) as slow:
        received = trickle(slow)
        assert studio.get("/api/engine").status == 200
    assert statuses(received) == answers
    if answers[-1] == 408:
        head, _, body = received.rpartition(b"\r\n\r\n")
        assert json.loads(body)["error"].endswith("took too long to arrive.")
        assert all(f"{name}: {value}".encode() in head for name, value in HEADERS.items())


@pytest.mark.parametrize("kind", ["silent", "kept alive"])
def test_a_connection_without_a_request_is_closed_without_a_word(tmp_path, kind):
    """Browsers open connections ahead of time: an unsolicited response would confuse them."""
    with Served(tmp_path, limits=SHORT) as studio, connect(studio, STARTS[kind]) as idle:
        received = b""
        while part := idle.recv(65536):
            received += part
    assert statuses(received) == ([] if kind == "silent" else [200])


@pytest.mark.parametrize("kind", list(STARTS))
def test_too_many_waiting_connections_shut_nobody_out(tmp_path, kind):
    """The deadlines are too long to help: the connection with the longest wait is closed."""
    patient = ConnectionLimits(head_seconds=600, body_seconds=600, idle_seconds=600, most_connections=30)
    with Served(tmp_path, limits=patient) as studio, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(studio, STARTS[kind])) for _ in range(60)]
        assert [studio.get("/api/engine").status for _ in range(5)] == [200] * 5
        while slow[0].recv(65536):
            pass
        assert len(studio.listening.server.server_state.connections) <= 31
        slow[-1].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while part := slow[-1].recv(65536):
                assert part
            pytest.fail("The newest connection was closed before older ones.")


class Tricklers(threading.Thread):
    """Connections that send a byte of a request in turn, and are opened again as soon as they are closed."""

    def __init__(self, studio: Served, start: bytes, count: int) -> None:
        super().__init__(daemon=True)
        self.studio, self.data = studio, start
        self.connections = [self.open() for _ in range(count)]
        self.closed = 0
        self.ended = threading.Event()

    def open(self) -> socket.socket:
        connection = connect(self.studio, self.data)
        connection.setblocking(False)
        return connection

    def run(self) -> None:
        while not self.ended.wait(0.2):
            for place, connection in enumerate(self.connections):
                try:
                    connection.send(b"a")
                    if connection.recv(65536):
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                connection.close()
                self.closed += 1
                self.connections[place] = self.open()

    def stop(self) -> None:
        self.ended.set()
        self.join()
        for connection in self.connections:
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["head", "body"])
def test_six_hundred_trickling_connections_shut_nobody_out(tmp_path, kind):
    """More than the studio keeps, with its own deadlines of 5 s, for 12 s. Prints how long honest requests took."""
    with Served(tmp_path) as studio:
        tricklers = Tricklers(studio, STARTS[kind], 600)
        tricklers.start()
        seconds, end = [], time.monotonic() + 12
        while time.monotonic() < end:
            began = time.monotonic()
            assert studio.get("/api/engine").status == 200
            seconds.append(time.monotonic() - began)
            time.sleep(0.1)
        tricklers.stop()
    seconds.sort()
    median, closed = seconds[len(seconds) // 2], tricklers.closed
    print(f"{kind}: {len(seconds)} requests, median {median:.3f} s, longest {seconds[-1]:.3f} s, {closed} closed")
    assert closed > 600, "each is closed at least once"
    assert seconds[-1] < 3.0


def test_a_connection_for_which_the_studio_is_at_work_is_left_alone(tmp_path):
    done = threading.Event()
    with Served(tmp_path, limits=ConnectionLimits(most_connections=4)) as studio, contextlib.ExitStack() as stack:
        stack.callback(done.set)
        for _ in range(2):
            studio.listening.studio.engine.slow.pool.submit(done.wait)
        ask = GET.replace(b"engine", b"recordings/recording-000000000000/frames")
        working = stack.enter_context(connect(studio, ask))
        while studio.listening.studio.engine.slow.waiting == 0:
            time.sleep(0.005)
        for _ in range(20):
            stack.enter_context(connect(studio))
        assert studio.get("/api/engine").status == 200
        done.set()
        assert statuses(working.recv(65536)) == [404]


def test_a_client_that_does_not_take_its_answers_is_let_go(tmp_path):
    """1,500 responses of 12 kB exceed the network buffers: the rest would fill the studio's memory."""
    limits = ConnectionLimits(answer_seconds=0.3)
    with Served(tmp_path, limits=limits) as studio, socket.socket() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.settimeout(PATIENCE)
        greedy.connect(("127.0.0.1", studio.port))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            greedy.sendall(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1500)
        connections, end = studio.listening.server.server_state.connections, time.monotonic() + PATIENCE
        while connections and time.monotonic() < end:
            time.sleep(0.01)
        assert not connections
        assert studio.get("/api/engine").status == 200


def test_requests_in_parts_and_several_at_once_are_answered(tmp_path):
    with Served(tmp_path) as studio, connect(studio, GET[:10]) as connection:
        for data in (GET[10:] + GET, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")):
            connection.sendall(data)
        received = b""
        while part := connection.recv(65536):
            received += part
    assert statuses(received) == [200, 200, 200]


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        (b"nonsense\r\n\r\n", 400, "This is not a valid HTTP request."),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"b" * 20_000, 431, "The request is too long."),
        (GET.replace(b"\r\n\r\n", b"\r\nX: " + b"b" * 20_000 + b"\r\n\r\n"), 431, "The request is too long."),
        (CHUNKED + b"localhost\r\n\r\nzz\r\n", 400, "This"),
    ],
)
def test_bytes_that_are_no_request_are_refused_in_one_sentence(tmp_path, data, status, sentence):
    with Served(tmp_path, limits=SHORT) as studio:
        received = studio.raw(data)
    assert statuses(received) == [status]
    assert json.loads(received.rpartition(b"\r\n\r\n")[2])["error"].startswith(sentence)


def test_a_refused_request_whose_body_is_garbage_gets_one_answer(tmp_path):
    head = CHUNKED + b"evil.example\r\n\r\n"
    with Served(tmp_path) as studio, connect(studio, head) as connection:
        received = connection.recv(65536)
        connection.sendall(b"zz\r\n")
        with contextlib.suppress(ConnectionResetError):
            received += connection.recv(65536)
    assert statuses(received) == [421]
