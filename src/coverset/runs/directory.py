"""Run directories: configuration, metrics log, checkpoints, and resuming a killed run.

DIR/seed-0/config.json        everything needed to repeat the run
           metrics.jsonl      one row per chunk; without wall-clock times, so that a resumed run writes the same bytes
           checkpoints/       the most recent training states
           policies.safetensors, summary.json, figures/    written at the end
"""

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

from coverset.checks import MAX_VALUE_CHARACTERS, format_value
from coverset.runs.storage import (
    MAX_HEADER_BYTES,
    MAX_LOG_BYTES,
    TEMPORARY,
    DamagedFile,
    InUseError,
    check_fields,
    is_intact,
    load_tensors,
    lock_file,
    parse_row,
    read_bytes,
    read_record,
    read_rows,
    save_tensors,
    to_json_line,
    to_jsonable,
    write_bytes,
    write_json,
)
from coverset.runs.trust import SIGNATURE
from coverset.types import PyTree

KEPT_CHECKPOINTS = 3
THREADS = "NPROC"
"""The environment variable that sets the number of threads of XLA."""
GROUP = "trained_with"
"""Field of `config.json`: the seeds trained in one program, whose number affects the bytes of the results."""
RECORDED_PACKAGES = ("coverset", "jax", "jaxlib", "equinox", "optax", "numpy")


def versions() -> dict[str, str]:
    """Return the versions that determine whether the same seed gives the same bytes."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in RECORDED_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def count_usable_cpus() -> int:
    """Return the number of CPUs available to this process, as XLA counts them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_threads() -> str:
    """Return the number of XLA threads. It sets the floating-point reduction order and hence the bytes of results."""
    return os.environ.get(THREADS) or str(count_usable_cpus())


class RunDirectory:
    """The directory of one seed."""

    chosen_by = "out"
    """The parameter of the command that determines the path."""
    results: tuple[str, ...] = ("policies.safetensors", "figures/cross-play.png", "figures/training.png")
    """Files of a finished run besides the summary."""

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

    @property
    def inspection_path(self) -> Path:
        return self.path / "inspection.json"

    def config(self) -> dict[str, Any]:
        """Read the settings of the run."""
        return read_record(self.config_path)

    def summary(self) -> dict[str, Any] | None:
        """Read the summary of a finished run; None while there is none."""
        return read_record(self.summary_path) if self.summary_path.is_file() else None

    def is_done(self) -> bool:
        """Whether the run has ended and all its results are intact; otherwise resuming it writes them."""
        return not self.list_missing_results()

    def list_missing_results(self) -> list[Path]:
        """Return the results that are missing or damaged."""
        return [path for path in (self.path / name for name in ("summary.json", *self.results)) if not is_intact(path)]

    def has_ended(self) -> bool:
        """Whether the run has ended: its summary, which is written last, exists."""
        return self.summary_path.is_file()

    def check_claim(self, config: dict[str, Any], *, resume: bool) -> None:
        """Raise unless this directory is free, or already holds the run described by `config`."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.chosen_by} must be a directory, but {self.path} is a file.")
        if self.path.is_symlink() and not self.path.exists():
            raise ValueError(f"{self.chosen_by} must be a directory, but {self.path} is a broken link.")
        if self._is_free():
            return
        if not self.config_path.is_file():
            raise ValueError(f"{self.chosen_by} must be empty or a run of coverset, but {self.path} holds other files.")
        self.check_same_run(config)
        if not resume:
            self.check_unused()
            raise ValueError(
                f"{self.path} already holds this run: continue it with `resume=True`, or choose "
                f"another `{self.chosen_by}`."
            )

    def claim(self, config: dict[str, Any]) -> list[Path]:
        """Create this run in a free directory. Returns the created paths in order of creation.

        Raises:
          ValueError: the directory cannot be written; nothing new is left behind.
        """
        if not self._is_free():
            return []
        new = [path for path in (self.config_path, self.path, *self.path.parents) if not path.exists()][::-1]
        try:
            write_json(self.config_path, config, new=True)
        except FileExistsError:  # another process created it first
            self.check_same_run(config)
            return []
        except OSError as error:
            remove_created(new)
            raise ValueError(
                f"{self.chosen_by} must be a writable directory, but {self.path} is not: {error.strerror}."
            ) from error
        return new

    def _is_free(self) -> bool:
        return not self.path.exists() or all(entry.match(TEMPORARY) for entry in self.path.iterdir())

    def check_same_run(self, config: dict[str, Any], *, ignored: Collection[str] = ()) -> None:
        """Raise unless this is the run described by `config`, apart from versions, seed group and ignored fields.

        Args:
          ignored: names of fields that may differ.
        """
        try:
            stored = self.config()
        except DamagedFile as error:
            raise DamagedFile(f"{error} Put a copy of it back, or remove {self.path} to start over.") from error
        wanted = to_jsonable(config)
        for name in sorted((set(stored) | set(wanted)) - {"versions", GROUP, SIGNATURE, *ignored}):
            if stored.get(name) != wanted.get(name):
                difference = _describe_difference(name, stored.get(name), wanted.get(name))
                raise ValueError(f"{self.path} holds another run ({difference}): choose another `{self.chosen_by}`.")

    def group(self) -> tuple[int, ...] | None:
        """Return the seeds trained in one program with this one; None without a run or where none are recorded."""
        seeds = self.config().get(GROUP) if self.config_path.is_file() else None
        if seeds is None:
            return None
        check_fields(self.config_path, {GROUP: seeds}, **{GROUP: tuple[int, ...]})
        return tuple(seeds)

    def describe_version_changes(self, config: dict[str, Any]) -> str:
        """Describe versions and thread counts that differ from those at the start of the run; empty if none do."""
        stored, now = self.config().get("versions"), to_jsonable(config["versions"])
        if not isinstance(stored, dict):
            return ""
        names = [name for name in now if name in stored and stored[name] != now[name]]
        return ", ".join(f"{name} {stored[name]} instead of {now[name]}" for name in names)

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Lock this directory against other processes. The lock is released however the process ends.

        Raises:
          InUseError: another process holds the lock.
        """
        with self.config_path.open("r+b") as file:
            try:
                lock_file(file)
            except BlockingIOError as error:
                raise InUseError(f"{self.path} is in use by another process: wait for it, or stop it.") from error
            yield

    def check_unused(self) -> None:
        """Raise InUseError if another process is using this directory."""
        with self.hold_lock():
            pass

    def check_exists(self) -> None:
        """Raise if this run has been removed, so that no orphaned files are written."""
        if not self.config_path.is_file():
            raise ValueError(f"{self.path} was removed or moved while the run was writing to it: start the run again.")

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Append one row to the metrics log."""
        self.check_exists()
        with _name_file_in_errors(self.metrics_path), self.metrics_path.open("ab") as file:
            file.write(to_json_line(row))

    def rows(self) -> list[dict[str, Any]]:
        """Read the metrics log."""
        rows = read_rows(self.metrics_path) if self.metrics_path.exists() else []
        for number, row in enumerate(rows, start=1):
            check_fields(f"{self.metrics_path}, line {number},", row, chunk=int)
        return rows

    def count_intact_rows(self, check: Callable[[int, dict[str, Any]], None]) -> int:
        """Count the rows of the log before the first that is incomplete or invalid.

        Args:
          check: raises ValueError unless its second argument is the row of this number, counted from 1.
        """
        if not self.metrics_path.exists():
            return 0
        lines = read_bytes(self.metrics_path, MAX_LOG_BYTES).splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            try:
                check(number, parse_row(line, self.metrics_path, number))
            except ValueError:
                return number - 1
            if not line.endswith(b"\n"):
                return number - 1
        return len(lines)

    def rewind(self, chunk: int, rows: int) -> None:
        """Delete the log rows and checkpoints written after the checkpoint from which training resumes.

        Args:
          chunk: the chunk of that checkpoint; 0 for the start of the run.
          rows: number of log rows to keep; fewer than chunks if this seed ended before others of its group.
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
        lines = read_bytes(self.metrics_path, MAX_LOG_BYTES).splitlines(keepends=True)[:rows]
        if len(lines) < rows or not all(line.endswith(b"\n") for line in lines):
            raise DamagedFile(f"{self.metrics_path} holds {len(lines)} of the {rows} rows that were logged.")
        write_bytes(self.metrics_path, b"".join(lines))

    def save_checkpoint(self, chunk: int, tensors: dict[str, np.ndarray]) -> None:
        """Write the state after `chunk` chunks, from `to_tensors`, and delete all but the newest checkpoints.

        The log is synced to disk first, because a checkpoint ahead of its log cannot be resumed.
        """
        self.check_exists()
        if self.metrics_path.exists():
            with _name_file_in_errors(self.metrics_path), self.metrics_path.open("ab") as file:
                os.fsync(file.fileno())
        save_tensors(self._checkpoint(chunk), tensors, {"chunk": chunk})
        for old in self.checkpoints()[:-KEPT_CHECKPOINTS]:
            self._checkpoint(old).unlink(missing_ok=True)

    def checkpoints(self) -> list[int]:
        """Return the chunks that have a checkpoint, oldest first."""
        found = (self.path / "checkpoints").glob("*.safetensors")
        return sorted(int(path.stem) for path in found if path.stem.isdigit())

    def load_checkpoint(self, chunk: int, like: PyTree) -> PyTree:
        """Read the state after `chunk` chunks into the structure of `like`."""
        wanted = jax.tree.leaves(jax.eval_shape(lambda tree: jax.tree.map(_to_raw_array, tree), like))
        max_bytes = MAX_HEADER_BYTES + sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in wanted)
        tensors, _ = load_tensors(self._checkpoint(chunk), max_bytes=max_bytes)
        return from_tensors(tensors, like, source=self._checkpoint(chunk))

    def load_intact_checkpoints(self, like: PyTree, warn: Callable[[str], None]) -> dict[int, PyTree]:
        """Load every readable checkpoint by its chunk; warn about damaged ones."""
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
    """The directory of one agent."""

    chosen_by = "name"
    results = ("agent.safetensors",)


class ProbeDirectory(RunDirectory):
    """The directory of the probes against one seed's best responses."""

    chosen_by = "name"
    results = ("policies.safetensors",)


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file name to OSErrors of writes, which lack it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_created(paths: Sequence[Path]) -> None:
    """Remove created paths, the last first; directories that are no longer empty stay."""
    for path in reversed(paths):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _describe_difference(name: str, stored: Any, wanted: Any) -> str:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(set(stored) | set(wanted)):
            if stored.get(key) != wanted.get(key):
                return _describe_difference(key, stored.get(key), wanted.get(key))
    return f"its {name} is {_format_setting(stored)}, not {_format_setting(wanted)}"


def _format_setting(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_VALUE_CHARACTERS else format_value(value)


def to_tensors(state: PyTree) -> dict[str, np.ndarray]:
    """Return every leaf under its path in the tree; random keys as raw data."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(_to_raw_array(leaf)) for path, leaf in leaves}


def from_tensors(tensors: dict[str, np.ndarray], like: PyTree, *, source: Path) -> PyTree:
    """Inverse of `to_tensors` for a tree of the same structure as `like`."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        wanted = jax.eval_shape(_to_raw_array, leaf)
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
            raise DamagedFile(f"{source} does not fit this run: {name} should be {wanted.dtype}{list(wanted.shape)}.")
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        restored.append(jax.random.wrap_key_data(jnp.asarray(tensor)) if is_key else jnp.asarray(tensor))
    return jax.tree_util.tree_unflatten(structure, restored)


def _to_raw_array(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
