"""Files: everything is written to a temporary name and renamed, tensors are never pickled, damage is noticed."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

DESCRIPTION = "coverset"
"""The one key of a tensor file's metadata: with several, their order and so the bytes would be random."""
TEMPORARY = ".*.tmp"
"""Pattern of the names under which files are written before they are renamed; a killed process may leave one."""


class DamagedFile(ValueError):
    """A file exists but does not hold what was written to it."""


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` at once: a reader sees the old file or the new one, never a part.

    Raises:
      OSError: it cannot be written; names `path`, as nobody knows the temporary file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def lock(file: IO[bytes]) -> None:
    """Take an open file for this process until it is closed; raises OSError where another process has it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON; infinite numbers become strings that `float` reads back."""
    write_bytes(path, (json.dumps(jsonable(content), indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON, or say in one sentence why it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedFile(f"{path} is not valid JSON: {error}.") from error


def json_line(content: Any) -> bytes:
    """One line of a JSON-lines file."""
    return (json.dumps(jsonable(content), separators=(",", ":"), allow_nan=False) + "\n").encode()


def jsonable(content: Any) -> Any:
    """`content` as JSON gives it back: tuples are lists, infinity and NaN are spelled out."""
    if isinstance(content, float) and not np.isfinite(content):
        return str(content)
    if isinstance(content, Mapping):
        return {key: jsonable(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [jsonable(value) for value in content]
    return content


def rounded(values: Any) -> Any:
    """Numbers for a log: six digits, more than our estimates are good for, and null for NaN."""
    if np.ndim(values):
        return [rounded(value) for value in values]
    return None if np.isnan(values) else float(f"{float(values):.6g}")


def save_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write named arrays and JSON metadata as one safetensors file that carries its own checksum."""
    arrays = {name: np.asarray(tensors[name], order="C") for name in sorted(tensors)}
    content = json.dumps(jsonable(metadata), sort_keys=True)
    described = json.dumps({"content": content, "sha256": _digest(content, arrays)})
    write_bytes(path, save(arrays, metadata={DESCRIPTION: described}))


def load_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_tensors` wrote. Runs no code from the file; raises DamagedFile if a byte has changed."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        with safe_open(path, framework="numpy") as file:
            described = json.loads((file.metadata() or {})[DESCRIPTION])
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
        content, digest = str(described["content"]), described["sha256"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path} is damaged or was not written by coverset: {error}.") from error
    if digest != _digest(content, arrays):
        raise DamagedFile(f"{path} is damaged: its contents do not match its checksum.")
    return arrays, json.loads(content)


def _digest(content: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}\n".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
