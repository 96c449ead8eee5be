"""`--json`: one object on standard output and nothing else, whatever imported packages and subprocesses print."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STDOUT, STDERR = 1, 2
"""File descriptors."""


class _Reserved:
    """What standard output is while it is reserved: the stream, and a copy of its descriptor where it has that one."""

    stream: Any = None
    descriptor: int | None = None


@contextmanager
def reserve_stdout() -> Iterator[None]:
    """Within the block, all that is written to standard output goes to standard error, but for `print_json`.

    The file descriptor is redirected, and with it the output of subprocesses and of code that is not Python.
    """
    stream = sys.stdout
    stream.flush()
    copy = os.dup(STDOUT)
    _Reserved.stream, _Reserved.descriptor = stream, copy if _is_descriptor(stream) else None
    os.dup2(STDERR, STDOUT)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = stream
        os.dup2(copy, STDOUT)
        os.close(copy)
        _Reserved.stream = _Reserved.descriptor = None


def _is_descriptor(stream: Any) -> bool:
    """Whether a stream writes to the descriptor of standard output, rather than to memory or another file."""
    try:
        return stream.fileno() == STDOUT
    except (io.UnsupportedOperation, ValueError):
        return False


def print_json(content: Any) -> None:
    """Print one object as a line on standard output, also where it is reserved."""
    line = json.dumps(content) + "\n"
    if _Reserved.descriptor is not None:
        data = line.encode()
        while data:
            data = data[os.write(_Reserved.descriptor, data) :]
        return
    stream = _Reserved.stream or sys.stdout
    stream.write(line)
    stream.flush()
