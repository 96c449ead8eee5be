"""Trust in the code that files name: only names that the user trusts are imported.

Records in files (config.json, the metadata of policies and agents, recordings) name their environment as `env` and
`env_parameters`. A name `module:function`, in `env` or among the parameters of an adapter, makes coverset import and
call that function. A name from a file is used only if

- it is an installed entry point or part of coverset;
- the user named it in this process, with `make`, `generate`, `--trust` or `coverset.trust`;
- the record is signed, that is, this user's coverset wrote it on this machine. The signature is an HMAC-SHA256 of name
  and parameters under a random key in the user's data directory; or
- the user allowed the same name with the same parameters before; that signature is stored beside the key.
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

from coverset.runs.storage import DamagedFile, to_jsonable, write_bytes

SIGNATURE = "signature"
"""Field of a record."""
KEY_SIZE = 32
MAX_REMEMBERED_BYTES = 2**20
"""Limit for the list of allowed records; once it is reached, new records need permission every time."""
MAX_NAME_CHARACTERS = 200
"""Longest excerpt of a name in an error message."""

OWN_ENVIRONMENTS = frozenset(
    {
        "coverset.adapters.hanabi:Hanabi",
        "coverset.adapters.hanabi:mini_hanabi",
        "coverset.adapters.jaxmarl:overcooked",
        "coverset.adapters.jumanji:JumanjiForaging",
        "coverset.envs.foraging.dynamics:Foraging",
        "coverset.envs.foraging:Foraging",
        "coverset.envs.matrix.dynamics:MatrixGame",
        "coverset.envs.matrix:MatrixGame",
        "coverset.envs.overcooked.dynamics:Overcooked",
        "coverset.envs.overcooked:Overcooked",
        "coverset.envs.reaching.dynamics:Reaching",
        "coverset.envs.reaching:Reaching",
        "coverset.envs.signalling.dynamics:Signalling",
        "coverset.envs.signalling:Signalling",
        "foraging",
        "matching-pennies",
        "matrix",
        "overcooked",
        "reaching",
        "rock-paper-scissors",
        "signalling",
        "weighted-reaching",
    }
)
"""Environments of coverset whose parameters cannot name code to import."""
ADAPTERS = frozenset(
    {
        "coverset.adapters.jaxmarl:JaxMarl",
        "coverset.adapters.jaxmarl:from_jaxmarl",
        "coverset.adapters.jaxmarl:make_overcooked",
        "coverset.adapters.gymnasium:parallel_env",
        "coverset.adapters.pettingzoo:FromParallel",
        "coverset.adapters.pettingzoo:from_parallel",
    }
)
"""Functions of coverset that are safe by themselves but import what their parameters name."""


CODE_FIELDS = ("best_responses", "teammates", "learner", "learner_settings", "spec")
"""Fields of a record, beside those of the environment, which may name classes of networks and learners."""


class Grant(NamedTuple):
    """Trusted names and the signing key, which a process passes to its workers."""

    names: frozenset[str]
    key: bytes | None


_named: set[str] = set()
"""Names that the user has given in this process in any way."""
_allowed: set[str] = set()
"""Names that the user has explicitly allowed in files."""
_granted_key: bytes | None = None


def trust(*names: str) -> None:
    """Allow files to name these environments, as `module:function`; allowed records are remembered across processes."""
    for name in names:
        if ":" not in name:
            raise ValueError(f"trust must name an environment as module:function, got '{name}'.")
    note_named(*names)
    _allowed.update(names)


def note_named(*names: str) -> None:
    """Record that the user has named these environments; files may name them too while this process runs."""
    _named.update(names)


def foreign_names(record: Mapping[str, Any]) -> list[str]:
    """Return the names in a record that would import code outside coverset and installed entry points."""
    name = record["env"]
    named: list[str] = []
    if name not in OWN_ENVIRONMENTS:
        named = [text for text in (name, *_iterate_strings(record["env_parameters"])) if ":" in text]
    named += [text for field in CODE_FIELDS for text in _iterate_strings(record.get(field)) if ":" in text]
    return [one for one in dict.fromkeys(named) if one not in ADAPTERS]


def _iterate_strings(content: Any) -> Iterator[str]:
    """Yield every string within a JSON value, keys included."""
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
    """Whether every name in a record may be imported and called."""
    return _named.issuperset(foreign_names(record)) or _is_signed(record) or _is_remembered(record)


def check_record(source: str, record: Mapping[str, Any]) -> None:
    """Raise DamagedFile unless a record names an environment."""
    if not isinstance(record.get("env"), str) or not isinstance(record.get("env_parameters"), Mapping):
        raise DamagedFile(f"{source} is damaged: it does not say for which environment it was made.")


def check_trusted(source: str, record: Mapping[str, Any]) -> None:
    """Raise ValueError, with instructions to allow it, unless the names in a file's record are trusted."""
    check_record(source, record)
    if is_trusted(record):
        _remember(record)
        return
    names = [name for name in foreign_names(record) if name not in _named]
    told = ", ".join(f"'{name[:MAX_NAME_CHARACTERS]}'" for name in names)
    if any(len(name) > MAX_NAME_CHARACTERS or not name.isprintable() for name in names):
        raise ValueError(f"{source} names {told!r}, which is no module:function.")
    allowing = f"--trust {shlex.join(names)}, in Python with coverset.trust({', '.join(map(repr, names))})"
    raise ValueError(
        f"{source} would import {told}, and was not written by you on this machine: "
        f"if you trust that code, allow it with {allowing}."
    )


def sign_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its signature, if it needs one and a key is available."""
    plain = {field: value for field, value in record.items() if field != SIGNATURE}
    key = _load_key(create=True) if foreign_names(plain) else None
    return plain if key is None else {**plain, SIGNATURE: _signature(key, plain)}


def is_unsigned(record: Mapping[str, Any]) -> bool:
    """Whether a record needs a signature and lacks it."""
    return bool(foreign_names(record)) and SIGNATURE not in record


def _is_signed(record: Mapping[str, Any]) -> bool:
    found, key = record.get(SIGNATURE), _load_key(create=False)
    if not isinstance(found, str) or key is None:
        return False
    with suppress(RecursionError):
        return hmac.compare_digest(found.encode(errors="replace"), _signature(key, record).encode())
    return False


def _is_remembered(record: Mapping[str, Any]) -> bool:
    """Whether the user has allowed this environment with these parameters before."""
    key = _load_key(create=False)
    with suppress(OSError, RecursionError):
        return key is not None and _signature(key, record) in _read_remembered()
    return False


def _remember(record: Mapping[str, Any]) -> None:
    """Store the signature of a record that the user has allowed, if the data directory is writable."""
    names = foreign_names(record)
    if not names or not _allowed.issuperset(names) or _is_signed(record) or _is_remembered(record):
        return
    key = _load_key(create=True)
    with suppress(OSError, RecursionError):
        known = _read_remembered()
        if key is not None and len(known) * (len(_signature(key, record)) + 1) < MAX_REMEMBERED_BYTES:
            write_bytes(_remembered_path(), "".join(f"{one}\n" for one in [*known, _signature(key, record)]).encode())


def _read_remembered() -> list[str]:
    path = _remembered_path()
    return path.read_text().split() if path.is_file() and path.stat().st_size <= MAX_REMEMBERED_BYTES else []


def _remembered_path() -> Path:
    return key_path().with_name("trusted-records")


def _signature(key: bytes, record: Mapping[str, Any]) -> str:
    fields = [field for field in ("env", "env_parameters", *CODE_FIELDS) if field in record]
    content = json.loads(json.dumps({field: to_jsonable(record[field]) for field in fields}))
    return hmac.digest(key, json.dumps(content, sort_keys=True).encode(), hashlib.sha256).hex()


def grant() -> Grant:
    """Return the trusted names and the key of this process."""
    return Grant(frozenset(_named), _load_key(create=False))


def adopt(granted: Grant) -> None:
    """Take over the trusted names and the key of the parent process."""
    global _granted_key
    _named.update(granted.names)
    _granted_key = granted.key


def key_path() -> Path:
    """Return the path of the signing key."""
    return user_data_path("coverset") / "signing-key"


def _load_key(*, create: bool) -> bytes | None:
    """Return the key; None if there is none and none can be created."""
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
    """Write a random key readable by the user alone. If several processes do so at once, the first key stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_SIZE))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # truncated by an interrupted write
            temporary.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
