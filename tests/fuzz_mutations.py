"""Mutations of files: of bytes, JSON trees, logs, headers and tensors, also behind a checksum that is right."""

import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from coverset.runs.storage import load_tensors

RAW = {
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@overflow@": "1e999",
    "@long@": "9" * 5000,
    "@wide@": "1" + "0" * 25,
    "@surrogate@": r'"\ud800"',
    "@deep@": "[" * 60 + "]" * 60,
    "@abyss@": '{"a":' * 100_000,
    "@twice@": '{"a": 1, "a": 2}',
    "@control@": r'"\u001b[2J\n\u0000"',
}
"""JSON that Python's writer does not write, by the text that stands for it."""
VALUES = (None, True, False, 0, 1, -1, 7, 2**31, 2**62, -(2**63), 0.5, -1e-300, 1e308, "", "x", "matrix", "inf", "nan")
VALUES += ([], {}, [[]], [None], [0], [[0.0]], [1, "a"], {"": 0}, {"name": 1}, "a" * 2000, "os:nothing", *RAW)
NAMES = ("", "x", "env", "name", "__metadata__", "payoffs")


def places(tree: Any, at: tuple = ()) -> Iterator[tuple]:
    """Where every node of a JSON tree is."""
    yield at
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, child in children:
        yield from places(child, (*at, name))


def mutate_tree(rng: random.Random, tree: Any) -> Any:
    """Replace, delete, add, rename or double a node anywhere, the root too."""
    tree = json.loads(json.dumps(tree))
    *above, last = rng.choice([*places(tree)][rng.random() < 0.97 :] or [()]) or (None,)
    if last is None:
        return rng.choice(VALUES)
    parent = tree
    for name in above:
        parent = parent[name]
    match rng.randrange(6):
        case 0 if isinstance(parent, dict):
            del parent[last]
        case 1 if isinstance(parent, dict):
            parent[rng.choice(NAMES)] = parent.pop(last)
        case 1 | 0:
            del parent[last]
        case 2:
            parent[last] = [parent[last]] * rng.randrange(4)
        case 3 if isinstance(parent, list):
            parent.insert(last, rng.choice(VALUES))
        case _:
            parent[last] = rng.choice(VALUES)
    return tree


def written(tree: Any) -> str:
    text = json.dumps(tree)
    for word, raw in RAW.items():
        text = text.replace(f'"{word}"', raw)
    return text


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """One to three structural changes."""
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = mutate_tree(rng, tree)
    return written(tree).encode()


def mutate_lines(rng: random.Random, data: bytes) -> bytes:
    """A change in one row, or in the order of rows."""
    lines = data.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    if rng.random() < 0.8:
        lines[number] = mutate_json(rng, lines[number]) + b"\n"
    else:
        lines[number : number + rng.randrange(3)] = [rng.choice((b"\n", b"{}\n", b"[]\n", b"\r\n", b"{", lines[0]))]
    return b"".join(lines)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bits, pieces and lengths."""
    place, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 7, 64, 500))
    piece = rng.choice((rng.randbytes(length), b"\0" * length, b"\xff" * length, data[: rng.randrange(len(data) + 1)]))
    match rng.randrange(6):
        case 0:
            changed = bytearray(data)
            for _ in range(rng.choice((1, 1, 2, 16))):
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(changed)
        case 1:
            return data[:place]
        case 2:
            return data[:place] + piece + data[place:]
        case 3:
            return data[:place] + piece + data[place + length :]
        case 4:
            return data[:place] + data[place + length :]
        case _:
            return rng.choice(
                (b"", b"\xef\xbb\xbf" + data, data + data, b"PK\x03\x04" + data, b"\n", b"null", data[8:])
            )


def mutate_header(rng: random.Random, data: bytes) -> bytes:
    """Dtypes, shapes, offsets, names, or the length of the header."""
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size]
    if rng.random() < 0.1:
        size = rng.choice((0, 1, size - 1, size + 1, len(data), 2**31, 2**40, 2**63, 2**64 - 1))
        return size.to_bytes(8, "little") + header + data[8 + len(header) :]
    tree = json.loads(header)
    entry = rng.choice([name for name in tree if name != "__metadata__"])
    match rng.randrange(5):
        case 0:
            tree[entry]["dtype"] = rng.choice(
                ("F64", "F16", "BF16", "I8", "U64", "F8_E4M3", "BOOL", "F4", "C64", "I32")
            )
        case 1:
            shape = tree[entry]["shape"]
            tree[entry]["shape"] = rng.choice(
                (shape[::-1], [2**40, *shape], [2**62, 4], [0, *shape], [1] * 70, [-1], [])
            )
        case 2:
            tree[entry]["data_offsets"] = rng.choice(
                ([0, 2**62], [0, 0], [-8, 8], [8, 0], [0, len(data)], [0], [1, 2, 3])
            )
        case _:
            tree = mutate_tree(rng, tree)
    changed = written(tree).encode()
    return len(changed).to_bytes(8, "little") + changed + data[8 + size :]


def with_checksum(tensors: dict[str, np.ndarray], content: str) -> bytes:
    """A file as docs/reference/files.md describes it, its checksum right."""
    digest = hashlib.sha256(content.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}\n".encode() + tensors[name].tobytes())
    described = json.dumps({"content": content, "sha256": digest.hexdigest()})
    return save({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, {"coverset": described})


def mutate_tensors(rng: random.Random, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Other shapes, kinds, names and numbers."""
    tensors = dict(tensors)
    name, other = rng.choice([*tensors]), rng.choice([*tensors])
    tensor = tensors[name]
    match rng.randrange(9):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(("extra", f"{name}.x", "teammates.9.weight", "head.1.weight", "é", ""))] = tensor
        case 2:
            tensors[name] = rng.choice((tensor.T, tensor[None], tensor.ravel(), tensor.sum(keepdims=True)))
        case 3:
            tensors[name] = tensor.astype(rng.choice(("f8", "f2", "i4", "u1", "?")))
        case 4:
            tensors[name] = np.zeros((0, *tensor.shape[1:]), tensor.dtype)
        case 5:
            tensors[name], tensors[other] = tensors[other], tensors[name]
        case 6:
            axis = rng.randrange(max(1, tensor.ndim))
            tensors[name] = np.concatenate([np.atleast_1d(tensor)] * 2, axis=axis)
        case 7:
            tensors = {key: value[:0] if value.ndim else value for key, value in tensors.items()}
        case _ if tensor.size and tensor.dtype.kind == "f":
            changed = tensor.copy()
            changed.flat[rng.randrange(tensor.size)] = rng.choice((1e38, -1.0, 0.0)) if rng.random() < 0.3 else np.nan
            tensors[name] = changed
    return tensors


@lru_cache
def taken_apart(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The content of a file of tensors."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        return load_tensors(Path(file.name))


def mutate_checked(rng: random.Random, data: bytes) -> bytes:
    """Changes behind a checksum that is right, so that they reach whatever comes after it."""
    tensors, metadata = taken_apart(data)
    if rng.random() < 0.5:
        with np.errstate(invalid="ignore"):
            tensors = mutate_tensors(rng, tensors)
    else:
        metadata = mutate_tree(rng, metadata)
    return with_checksum(tensors, written(metadata))


def mutators(name: str) -> tuple[Callable[[random.Random, bytes], bytes], ...]:
    """How to change a file of this name; the likelier ways stand there more than once."""
    if name.endswith(".safetensors"):
        return (mutate_bytes, mutate_header, mutate_checked, mutate_checked)
    return (mutate_bytes, mutate_lines, mutate_lines) if name.endswith(".jsonl") else (mutate_bytes, mutate_json)
