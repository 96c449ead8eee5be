"""Connect to a Ray cluster, or start a quiet local one that other machines cannot reach."""

import io
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from coverset.runs.directory import count_usable_cpus
from coverset.study.engine import describe_failure

CONNECT_SECONDS = 10
OBJECT_STORE_BYTES = 128 * 2**20
"""For a local cluster, which transfers very little data; Ray's default is a third of the memory."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",  # otherwise Ray repeats log lines at exit
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # errors that matter reach the caller as exceptions
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leave accelerators visible, as the local engine does
}
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on any system: use the loopback address
    "RAY_worker_register_timeout_seconds": "600",  # importing JAX is slow on a busy machine
}

CLUSTER_LOST = (
    "coverset: The study ended early: it was killed, or its Ray cluster was lost and Ray ended the process. "
    "Finished work is kept: run the same command again to resume."
)


@contextmanager
def connect(address: str | None, cpus: int | None) -> Iterator[ModuleType]:
    """Yield the `ray` module, connected to a cluster, and disconnect at the end; raises ValueError on failure."""
    with set_variables(QUIET if address else QUIET | LOOPBACK):
        ray = import_ray()
        if ray.is_initialized():  # the calling program owns the connection
            yield ray
            return
        with ExitStack() as stack:
            options = _remote_options(address) if address else _local_options(cpus, stack)
            stack.enter_context(redirect_stdout(SingleThreadStream(sys.stdout)))
            stack.callback(ray.shutdown)
            stack.enter_context(announce_abrupt_exit(CLUSTER_LOST))
            try:
                with silence_stderr():
                    ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
            except Exception as failure:  # Ray raises bare exceptions too
                where = f"at {address}" if address else "on this machine"
                raise ValueError(f"No Ray cluster could be used {where}: {describe_failure(failure)}") from failure
            if ray.cluster_resources().get("CPU", 0) < 1:
                raise ValueError(f"The Ray cluster at {address} has no CPUs: start workers with `ray start`.")
            yield ray


def import_ray() -> ModuleType:
    """Import the package; raises ValueError with installation advice if it is missing."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ValueError("The ray engine needs the package ray: pip install 'coverset[ray]'.") from error
    return ray


def _local_options(cpus: int | None, stack: ExitStack) -> dict[str, Any]:
    """Options of `ray.init` for a new cluster on the loopback address."""
    # The directory holds sockets, whose paths must be short.
    place = "/tmp" if Path("/tmp").is_dir() else None
    temporary = tempfile.TemporaryDirectory(prefix="coverset-ray-", dir=place, ignore_cleanup_errors=True)
    return {
        "address": "local",
        "num_cpus": cpus or count_usable_cpus(),
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": stack.enter_context(temporary),
    }


def _remote_options(address: str) -> dict[str, Any]:
    """Options of `ray.init` for a running cluster. Checks the port first: Ray would retry noisily for a minute."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or "/" in host:
            raise ValueError(f"address must be HOST:PORT of a Ray cluster, or auto, got '{address}'.")
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ValueError(
                f"Nothing answers at address {address}: start a cluster with `ray start --head`, or omit `address`."
            ) from error
    return {"address": address}


@contextmanager
def set_variables(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables that are not set yet, and unset them at the end."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@contextmanager
def announce_abrupt_exit(sentence: str) -> Iterator[None]:
    """Print a sentence from another process if this one dies within the block: Ray may end it without warning."""
    program = "import sys; sys.stdin.read() or print(sys.argv[1], file=sys.stderr)"
    # A session of its own shields it from Ctrl-C.
    listener = subprocess.Popen(
        [sys.executable, "-IS", "-c", program, sentence], stdin=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield
    finally:
        listener.communicate("finished")


class SingleThreadStream(io.TextIOBase):
    """A stream that drops what other threads write: Ray reports lost workers on standard output from a thread."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.owner = threading.current_thread()

    def write(self, text: str, /) -> int:
        return self.stream.write(text) if threading.current_thread() is self.owner else len(text)

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Discard standard error of the whole process: Ray's compiled code prints set-up messages there."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
