"""Zip files of exported agents: only what belongs there is unpacked, within bounds; damage is named in one sentence."""

import json
import random
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from jax import export

from coverset.exported import archive
from coverset.exported.archive import MAX_ABOUT, MAX_PROGRAM, read_archive
from coverset.exported.file import export_policy, load_exported
from coverset.runs.storage import DamagedFile
from hostile_exports import Remembering, enclosed, entries, mutated, with_declared_size, write

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return export_policy(Remembering(), "matrix", 1, tmp_path_factory.mktemp("source") / "source.zip")


def refused(path: Path) -> str:
    """What is said of a file that cannot be read: one sentence that starts with its name."""
    with pytest.raises(DamagedFile) as caught:
        load_exported(path)
    return check_sentence(path, caught.value)


def check_sentence(path: Path, error: Exception) -> str:
    said = str(error)
    assert said.startswith(str(path)), said
    assert said.endswith("."), said
    assert len(said.splitlines()) == 1, said
    return said.removeprefix(str(path)).strip()


def test_what_is_written_is_read(source: Path) -> None:
    about, memory, parts = read_archive(source)
    assert about["env"] == "matrix"
    assert [(leaf.dtype, leaf.shape) for leaf in memory] == [(np.dtype(bool), ()), (np.dtype("int32"), ())]
    assert [*parts] == ["step.bin", "steps.bin"]


@pytest.mark.parametrize("name", ["about.json", "memory.0.npy", "steps.bin", "other"])
def test_what_unpacks_to_much_is_not_unpacked(name: str, source: Path, tmp_path: Path) -> None:
    """A hundred megabytes of zeros in a tenth of one, whether or not the file says so."""
    bomb = write(tmp_path / "bomb.zip", entries(source) | {name: bytes(100 * MEGABYTE)})
    lying = tmp_path / "lying.zip"
    lying.write_bytes(with_declared_size(bomb, name, 1000))
    tracemalloc.start()
    try:
        for path in (bomb, lying):
            refused(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_bounds_are_told(source: Path, tmp_path: Path) -> None:
    content = entries(source)
    large = write(tmp_path / "large.zip", content | {"steps.bin": bytes(MAX_PROGRAM + 1)})
    assert (
        refused(large) == f"says that steps.bin has {MAX_PROGRAM + 1} bytes, where at most {MAX_PROGRAM} are allowed."
    )
    long = write(tmp_path / "long.zip", content | {"about.json": b" " * (MAX_ABOUT + 1)})
    assert refused(long) == f"says that about.json has {MAX_ABOUT + 1} bytes, where at most {MAX_ABOUT} are allowed."
    arrays = {f"memory.{number}.npy": content["memory.0.npy"] for number in range(65)}
    assert refused(write(tmp_path / "many.zip", content | arrays)).startswith(
        "holds 65 arrays of memory, where at most 64"
    )
    names = {f"{'name' * 20}-{number}": b"" for number in range(200)}
    assert "where at most 16384 are allowed" in refused(write(tmp_path / "names.zip", content | names))


def test_a_file_of_many_bytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.zip"
    with path.open("wb") as file:
        file.truncate(archive.MAX_FILE + 1)
    assert refused(path).startswith(f"has {archive.MAX_FILE + 1} bytes, where an exported agent has at most")


def test_entries_that_are_missing_unknown_or_there_twice_are_named(source: Path, tmp_path: Path) -> None:
    content = entries(source)
    less = write(tmp_path / "less.zip", {name: data for name, data in content.items() if name != "step.bin"})
    assert refused(less) == "must hold step.bin once, but holds it 0 times."
    more = write(tmp_path / "more.zip", content | {"../step.bin": b""})
    assert refused(more) == "holds '../step.bin', which no exported agent does."
    twice = write(tmp_path / "twice.zip", content)
    with zipfile.ZipFile(twice, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("step.bin", b"another")
    assert refused(twice) == "must hold step.bin once, but holds it 2 times."
    gap = write(tmp_path / "gap.zip", {name.replace("memory.0", "memory.7"): data for name, data in content.items()})
    assert refused(gap) == "must hold memory.0.npy once, but holds it 0 times."


def test_files_of_the_format_before_are_told_to_be_made_again(source: Path, tmp_path: Path) -> None:
    content = entries(source)
    about = content["about.json"].replace(b"exported agent 2", b"exported agent 1")
    old = write(tmp_path / "old.zip", {**content, "about.json": about, "initial_memory.bin": b""})
    said = "does not hold 'coverset exported agent 2': export it again with this version of coverset."
    assert refused(old) == said


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", 2, "does not hold 'coverset exported agent 2'."),
        ("env", None, "must give env in about.json as str, got null."),
        ("env", ["matrix"], 'must give env in about.json as str, got ["matrix"].'),
        ("env_parameters", "x" * 100, f'must give env_parameters in about.json as dict, got "{"x" * 59}....'),
        ("num_actions", True, "must give num_actions in about.json from 1 to 1000000, got true."),
        ("num_actions", 3.0, "must give num_actions in about.json from 1 to 1000000, got 3.0."),
        ("observation_size", 10**9, "must give observation_size in about.json from 1 to 1000000, got 1000000000."),
        ("seat", "0", 'must give seat in about.json as int, got "0".'),
        ("learner", {}, "must give learner in about.json as str, got {}."),
    ],
)
def test_fields_of_other_kinds_are_named(field: str, value, message: str, source: Path, tmp_path: Path) -> None:
    content = entries(source)
    about = json.dumps({**json.loads(content["about.json"]), field: value}).encode()
    assert refused(write(tmp_path / "odd.zip", content | {"about.json": about})) == message


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (b"[" * 60_000, "RecursionError"),
        (b"[]", "does not hold 'coverset exported agent 2'"),
        (b"{", "JSONDecodeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"", "JSONDecodeError"),
        (b"1" * 5000, "ValueError"),
    ],
    ids=["deep", "a list", "cut", "no text", "empty", "a long number"],
)
def test_json_that_is_none_is_damage(about: bytes, message: str, source: Path, tmp_path: Path) -> None:
    assert message in refused(write(tmp_path / "odd.zip", entries(source) | {"about.json": about}))


def test_parameters_of_many_levels_are_refused_and_unknown_fields_left_out(source: Path, tmp_path: Path) -> None:
    content, deep = entries(source), []
    for _ in range(100):
        deep = [deep]
    about = json.loads(content["about.json"])
    path = write(
        tmp_path / "x.zip", content | {"about.json": json.dumps({**about, "env_parameters": {"a": deep}}).encode()}
    )
    assert refused(path) == "has env_parameters in about.json of more than 16 levels."
    write(path, content | {"about.json": json.dumps({**about, "more": deep}).encode()})
    assert read_archive(path)[0] == about


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n", b"cos\nsystem\n"), "memory of type object"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}\n"), "memory of shape"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n", b"1234"), "memory of shape"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", b"123"), "in 3 bytes"),
        (npy("{'descr': '>f4', 'fortran_order': False, 'shape': ()}\n", b"1234"), "memory of type >f4"),
        (npy("(" * 9000), "is damaged or not an exported agent: "),
        (npy("__import__('os').system('true')"), "is damaged or not an exported agent: "),
        (b"\x93NUMPY\x03\x00", "another version of the npy format"),
        (b"PK", "is damaged or not an exported agent: "),
    ],
    ids=["pickle", "huge", "negative", "short", "foreign", "deep", "code", "version", "zip"],
)
def test_memory_is_data_of_the_size_it_says(data: bytes, message: str, source: Path, tmp_path: Path) -> None:
    assert message in refused(write(tmp_path / "odd.zip", entries(source) | {"memory.1.npy": data}))


def test_what_is_encrypted_or_cut_is_damage(source: Path, tmp_path: Path) -> None:
    data = bytearray(source.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(mark, place + 4)
    path = tmp_path / "odd.zip"
    path.write_bytes(data)
    assert refused(path).startswith("is damaged or not an exported agent: RuntimeError: File 'about.json' is encrypted")
    path.write_bytes(source.read_bytes()[:-10])
    assert refused(path) == "is damaged or not an exported agent: it does not end as a zip file."


def fuzzed(chance: random.Random, source: Path, target: Path, layer: str) -> Path:
    """An exported agent with some bytes changed in the file, in an entry, or in a program."""
    if layer == "file":
        target.write_bytes(mutated(chance, source.read_bytes()))
        return target
    content = entries(source)
    if layer != "program":
        return write(target, content | {layer: mutated(chance, content[layer])})
    name = chance.choice(("step.bin", "steps.bin"))
    program = export.deserialize(bytearray(content[name])).mlir_module_serialized
    return write(target, content | {name: enclosed(content[name], mutated(chance, program))})


def fuzz(source: Path, target: Path, layers: list[str]) -> dict[str, list[float]]:
    """Read a damaged file for each layer; gives the seconds that each took, by what came of it."""
    seconds: dict[str, list[float]] = {"read": [], "refused": []}
    for number, layer in enumerate(layers):
        path = fuzzed(random.Random(number), source, target, layer)
        start = time.monotonic()
        try:
            load_exported(path)
            outcome = "read"
        except DamagedFile as error:
            check_sentence(path, error)
            outcome = "refused"
        seconds[outcome].append(time.monotonic() - start)
    return seconds


def test_a_thousand_damaged_files_end_in_one_sentence(source: Path, tmp_path: Path) -> None:
    """Those whose programs are reached take a process each, so that there are few of them here."""
    layers = ["file", "about.json", "memory.0.npy", "memory.1.npy"]
    seconds = fuzz(source, tmp_path / "fuzzed.zip", [layers[n % 4] for n in range(1000)] + 4 * ["program"])
    assert len(seconds["refused"]) > 900


@pytest.mark.slow
def test_damaged_programs_end_in_one_sentence(source: Path, tmp_path: Path) -> None:
    """Some of them crash the parser, in a process of its own."""
    layers = ["program", "program", "step.bin", "steps.bin"]
    seconds = fuzz(source, tmp_path / "fuzzed.zip", [layers[n % 4] for n in range(200)])
    assert len(seconds["refused"]) > len(seconds["read"])
