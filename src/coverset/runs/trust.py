"""Which code a file may have run: none but what the user trusts.

Files name their environment: `env` and `env_parameters` of a config.json, of the metadata of policies and agents, of a
recording. A name `module:function`, also one among the parameters, where adapters look for it, would import and call
whatever it says. A name that came out of a file is used only where

- it is an installed entry point, or coverset's own;
- the user named it in this process: to `make` or `generate`, by `--trust`, by `coverset.trust`; or
- the record is signed: this user's coverset wrote it, on this machine. The signature is an HMAC-SHA256 of name and
  parameters under a random key that lies in the user's data directory; or
- the user allowed the same name with the same parameters before: their signature is remembered beside the key.
"""

import hashlib
import hmac
import json
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_data_path

from coverset.runs.storage import DamagedFile, jsonable, write_bytes

SIGNATURE = "signature"
"""Field of a record."""
KEY_SIZE = 32
MOST_REMEMBERED_BYTES = 2**20
"""Of the list of allowed records; beyond, nothing more is remembered, and the user is asked again."""
LONGEST_TOLD = 200
"""Characters of a name in a sentence."""

OWN = frozenset(
    {
        "coverset.adapters.jaxmarl:overcooked",
        "coverset.adapters.jumanji:JumanjiForaging",
        "coverset.envs.foraging.dynamics:Foraging",
        "coverset.envs.foraging:Foraging",
        "coverset.envs.matrix.dynamics:MatrixGame",
        "coverset.envs.matrix:MatrixGame",
        "coverset.envs.reaching.dynamics:Reaching",
        "coverset.envs.reaching:Reaching",
        "foraging",
        "matrix",
        "reaching",
        "weighted-reaching",
    }
)
"""Environments of coverset that import nothing that their parameters could name."""
ADAPTERS = frozenset(
    {
        "coverset.adapters.jaxmarl:JaxMarl",
        "coverset.adapters.jaxmarl:make_overcooked",
        "coverset.adapters.gymnasium:parallel_env",
        "coverset.adapters.pettingzoo:FromParallel",
        "coverset.adapters.pettingzoo:from_parallel",
    }
)
"""Functions of coverset that import what their parameters name: safe by themselves."""


CODE_FIELDS = ("best_responses", "teammates", "learner", "learner_settings", "spec")
"""Fields of a record, beside those of the environment, which may name classes of networks and learners."""


class Grant(NamedTuple):
    """What a process may hand on to another that works for the same user."""

    names: frozenset[str]
    key: bytes | None


_named: set[str] = set()
"""Names that the user said in this process, in whatever way."""
_allowed: set[str] = set()
"""Those among them that files may name from now on, because the user said just that."""
_granted_key: bytes | None = None


def trust(*names: str) -> None:
    """Let files name these environments, as `module:function`; which files is remembered, so that one is asked once."""
    for name in names:
        if ":" not in name:
            raise ValueError(f"trust must name an environment as module:function, got '{name}'.")
    note_named(*names)
    _allowed.update(names)


def note_named(*names: str) -> None:
    """The user has named these environments: for as long as this process lives, files may name them too."""
    _named.update(names)


def foreign_names(record: Mapping[str, Any]) -> list[str]:
    """Every name in a record that would import code which is neither installed by name nor coverset's own."""
    name = record["env"]
    named: list[str] = []
    if name not in OWN:
        named = [text for text in (name, *_texts(record["env_parameters"])) if ":" in text]
    named += [text for field in CODE_FIELDS for text in _texts(record.get(field)) if ":" in text]
    return [one for one in dict.fromkeys(named) if one not in ADAPTERS]


def _texts(content: Any) -> Iterator[str]:
    """Every text within a JSON value, keys included."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            left += value


def is_trusted(record: Mapping[str, Any]) -> bool:
    """Whether all that a record names may be imported and called."""
    return _named.issuperset(foreign_names(record)) or _is_signed(record) or _is_remembered(record)


def check_record(source: str, record: Mapping[str, Any]) -> None:
    """Raise DamagedFile unless a record names an environment."""
    if not isinstance(record.get("env"), str) or not isinstance(record.get("env_parameters"), Mapping):
        raise DamagedFile(f"{source} is damaged: it does not say for which environment it was made.")


def check_trusted(source: str, record: Mapping[str, Any]) -> None:
    """Raise ValueError, with the way to allow it, unless what the record of a file names may run."""
    check_record(source, record)
    if is_trusted(record):
        _remember(record)
        return
    names = [name for name in foreign_names(record) if name not in _named]
    told = ", ".join(f"'{name[:LONGEST_TOLD]}'" for name in names)
    if any(len(name) > LONGEST_TOLD or not name.isprintable() for name in names):
        raise ValueError(f"{source} names {told!r}, which is no module:function.")
    allowing = f"--trust {shlex.join(names)}, in Python with coverset.trust({', '.join(map(repr, names))})"
    raise ValueError(
        f"{source} would import {told}, and was not written by you on this machine: "
        f"if you trust that code, allow it with {allowing}."
    )


def signed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of this process with its signature, where it needs one and a key can be had."""
    plain = {field: value for field, value in record.items() if field != SIGNATURE}
    key = _key(create=True) if foreign_names(plain) else None
    return plain if key is None else {**plain, SIGNATURE: _signature(key, plain)}


def is_unsigned(record: Mapping[str, Any]) -> bool:
    """Whether a record needs a signature and lacks it."""
    return bool(foreign_names(record)) and SIGNATURE not in record


def _is_signed(record: Mapping[str, Any]) -> bool:
    found, key = record.get(SIGNATURE), _key(create=False)
    if not isinstance(found, str) or key is None:
        return False
    with suppress(RecursionError):
        return hmac.compare_digest(found.encode(errors="replace"), _signature(key, record).encode())
    return False


def _is_remembered(record: Mapping[str, Any]) -> bool:
    """Whether the user has allowed this name with these parameters before."""
    key = _key(create=False)
    with suppress(OSError, RecursionError):
        return key is not None and _signature(key, record) in _remembered()
    return False


def _remember(record: Mapping[str, Any]) -> None:
    """Ask no second time for what the user has allowed, where that can be written down."""
    names = foreign_names(record)
    if not names or not _allowed.issuperset(names) or _is_signed(record) or _is_remembered(record):
        return
    key = _key(create=True)
    with suppress(OSError, RecursionError):
        known = _remembered()
        if key is not None and len(known) * (len(_signature(key, record)) + 1) < MOST_REMEMBERED_BYTES:
            write_bytes(_remembered_path(), "".join(f"{one}\n" for one in [*known, _signature(key, record)]).encode())


def _remembered() -> list[str]:
    path = _remembered_path()
    return path.read_text().split() if path.is_file() and path.stat().st_size <= MOST_REMEMBERED_BYTES else []


def _remembered_path() -> Path:
    return key_path().with_name("trusted-records")


def _signature(key: bytes, record: Mapping[str, Any]) -> str:
    fields = [field for field in ("env", "env_parameters", *CODE_FIELDS) if field in record]
    content = json.loads(json.dumps({field: jsonable(record[field]) for field in fields}))
    return hmac.digest(key, json.dumps(content, sort_keys=True).encode(), hashlib.sha256).hex()


def grant() -> Grant:
    """What the user has trusted so far, and the key."""
    return Grant(frozenset(_named), _key(create=False))


def adopt(granted: Grant) -> None:
    """Work for the user who granted this."""
    global _granted_key
    _named.update(granted.names)
    _granted_key = granted.key


def key_path() -> Path:
    """Where the key lies."""
    return user_data_path("coverset") / "signing-key"


def _key(*, create: bool) -> bytes | None:
    """The key; None where there is none, and none can be made."""
    if _granted_key is not None:
        return _granted_key
    path = key_path()
    with suppress(OSError):
        if create and not (path.is_file() and path.stat().st_size == KEY_SIZE):
            _create_key(path)
        key = path.read_bytes()
        return key if len(key) == KEY_SIZE else None
    return None


def _create_key(path: Path) -> None:
    """Write a random key that nobody else can read. Of several processes at once, the first one's key stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_SIZE))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # and is no key: its write was cut off
            temporary.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
