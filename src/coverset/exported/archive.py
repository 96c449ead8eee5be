"""The zip files of exported agents: their entries and size limits.

    about.json             environment, seat and shapes of the agent, and what its step reads beside the usual
    memory.0.npy, ...      arrays of the memory at the start of a trial
    step.bin               (key, observation, reward, done, legal, seat, memory) -> (action, memory)
    steps.bin              the same for a batch of agents: every array has a leading axis

`legal` and `seat` are there only where `about.json` names them under `further_inputs`.

Reading checks the size of every entry before unpacking it, and runs nothing.
"""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coverset.checks import describe_exception
from coverset.runs.storage import DamagedFile

FORMAT = "coverset exported agent 2"
PROGRAMS = ("step.bin", "steps.bin")
ENTRY_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, fixed so that the same agent gives the same bytes."""
MAX_ABOUT = 64 << 10
MAX_PROGRAM = 32 << 20
MAX_MEMORY = 4 << 20
"""Bytes of one memory array, with its header."""
MAX_ARRAYS = 64
MAX_DIRECTORY = 16 << 10
"""Bytes of the central directory at the end of a zip file."""
MAX_FILE = 2 * MAX_PROGRAM + MAX_ARRAYS * MAX_MEMORY // 8
"""Bytes of a file."""
MAX_SIZE = 1_000_000
"""Entries of an observation, and number of actions."""
MAX_DEPTH = 16
"""Nesting levels of `env_parameters`."""
NUMBERS = "biuf"
"""Dtype kinds that memory may have: Booleans, integers and floats."""

FURTHER = {"legal": "which actions are legal", "seat": "which seat it plays"}
"""What a step may read beside the usual arguments, in this order."""


class Inputs(NamedTuple):
    """What one step of an exported agent reads."""

    observation_size: int
    num_actions: int
    legal: bool = False
    """Whether it is told the legal actions, Booleans [num_actions]."""
    seat: bool = False
    """Whether it plays several seats and is told which: an int32, counted on from 1 behind the ego's."""

    @property
    def further(self) -> tuple[str, ...]:
        """Names of the arguments between `done` and `memory`."""
        return tuple(name for name in FURTHER if getattr(self, name))

    def describe(self) -> dict[str, Any]:
        """The fields of `about.json`."""
        sizes = {"observation_size": self.observation_size, "num_actions": self.num_actions}
        return {**sizes, **({"further_inputs": list(self.further)} if self.further else {})}


def read_inputs(about: dict[str, Any]) -> Inputs:
    """The inputs that a checked `about.json` describes."""
    further = dict.fromkeys(about.get("further_inputs", ()), True)
    return Inputs(about["observation_size"], about["num_actions"], **further)


def pack(parts: dict[str, bytes], memory: tuple[np.ndarray, ...], about: dict[str, Any]) -> bytes:
    """The bytes of a file; raises ValueError if `unpack` would refuse it."""
    content = {"about.json": json.dumps({"format": FORMAT, **about}, indent=2, sort_keys=True).encode()}
    content |= {f"memory.{number}.npy": _serialize_array(array) for number, array in enumerate(memory)} | parts
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name, ENTRY_DATE), data, zipfile.ZIP_DEFLATED)
    try:
        unpack("", buffer.getvalue())
    except DamagedFile as error:
        raise ValueError(f"policy cannot be exported: its file{error}") from error
    return buffer.getvalue()


def read_archive(path: Path) -> tuple[dict[str, Any], tuple[np.ndarray, ...], dict[str, bytes]]:
    """Read `about.json`, the initial memory, and the unchecked programs of a file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.stat().st_size > MAX_FILE:
        raise DamagedFile(f"{path} has {path.stat().st_size} bytes, where an exported agent has at most {MAX_FILE}.")
    return unpack(str(path), path.read_bytes())


def unpack(source: str, data: bytes) -> tuple[dict[str, Any], tuple[np.ndarray, ...], dict[str, bytes]]:
    """Read the bytes of a file; raises DamagedFile with a message that starts with the source."""
    try:
        _check_directory(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            about = _check_about(json.loads(_read_entry(archive, "about.json", MAX_ABOUT)))
            count = _check_names(archive)
            memory = tuple(
                _parse_array(_read_entry(archive, f"memory.{number}.npy", MAX_MEMORY)) for number in range(count)
            )
            parts = {name: _read_entry(archive, name, MAX_PROGRAM) for name in PROGRAMS}
    except _InvalidArchive as error:
        raise DamagedFile(f"{source} {error}.") from error
    except Exception as error:  # encrypted, or an unsupported zip feature
        raise DamagedFile(f"{source} is damaged or not an exported agent: {describe_exception(error)}.") from error
    return about, memory, parts


class _InvalidArchive(ValueError):
    """What is wrong with a file: a message without subject and full stop."""


def _check_directory(data: bytes) -> None:
    """Raise unless the file ends with a short central directory: zipfile reads directories of any length."""
    end = data[-22:]
    if end[:4] != b"PK\x05\x06" or end[20:] != b"\0\0" or data[-42:-38] == b"PK\x06\x07":
        raise _InvalidArchive("is damaged or not an exported agent: it does not end as a zip file")
    if (size := int.from_bytes(end[12:16], "little")) > MAX_DIRECTORY:
        raise _InvalidArchive(f"lists its entries in {size} bytes, where at most {MAX_DIRECTORY} are allowed")


def _read_entry(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Unpack one entry, reading at most `most` bytes whatever size it claims."""
    if archive.namelist().count(name) != 1:
        raise _InvalidArchive(f"must hold {name} once, but holds it {archive.namelist().count(name)} times")
    info = archive.getinfo(name)
    if info.file_size > most:
        raise _InvalidArchive(f"says that {name} has {info.file_size} bytes, where at most {most} are allowed")
    with archive.open(name) as file:
        content = file.read(info.file_size)
    if len(content) != info.file_size:
        raise _InvalidArchive(f"says that {name} has {info.file_size} bytes, but it has {len(content)}")
    return content


def _check_names(archive: zipfile.ZipFile) -> int:
    """Raise if there are unknown entries; return the number of memory arrays."""
    arrays = [name for name in archive.namelist() if re.fullmatch(r"memory\.[0-9]{1,2}\.npy", name)]
    if unknown := sorted({*archive.namelist()} - {*arrays, *PROGRAMS, "about.json"}):
        raise _InvalidArchive(f"holds {unknown[0]!r}, which no exported agent does")
    if len(arrays) > MAX_ARRAYS:
        raise _InvalidArchive(f"holds {len(arrays)} arrays of memory, where at most {MAX_ARRAYS} are allowed")
    return len(arrays)


def _check_about(about: Any) -> dict[str, Any]:
    """The known fields of `about.json`; raises if one is missing or has the wrong type."""
    found = about.get("format") if isinstance(about, dict) else None
    if found != FORMAT:
        old = isinstance(found, str) and found.startswith(FORMAT[:-1])
        raise _InvalidArchive(
            f"does not hold '{FORMAT}'" + (": export it again with this version of coverset" if old else "")
        )
    for name, kind in (("env", str), ("env_parameters", dict)):
        if not isinstance(about.get(name), kind):
            raise _InvalidArchive(f"must give {name} in about.json as {kind.__name__}, got {_shorten(about.get(name))}")
    for name in ("observation_size", "num_actions"):
        if type(size := about.get(name)) is not int or not 1 <= size <= MAX_SIZE:
            raise _InvalidArchive(f"must give {name} in about.json from 1 to {MAX_SIZE}, got {_shorten(size)}")
    optional = {"seat": int, "num_seats": int, "seed": int, "learner": str, "role": str, "member": int}
    for name, kind in optional.items():
        if name in about and type(about[name]) is not kind:
            raise _InvalidArchive(f"must give {name} in about.json as {kind.__name__}, got {_shorten(about[name])}")
    if not _is_further(about.get("further_inputs", [])):
        known, got = " and ".join(FURTHER), _shorten(about["further_inputs"])
        raise _InvalidArchive(f"must give further_inputs in about.json as a list of {known}, got {got}")
    if _depth(about["env_parameters"]) > MAX_DEPTH:
        raise _InvalidArchive(f"has env_parameters in about.json of more than {MAX_DEPTH} levels")
    known = ("format", "env", "env_parameters", "observation_size", "num_actions", "further_inputs", *optional)
    return {name: about[name] for name in known if name in about}


def _is_further(names: Any) -> bool:
    """Whether these are names of further inputs, each once and in order."""
    return isinstance(names, list) and names == [name for name in FURTHER if name in names]


def _shorten(value: Any) -> str:
    """A value for a message, truncated if it is long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _serialize_array(array: np.ndarray) -> bytes:
    if array.dtype.kind not in NUMBERS:
        raise ValueError(f"policy must have a memory of numbers and Booleans, got {array.dtype}.")
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _parse_array(data: bytes) -> np.ndarray:
    """An array from the bytes of an npy file; its header is checked against their number before allocation."""
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise _InvalidArchive("holds memory in another version of the npy format than 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    if fortran or dtype.kind not in NUMBERS or not dtype.isnative:
        raise _InvalidArchive(f"holds memory of type {dtype}, which no exported agent does")
    content = data[buffer.tell() :]
    size = dtype.itemsize
    for length in shape:
        size *= length
    if min(shape, default=0) < 0 or size != len(content):
        raise _InvalidArchive(f"holds memory of shape {shape} in {len(content)} bytes")
    return np.frombuffer(content, dtype).reshape(shape)
