"""Files: everything is written to a temporary name and renamed, tensors are never pickled, damage is noticed."""

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

from coverset.checks import of_type, shown

DESCRIPTION = "coverset"
"""The one key of a tensor file's metadata: with several, their order and so the bytes would be random."""
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U32": "<u4", "BOOL": "|b1"}
"""Kinds of arrays that are read, by their names in the safetensors format."""
DEEPEST = 32
"""Levels of JSON that are read; ours has fewer than ten. Whatever walks through it recursively is safe."""
WHOLE_NUMBERS = range(-(2**63), 2**63)
"""Those that are read from JSON: others fit in no array, and the largest in no float."""
MOST_RECORD_BYTES = 4 * 2**20
"""Of a JSON file, or of one row of a log: more than the commands write, and little to hold in memory once parsed."""
MOST_LOG_BYTES = 2**28
MOST_HEADER_BYTES = 2**20
MOST_TENSOR_BYTES = 2**29
"""Of a whole file of tensors."""
TEMPORARY = ".*.tmp"
"""Pattern of the names under which files are written before they are renamed; a killed process may leave one."""


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class DamagedFile(ValueError):
    """A file exists but does not hold what was written to it."""


class InUse(ValueError):
    """Another process is at work in the same place."""


def write_bytes(path: Path, data: bytes, *, new: bool = False) -> None:
    """Replace `path` by `data` at once: a reader sees the old file or the new one, never a part.

    Args:
      new: never replace a file, not even one that another process has just put there.

    Raises:
      FileExistsError: `new`, and there is a file.
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
            if new:
                _rename_new(temporary, path)
            else:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _rename_new(temporary: Path, path: Path) -> None:
    """Give a file its name unless the name is taken. Some file systems have no links; there the check comes before."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)


def lock(file: IO[bytes]) -> None:
    """Take an open file for this process until it is closed; raises BlockingIOError where another process has it."""
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OSError(error.errno, error.strerror, file.name) from error


def write_json(path: Path, content: Any, *, new: bool = False) -> None:
    """Write `content` as indented JSON; infinite numbers become strings that `float` reads back."""
    write_bytes(path, (json.dumps(jsonable(content), indent=2, allow_nan=False) + "\n").encode(), new=new)


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file. Pipes and devices, which could block the reader, are refused.

    Raises:
      FileNotFoundError: there is nothing of this name.
      DamagedFile: it is something else than a file, or larger than `most_bytes`.
    """
    if not path.is_file():
        if path.exists() or path.is_symlink():
            raise DamagedFile(f"{path} must be a file, but it is something else.")
        raise FileNotFoundError(f"{path} does not exist.")
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= most_bytes:
            content = file.read(most_bytes + 1)
            if len(content) <= most_bytes:
                return content
    raise DamagedFile(f"{path} is larger than the {most_bytes:,} bytes that such a file may have.")


def read_json(path: Path) -> Any:
    """Read JSON, or say in one sentence why it cannot be read."""
    return parse_json(read_bytes(path, MOST_RECORD_BYTES), str(path))


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    return _object(read_json(path), str(path))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file of objects; a last line without its end counts like the others."""
    lines = read_bytes(path, MOST_LOG_BYTES).split(b"\n")
    whole = lines[:-1] if not lines[-1] else lines
    return [parse_row(line, path, number) for number, line in enumerate(whole, start=1)]


def parse_row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Read the object in one line, counted from 1, of a JSON-lines file."""
    source = f"{path}, line {number},"
    return _object(parse_json(line, source), source)


def _object(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise DamagedFile(f"{source} must hold a JSON object, not {type(content).__name__}.")
    return content


def _refuse(digits: str) -> NoReturn:
    raise ValueError(f"the number {shown(digits)} is not finite")


def parse_json(content: bytes, source: str, *, constant: Callable[[str], Any] = _refuse) -> Any:
    """Read JSON from anywhere: of bounded size and depth, with numbers that fit in arrays, every name once.

    Args:
      source: what to call it in a sentence.
      constant: what to read for NaN and Infinity, which are refused if this is not given.
    """
    try:
        if len(content) > MOST_RECORD_BYTES:
            raise ValueError(f"it is larger than {MOST_RECORD_BYTES:,} bytes")
        found = json.loads(content.decode(), object_pairs_hook=_unique, parse_constant=constant)
        _check_nodes(found)
        if b"\\u" in content:
            json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair can be spelled, but not written
    except RecursionError as error:
        raise DamagedFile(f"{source} is not valid JSON: it is nested more than {DEEPEST} levels deep.") from error
    except ValueError as error:
        raise DamagedFile(f"{source} is not valid JSON: {str(error).rstrip('.')}.") from error
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        raise ValueError(f"it holds {shown(times.most_common(1)[0][0])} more than once")
    return found


def _check_nodes(content: Any) -> None:
    """Raise ValueError for numbers that are too large, RecursionError for too many levels."""
    level: Iterable[Any] = [content]
    for _ in range(DEEPEST):
        for node in level:
            if (type(node) is int and node not in WHOLE_NUMBERS) or (type(node) is float and not math.isfinite(node)):
                raise ValueError(f"the number {shown(node)} is too large")
        nested = [node for node in level if isinstance(node, dict | list)]
        if not nested:
            return
        level = [child for node in nested for child in (node.values() if isinstance(node, dict) else node)]
    raise RecursionError


def check_fields(path: Path | str, content: Mapping[str, Any], **fields: Any) -> None:
    """Raise DamagedFile unless the JSON object in a file, or in one line of it, holds these fields, of these types."""
    for name, kind in fields.items():
        if name not in content:
            raise DamagedFile(f"{path} is damaged: it does not hold {name}.")
        if kind is dict and not isinstance(content[name], dict):
            raise DamagedFile(f"{path} is damaged: {name} must be a JSON object, got {shown(content[name])}.")
        try:
            of_type(name, content[name], kind)
        except ValueError as error:
            raise DamagedFile(f"{path} is damaged: {error}") from error


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


def load_tensors(path: Path, *, most_bytes: int = MOST_TENSOR_BYTES) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_tensors` wrote. Runs no code from the file; raises DamagedFile if a byte has changed."""
    data = read_bytes(path, most_bytes)
    try:
        header, start = _header(data)
        content, digest = _described(header.pop("__metadata__", None))
        arrays = _arrays(header, memoryview(data)[start:])
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged or was not written by coverset: {str(error).rstrip('.')}.") from error
    if digest != _digest(content, arrays):
        raise DamagedFile(f"{path} is damaged: its contents do not match its checksum.")
    source = f"The metadata of {path}"
    return arrays, _object(parse_json(content.encode(), source), source)


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and where its arrays start."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or 8 + size > len(data):
        raise ValueError("it ends within its header")
    if size > MOST_HEADER_BYTES:
        raise ValueError(f"its header is larger than {MOST_HEADER_BYTES:,} bytes")
    return _object(parse_json(data[8 : 8 + size], "its header"), "its header"), 8 + size


def _described(metadata: Any) -> tuple[str, str]:
    """Metadata and checksum as texts."""
    if not isinstance(metadata, dict) or not isinstance(metadata.get(DESCRIPTION), str):
        raise ValueError(f"its header does not hold the text '{DESCRIPTION}'")
    described = _object(parse_json(metadata[DESCRIPTION].encode(), "its description"), "its description")
    content, digest = described.get("content"), described.get("sha256")
    if not isinstance(content, str) or not isinstance(digest, str):
        raise ValueError("its description does not hold the texts 'content' and 'sha256'")
    return content, digest


def _arrays(header: Mapping[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """The arrays by name, in alphabetical order; together they must be all of the data, without gap or overlap."""
    arrays, places = {}, []
    for name in sorted(header):
        kind, shape, place = _entry(name, header[name])
        count = math.prod(shape)
        if place[1] - place[0] != count * kind.itemsize or place[1] > len(data):
            raise ValueError(f"the tensor {shown(name)} is not as large as its shape")
        arrays[name] = np.frombuffer(data[slice(*place)], kind).reshape(shape).copy()
        places.append(place)
    places.sort()
    ends = [0, *(end for _, end in places)]
    if [begin for begin, _ in places] != ends[:-1] or ends[-1] != len(data):
        raise ValueError("its tensors do not fill it")
    return arrays


def _entry(name: str, entry: Any) -> tuple[np.dtype, tuple[int, ...], tuple[int, int]]:
    """What the header says of one array: its kind, its shape, where it begins and ends."""
    fields = (entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")) if isinstance(entry, dict) else ()
    match fields:
        case (str(kind), list(shape), [int(begin), int(end)]) if kind in DTYPES and _are_sizes((*shape, begin, end)):
            return np.dtype(DTYPES[kind]), tuple(shape), (begin, end)
    raise ValueError(f"the tensor {shown(name)} has no dtype, shape and data_offsets that can be read")


def _are_sizes(numbers: Iterable[Any]) -> bool:
    return all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers)


def is_whole(path: Path) -> bool:
    """Whether a file of results is there, by its checksums holds what was written to it, and can be used: finite."""
    try:
        if path.suffix == ".safetensors":
            tensors, _ = load_tensors(path)
            return all(np.isfinite(tensor).all() for tensor in tensors.values())
        if path.suffix == ".png":
            return _is_whole_png(path.read_bytes())
        return isinstance(read_json(path), dict)
    except (OSError, DamagedFile):
        return False


def _is_whole_png(data: bytes) -> bool:
    """Whether all chunks are there, each with its length, name, content and checksum."""
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


def _digest(content: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}\n".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
