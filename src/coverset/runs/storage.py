"""File access: atomic writes, JSON with limits, and checksummed safetensors files instead of pickles."""

import errno
import hashlib
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from safetensors.numpy import save

from coverset.checks import check_type, format_value

DESCRIPTION = "coverset"
"""The only key of a tensor file's metadata; with several, their order and hence the bytes would vary."""
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U32": "<u4", "BOOL": "|b1"}
"""Accepted dtypes, by their names in the safetensors format."""
MAX_JSON_DEPTH = 32
"""Deepest accepted nesting; own files have fewer than ten levels. Recursive traversal is safe within it."""
INT64_RANGE = range(-(2**63), 2**63)
"""Accepted JSON integers; others do not fit in an int64 array."""
MAX_RECORD_BYTES = 4 * 2**20
"""Limit for a JSON file or one row of a log: more than any command writes, and small in memory once parsed."""
MAX_LOG_BYTES = 2**28
MAX_HEADER_BYTES = 2**20
MAX_TENSOR_BYTES = 2**29
"""Limit for a whole tensor file."""
TEMPORARY = ".*.tmp"
"""Pattern of the temporary names used by atomic writes; a killed process may leave such a file."""
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class DamagedFile(ValueError):
    """A file exists but its contents are invalid."""


class InUseError(ValueError):
    """Another process is using the same directory."""


def write_bytes(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part.

    Args:
      new: fail if the file exists, even if another process has just created it.

    Raises:
      FileExistsError: `new` is set and the file exists.
      OSError: the file cannot be written; the error names `path`, not the temporary file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if new:
                _rename_new(temporary, path)
            else:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _rename_new(temporary: Path, path: Path) -> None:
    """Rename a file unless the target exists. On file systems without hard links the check is not atomic."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)


def lock_file(file: IO[bytes]) -> None:
    """Lock an open file until it is closed; raises BlockingIOError if another process holds the lock."""
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OSError(error.errno, error.strerror, file.name) from error


def write_json(path: Path, content: Any, *, new: bool = False) -> None:
    """Write `content` as indented JSON; non-finite numbers become strings that `float` parses."""
    write_bytes(path, (json.dumps(to_jsonable(content), indent=2, allow_nan=False) + "\n").encode(), new=new)


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file. Pipes and devices, which could block the reader, are rejected.

    Raises:
      FileNotFoundError: the file does not exist.
      DamagedFile: the path is not a regular file, or the file is larger than `max_bytes`.
    """
    if not path.is_file():
        if path.exists() or path.is_symlink():
            raise DamagedFile(f"{path} must be a regular file.")
        raise FileNotFoundError(f"{path} does not exist.")
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= max_bytes:
            content = file.read(max_bytes + 1)
            if len(content) <= max_bytes:
                return content
    raise DamagedFile(f"{path} is larger than the {max_bytes:,} bytes allowed for such a file.")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return parse_json(read_bytes(path, MAX_RECORD_BYTES), str(path))


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    return _check_object(read_json(path), str(path))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a JSON Lines file of objects; the last line may lack its newline."""
    lines = read_bytes(path, MAX_LOG_BYTES).split(b"\n")
    whole = lines[:-1] if not lines[-1] else lines
    return [parse_row(line, path, number) for number, line in enumerate(whole, start=1)]


def parse_row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Parse line `number`, counted from 1, of a JSON Lines file."""
    source = f"{path}, line {number},"
    return _check_object(parse_json(line, source), source)


def _check_object(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise DamagedFile(f"{source} must hold a JSON object, not {type(content).__name__}.")
    return content


def _refuse_constant(digits: str) -> NoReturn:
    raise ValueError(f"the number {format_value(digits)} is not finite")


def parse_json(content: bytes, source: str, *, constant: Callable[[str], Any] = _refuse_constant) -> Any:
    """Parse untrusted JSON: bounded size and depth, numbers that fit in arrays, no duplicate names.

    Args:
      source: name of the source in error messages.
      constant: parser of NaN and Infinity, which are rejected by default.
    """
    try:
        if len(content) > MAX_RECORD_BYTES:
            raise ValueError(f"it is larger than {MAX_RECORD_BYTES:,} bytes")
        found = json.loads(content.decode(), object_pairs_hook=_check_unique_names, parse_constant=constant)
        _check_limits(found)
        if b"\\u" in content:
            json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate can be escaped, but not encoded
    except RecursionError as error:
        raise DamagedFile(
            f"{source} is not valid JSON: it is nested more than {MAX_JSON_DEPTH} levels deep."
        ) from error
    except ValueError as error:
        raise DamagedFile(f"{source} is not valid JSON: {str(error).rstrip('.')}.") from error
    return found


def _check_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        raise ValueError(f"it holds {format_value(times.most_common(1)[0][0])} more than once")
    return found


def _check_limits(content: Any) -> None:
    """Raise ValueError for numbers that are too large, RecursionError for nesting that is too deep."""
    level: Iterable[Any] = [content]
    for _ in range(MAX_JSON_DEPTH):
        for node in level:
            if (type(node) is int and node not in INT64_RANGE) or (type(node) is float and not math.isfinite(node)):
                raise ValueError(f"the number {format_value(node)} is too large")
        nested = [node for node in level if isinstance(node, dict | list)]
        if not nested:
            return
        level = [child for node in nested for child in (node.values() if isinstance(node, dict) else node)]
    raise RecursionError


def check_fields(path: Path | str, content: Mapping[str, Any], **fields: Any) -> None:
    """Raise DamagedFile unless a JSON object of a file, or of one line of it, has these fields with these types."""
    for name, kind in fields.items():
        if name not in content:
            raise DamagedFile(f"{path} is damaged: it does not hold {name}.")
        if kind is dict and not isinstance(content[name], dict):
            raise DamagedFile(f"{path} is damaged: {name} must be a JSON object, got {format_value(content[name])}.")
        try:
            check_type(name, content[name], kind)
        except ValueError as error:
            raise DamagedFile(f"{path} is damaged: {error}") from error


def to_json_line(content: Any) -> bytes:
    """Encode `content` as one line of a JSON Lines file."""
    return (json.dumps(to_jsonable(content), separators=(",", ":"), allow_nan=False) + "\n").encode()


def to_jsonable(content: Any) -> Any:
    """Return `content` as JSON would: tuples become lists, infinity and NaN become strings."""
    if isinstance(content, float) and not np.isfinite(content):
        return str(content)
    if isinstance(content, Mapping):
        return {key: to_jsonable(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [to_jsonable(value) for value in content]
    return content


def round_floats(values: Any) -> Any:
    """Round numbers for a log to six significant digits; NaN becomes None."""
    if np.ndim(values):
        return [round_floats(value) for value in values]
    return None if np.isnan(values) else float(f"{float(values):.6g}")


def save_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write named arrays and JSON metadata as a safetensors file with a checksum."""
    arrays = {name: np.asarray(tensors[name], order="C") for name in sorted(tensors)}
    content = json.dumps(to_jsonable(metadata), sort_keys=True)
    described = json.dumps({"content": content, "sha256": _compute_digest(content, arrays)})
    write_bytes(path, save(arrays, metadata={DESCRIPTION: described}))


def load_tensors(path: Path, *, max_bytes: int = MAX_TENSOR_BYTES) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file of `save_tensors`. No code from the file runs; raises DamagedFile if a byte has changed."""
    data = read_bytes(path, max_bytes)
    try:
        header, start = _read_header(data)
        content, digest = _read_description(header.pop("__metadata__", None))
        arrays = _read_arrays(header, memoryview(data)[start:])
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged or was not written by coverset: {str(error).rstrip('.')}.") from error
    if digest != _compute_digest(content, arrays):
        raise DamagedFile(f"{path} is damaged: its contents do not match its checksum.")
    source = f"The metadata of {path}"
    return arrays, _check_object(parse_json(content.encode(), source), source)


def _read_header(data: bytes) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file and the offset of its arrays."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or 8 + size > len(data):
        raise ValueError("it ends within its header")
    if size > MAX_HEADER_BYTES:
        raise ValueError(f"its header is larger than {MAX_HEADER_BYTES:,} bytes")
    return _check_object(parse_json(data[8 : 8 + size], "its header"), "its header"), 8 + size


def _read_description(metadata: Any) -> tuple[str, str]:
    """Return the metadata and the checksum as strings."""
    if not isinstance(metadata, dict) or not isinstance(metadata.get(DESCRIPTION), str):
        raise ValueError(f"its header does not hold the text '{DESCRIPTION}'")
    described = _check_object(parse_json(metadata[DESCRIPTION].encode(), "its description"), "its description")
    content, digest = described.get("content"), described.get("sha256")
    if not isinstance(content, str) or not isinstance(digest, str):
        raise ValueError("its description does not hold the texts 'content' and 'sha256'")
    return content, digest


def _read_arrays(header: Mapping[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """Return the arrays in alphabetical order; together they must fill the data without gap or overlap."""
    arrays, places = {}, []
    for name in sorted(header):
        kind, shape, place = _parse_entry(name, header[name])
        count = math.prod(shape)
        if place[1] - place[0] != count * kind.itemsize or place[1] > len(data):
            raise ValueError(f"the tensor {format_value(name)} is not as large as its shape")
        arrays[name] = np.frombuffer(data[slice(*place)], kind).reshape(shape).copy()
        places.append(place)
    places.sort()
    ends = [0, *(end for _, end in places)]
    if [begin for begin, _ in places] != ends[:-1] or ends[-1] != len(data):
        raise ValueError("its tensors do not fill it")
    return arrays


def _parse_entry(name: str, entry: Any) -> tuple[np.dtype, tuple[int, ...], tuple[int, int]]:
    """Return the dtype, shape, start and end of one array from its header entry."""
    fields = (entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")) if isinstance(entry, dict) else ()
    match fields:
        case (str(kind), list(shape), [int(begin), int(end)]) if kind in DTYPES and _are_sizes((*shape, begin, end)):
            return np.dtype(DTYPES[kind]), tuple(shape), (begin, end)
    raise ValueError(f"the tensor {format_value(name)} has no dtype, shape and data_offsets that can be read")


def _are_sizes(numbers: Iterable[Any]) -> bool:
    return all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers)


def is_intact(path: Path) -> bool:
    """Whether a file of results exists, passes its checksums and holds finite numbers."""
    try:
        if path.suffix == ".safetensors":
            tensors, _ = load_tensors(path)
            return all(np.isfinite(tensor).all() for tensor in tensors.values())
        if path.suffix == ".png":
            return _is_intact_png(path.read_bytes())
        return isinstance(read_json(path), dict)
    except (OSError, DamagedFile):
        return False


def _is_intact_png(data: bytes) -> bool:
    """Whether all chunks of a PNG file are present and pass their checksums."""
    start, name = len(PNG_SIGNATURE), b""
    if not data.startswith(PNG_SIGNATURE):
        return False
    while name != b"IEND":
        end = start + 8 + int.from_bytes(data[start : start + 4])
        name = data[start + 4 : start + 8]
        if zlib.crc32(data[start + 4 : end]).to_bytes(4) != data[end : end + 4]:
            return False
        start = end + 4
    return start == len(data)


def _compute_digest(content: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}\n".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
