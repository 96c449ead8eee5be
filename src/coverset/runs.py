"""Run directories: what a run is made of, its log, its checkpoints, and how a killed run finds its place again.

DIR/seed-0/config.json        everything needed to run it again
           metrics.jsonl      one row per chunk; holds no clock time, so a resumed run writes the same bytes
           checkpoints/       the newest few states of training
           policies.safetensors, summary.json, figures/    when it is done
"""

import itertools
import math
import os
import platform
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import LONGEST_VALUE, shown
from coverset.storage import (
    MOST_HEADER_BYTES,
    MOST_LOG_BYTES,
    TEMPORARY,
    DamagedFile,
    InUse,
    check_fields,
    is_whole,
    json_line,
    jsonable,
    load_tensors,
    lock,
    parse_row,
    read_bytes,
    read_record,
    read_rows,
    save_tensors,
    write_bytes,
    write_json,
)
from coverset.trusting import SIGNATURE
from coverset.types import PyTree

KEPT_CHECKPOINTS = 3
THREADS = "NPROC"
"""The environment variable by which XLA can be told how many threads to use."""
GROUP = "trained_with"
"""Field of `config.json`: the seeds that train as one program, on whose number the bytes depend as well."""
VERSIONED = ("coverset", "jax", "jaxlib", "equinox", "optax", "numpy")


def versions() -> dict[str, str]:
    """What decides whether the same seed gives the same bytes."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def usable_cpus() -> int:
    """CPUs this process may use, as XLA counts them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> str:
    """Threads with which XLA computes. Sums in another order are other sums: they decide about the bytes as well."""
    return os.environ.get(THREADS) or str(usable_cpus())


class RunDirectory:
    """One seed's directory."""

    results: tuple[str, ...] = ("policies.safetensors", "figures/cross-play.png", "figures/training.png")
    """What there is beside the summary when it is done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def config_path(self) -> Path:
        return self.path / "config.json"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def summary_path(self) -> Path:
        return self.path / "summary.json"

    @property
    def policies_path(self) -> Path:
        return self.path / "policies.safetensors"

    def config(self) -> dict[str, Any]:
        """What the run was started with."""
        return read_record(self.config_path)

    def summary(self) -> dict[str, Any] | None:
        """The finished run's summary, or None while there is none."""
        return read_record(self.summary_path) if self.summary_path.is_file() else None

    def is_done(self) -> bool:
        """Whether the run has ended and all its results are whole; otherwise resuming it makes them (again)."""
        return not self.lacking()

    def lacking(self) -> list[Path]:
        """Results that are missing or damaged."""
        return [path for path in (self.path / name for name in ("summary.json", *self.results)) if not is_whole(path)]

    def has_ended(self) -> bool:
        """Whether the results have been there before: the summary is written last."""
        return self.summary_path.is_file()

    def check_claim(self, config: dict[str, Any], *, resume: bool) -> None:
        """Raise unless this directory is free for the run described by `config`, or already is that run."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"out must be a directory, but {self.path} is a file.")
        if self.path.is_symlink() and not self.path.exists():
            raise ValueError(f"out must be a directory, but {self.path} is a link to nothing.")
        if self._is_free():
            return
        if not self.config_path.is_file():
            raise ValueError(f"out must be empty or a run of coverset, but {self.path} holds other files.")
        self.check_same(config)
        if not resume:
            self.check_unused()
            raise ValueError(f"{self.path} already holds this run: continue it with --resume, or choose another --out.")

    def claim(self, config: dict[str, Any]) -> list[Path]:
        """Make a free directory this run. Returns what was not there before, in the order of its making.

        Raises:
          ValueError: it cannot be written; then nothing new is left behind.
        """
        if not self._is_free():
            return []
        new = [path for path in (self.config_path, self.path, *self.path.parents) if not path.exists()][::-1]
        try:
            write_json(self.config_path, config, new=True)
        except FileExistsError:  # another process was quicker
            self.check_same(config)
            return []
        except OSError as error:
            remove_new(new)
            raise ValueError(
                f"out must be a directory that can be written, but {self.path} cannot: {error.strerror}."
            ) from error
        return new

    def _is_free(self) -> bool:
        return not self.path.exists() or all(entry.match(TEMPORARY) for entry in self.path.iterdir())

    def check_same(self, config: dict[str, Any], *, whatever: Collection[str] = ()) -> None:
        """Raise unless the run here is the one described by `config`, whatever its versions and the fields named.

        Its group is another matter: `looping.seed_groups` finds it together again.
        """
        try:
            stored = self.config()
        except DamagedFile as error:
            raise DamagedFile(f"{error} Put a copy of it back, or remove {self.path} to start over.") from error
        wanted = jsonable(config)
        for name in sorted((set(stored) | set(wanted)) - {"versions", GROUP, SIGNATURE, *whatever}):
            if stored.get(name) != wanted.get(name):
                raise ValueError(
                    f"{self.path} holds another run ({_difference(name, stored.get(name), wanted.get(name))}): "
                    "choose another --out."
                )

    def group(self) -> tuple[int, ...] | None:
        """The seeds that train in one program with this one; None where there is no run, or one that does not say."""
        seeds = self.config().get(GROUP) if self.config_path.is_file() else None
        if seeds is None:
            return None
        check_fields(self.config_path, {GROUP: seeds}, **{GROUP: tuple[int, ...]})
        return tuple(seeds)

    def other_conditions(self, config: dict[str, Any]) -> str:
        """In words: under which other versions, or with how many other threads, the run was begun; empty if none."""
        stored, now = self.config().get("versions"), jsonable(config["versions"])
        if not isinstance(stored, dict):
            return ""
        names = [name for name in now if name in stored and stored[name] != now[name]]
        return ", ".join(f"{name} {stored[name]} instead of {now[name]}" for name in names)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out while this one trains here. The system lets go however the process ends.

        Raises:
          InUse: another process is at work here.
        """
        with self.config_path.open("r+b") as file:
            try:
                lock(file)
            except BlockingIOError as error:
                raise InUse(f"{self.path} is in use by another process: wait for it, or stop it.") from error
            yield

    def check_unused(self) -> None:
        """Raise InUse if another process is at work here."""
        with self.held():
            pass

    def check_there(self) -> None:
        """Raise if somebody has removed this run: what it writes next would be remains that belong to no run."""
        if not self.config_path.is_file():
            raise ValueError(f"{self.path} was removed or moved while it was written to: start the run again.")

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Add one row to the log."""
        self.check_there()
        with _naming(self.metrics_path), self.metrics_path.open("ab") as file:
            file.write(json_line(row))

    def rows(self) -> list[dict[str, Any]]:
        """The log so far."""
        rows = read_rows(self.metrics_path) if self.metrics_path.exists() else []
        for number, row in enumerate(rows, start=1):
            check_fields(f"{self.metrics_path}, line {number},", row, chunk=int)
        return rows

    def whole_rows(self) -> int:
        """Rows of the log from the first on that were written to their end, up to one that is no row."""
        if not self.metrics_path.exists():
            return 0
        lines = read_bytes(self.metrics_path, MOST_LOG_BYTES).splitlines(keepends=True)
        return sum(1 for _ in itertools.takewhile(lambda line: _is_row(line, self.metrics_path), lines))

    def rewind(self, chunk: int, rows: int) -> None:
        """Forget what came after the checkpoint that training goes on from: log rows, and checkpoints of no use.

        Args:
          chunk: the checkpoint's; 0 for the start of the run.
          rows: how many of the log belong to it, fewer than chunks for a run that ended beside others that went on.
        """
        self._truncate_metrics(rows)
        for later in self.checkpoints():
            if later > chunk:
                self._checkpoint(later).unlink(missing_ok=True)
        for leftover in self.path.rglob(TEMPORARY):
            leftover.unlink(missing_ok=True)

    def _truncate_metrics(self, rows: int) -> None:
        if not self.metrics_path.exists():
            if rows:
                raise DamagedFile(f"{self.metrics_path} is missing, but {rows} rows were logged.")
            return
        lines = read_bytes(self.metrics_path, MOST_LOG_BYTES).splitlines(keepends=True)[:rows]
        if len(lines) < rows or not all(line.endswith(b"\n") for line in lines):
            raise DamagedFile(f"{self.metrics_path} holds {len(lines)} of the {rows} rows that were logged.")
        write_bytes(self.metrics_path, b"".join(lines))

    def save_checkpoint(self, chunk: int, tensors: dict[str, np.ndarray]) -> None:
        """Write the state after `chunk` chunks, as `to_tensors` gives it, and drop the oldest beyond a few.

        The log reaches the disk first: a checkpoint ahead of its log is of no use.
        """
        self.check_there()
        if self.metrics_path.exists():
            with _naming(self.metrics_path), self.metrics_path.open("ab") as file:
                os.fsync(file.fileno())
        save_tensors(self._checkpoint(chunk), tensors, {"chunk": chunk})
        for old in self.checkpoints()[:-KEPT_CHECKPOINTS]:
            self._checkpoint(old).unlink(missing_ok=True)

    def checkpoints(self) -> list[int]:
        """Chunks after which there is a checkpoint, oldest first."""
        found = (self.path / "checkpoints").glob("*.safetensors")
        return sorted(int(path.stem) for path in found if path.stem.isdigit())

    def load_checkpoint(self, chunk: int, like: PyTree) -> PyTree:
        """Read the state after `chunk` chunks; `like` gives its structure."""
        wanted = jax.tree.leaves(jax.eval_shape(lambda tree: jax.tree.map(_raw, tree), like))
        most_bytes = MOST_HEADER_BYTES + sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in wanted)
        tensors, _ = load_tensors(self._checkpoint(chunk), most_bytes=most_bytes)
        return from_tensors(tensors, like, source=self._checkpoint(chunk))

    def whole_checkpoints(self, like: PyTree, warn: Callable[[str], None]) -> dict[int, PyTree]:
        """Every checkpoint that can be read, by its chunk; damaged ones are named and passed over."""
        whole = {}
        for chunk in self.checkpoints():
            try:
                whole[chunk] = self.load_checkpoint(chunk, like)
            except (DamagedFile, OSError) as error:
                before = f"the checkpoint of chunk {max(whole)}" if whole else "the start of the run"
                warn(f"{error} Without it the last whole state before is {before}.")
        return whole

    def _checkpoint(self, chunk: int) -> Path:
        return self.path / "checkpoints" / f"{chunk:08d}.safetensors"


class AgentDirectory(RunDirectory):
    """One agent's directory."""

    results = ("agent.safetensors",)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors of the system name the file, which those of writing do not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_row(line: bytes, path: Path) -> bool:
    """Whether a line of the log is whole and a row, as far as everybody who reads rows needs it."""
    try:
        check_fields(path, parse_row(line, path, 1), env_steps=int)
    except DamagedFile:
        return False
    return line.endswith(b"\n")


def remove_new(paths: Sequence[Path]) -> None:
    """Take back what was made, the last first; directories that have got other contents meanwhile stay."""
    for path in reversed(paths):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _difference(name: str, stored: Any, wanted: Any) -> str:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(set(stored) | set(wanted)):
            if stored.get(key) != wanted.get(key):
                return _difference(key, stored.get(key), wanted.get(key))
    return f"its {name} is {_told(stored)}, not {_told(wanted)}"


def _told(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_VALUE else shown(value)


def to_tensors(state: PyTree) -> dict[str, np.ndarray]:
    """Every leaf under a name that tells its place in the tree; random keys as their raw data."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(_raw(leaf)) for path, leaf in leaves}


def from_tensors(tensors: dict[str, np.ndarray], like: PyTree, *, source: Path) -> PyTree:
    """Inverse of `to_tensors` for a tree of the same structure as `like`."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        wanted = jax.eval_shape(_raw, leaf)
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
            raise DamagedFile(f"{source} does not fit this run: {name} should be {wanted.dtype}{list(wanted.shape)}.")
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        restored.append(jax.random.wrap_key_data(jnp.asarray(tensor)) if is_key else jnp.asarray(tensor))
    return jax.tree_util.tree_unflatten(structure, restored)


def _raw(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
