"""Connecting to a Ray cluster, or starting one that is quiet and out of reach for others."""

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
from coverset.study.engine import sentence

CONNECT_SECONDS = 10
OBJECT_STORE_BYTES = 128 * 2**20
"""Of a local cluster, in which next to nothing travels; Ray would take a third of the memory."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",  # or else it repeats in the end what it told before
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # lesser things, such as metrics that nobody collects, are told by other means
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leave accelerators as the local engine sees them
}
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on any system: the address of this machine is that of the loopback
    "RAY_worker_register_timeout_seconds": "600",  # importing JAX takes long on a machine that is busy
}

CLUSTER_LOST = (
    "coverset: The study ended before its time: its Ray cluster was lost, and Ray has ended it too, or it was killed. "
    "What was done is kept: run the same command again to go on."
)


@contextmanager
def connected(address: str | None, cpus: int | None) -> Iterator[ModuleType]:
    """Ray, connected to a cluster; raises ValueError if that cannot be. What was started here ends here."""
    with variables(QUIET if address else QUIET | LOOPBACK):
        ray = import_ray()
        if ray.is_initialized():  # by the caller's program, which keeps it
            yield ray
            return
        with ExitStack() as stack:
            options = _joining(address) if address else _local(cpus, stack)
            stack.enter_context(redirect_stdout(OneThread(sys.stdout)))
            stack.callback(ray.shutdown)
            stack.enter_context(last_words(CLUSTER_LOST))
            try:
                with silent_stderr():
                    ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
            except Exception as failure:  # Ray raises bare exceptions too
                where = f"at {address}" if address else "on this machine"
                raise ValueError(f"No Ray cluster could be used {where}: {sentence(failure)}") from failure
            if ray.cluster_resources().get("CPU", 0) < 1:
                raise ValueError(f"The Ray cluster at {address} has no CPUs: start workers with `ray start`.")
            yield ray


def import_ray() -> ModuleType:
    """The package, or a sentence on how to get it."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ValueError("The ray engine needs a package that is missing: pip install 'coverset[ray]'.") from error
    return ray


def _local(cpus: int | None, stack: ExitStack) -> dict[str, Any]:
    """A cluster of this machine's own, out of reach for others."""
    # Sockets live in it, whose paths must be short.
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


def _joining(address: str) -> dict[str, Any]:
    """A cluster that runs already. Whether somebody is there is asked first: Ray would try for a minute, and loudly."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or "/" in host:
            raise ValueError(f"address must be HOST:PORT of a Ray cluster, or auto, got '{address}'.")
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ValueError(
                f"Nobody answers at address {address}: start a cluster with `ray start --head`, or leave --address out."
            ) from error
    return {"address": address}


@contextmanager
def variables(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables that nobody has set, and take them back in the end."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@contextmanager
def last_words(sentence: str) -> Iterator[None]:
    """Have another process say a sentence if this one ends before its time: Ray leaves it none to speak for itself."""
    program = "import sys; sys.stdin.read() or print(sys.argv[1], file=sys.stderr)"
    # In a session of its own, where no interrupt from the keyboard reaches it.
    listener = subprocess.Popen(
        [sys.executable, "-IS", "-c", program, sentence], stdin=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield
    finally:
        listener.communicate("all is well")


class OneThread(io.TextIOBase):
    """A stream for the thread that made it. Ray tells of lost workers in another, on standard output, of all places."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.owner = threading.current_thread()

    def write(self, text: str, /) -> int:
        return self.stream.write(text) if threading.current_thread() is self.owner else len(text)

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Standard error of everything in this process goes nowhere: compiled code reports there on how it was set up."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
