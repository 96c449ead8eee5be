"""Signals while modules are imported: one sentence and the end, before anything has been written.

Raising KeyboardInterrupt instead would show a traceback, or crash the process where JAX's libraries are being
initialised. This module imports next to nothing, so that it is there before all others.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def leave_on_signals(sentence: str = "interrupted.") -> Iterator[None]:
    """Within the block, Ctrl-C and SIGTERM end the process at once, with this sentence and the signal's exit code."""
    if threading.current_thread() is not threading.main_thread():  # others receive no signals
        yield
        return

    def leave(signum: int, frame: FrameType | None) -> None:
        os.write(2, f"coverset: {sentence}\n".encode())
        os._exit(128 + signum)

    before = {signum: signal.signal(signum, leave) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
