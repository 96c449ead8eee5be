"""Files are whole or not there, and every changed byte is noticed."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from coverset import storage
from coverset.storage import (
    DamagedFile,
    json_line,
    load_tensors,
    read_json,
    rounded,
    save_tensors,
    write_bytes,
    write_json,
)

TENSORS = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "count": np.array(7, np.int32),
    "flags": np.array([True, False]),
    "key": np.array([1, 2**32 - 1], np.uint32),
    "nothing": np.zeros((0, 3), np.float32),
}
METADATA = {"chunk": 3, "ceiling": float("inf"), "nested": {"cells": ((1, 2), (3, 4))}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_tensors(tmp_path / "state.safetensors", TENSORS, METADATA)
    return tmp_path / "state.safetensors"


def test_load_undoes_save(path: Path) -> None:
    tensors, metadata = load_tensors(path)
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert (tensors[name].dtype, tensors[name].shape) == (tensor.dtype, tensor.shape)
        np.testing.assert_array_equal(tensors[name], tensor)
    assert metadata == {"chunk": 3, "ceiling": "inf", "nested": {"cells": [[1, 2], [3, 4]]}}


def test_the_same_content_gives_the_same_bytes_in_any_order(path: Path, tmp_path: Path) -> None:
    """Several times: the library keeps metadata in a table whose order is random."""
    for _ in range(8):
        save_tensors(tmp_path / "again", dict(reversed(TENSORS.items())), dict(reversed(METADATA.items())))
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_an_array_that_is_not_contiguous_is_stored_as_it_looks(tmp_path: Path) -> None:
    turned = np.arange(6.0).reshape(2, 3).T
    save_tensors(tmp_path / "turned", {"x": turned}, {})
    np.testing.assert_array_equal(load_tensors(tmp_path / "turned")[0]["x"], turned)


@pytest.mark.parametrize("bit", [1, 0x20, 0x80])
def test_a_flipped_bit_is_noticed_wherever_it_is(path: Path, bit: int) -> None:
    """Length, names, metadata, padding, checksum, data."""
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= bit
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile, match=r"state\.safetensors"):
            load_tensors(path)


def test_a_cut_or_extended_file_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile):
            load_tensors(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedFile):
        load_tensors(path)


class Malice:
    """Unpickling this would fail the test."""

    def __reduce__(self):
        return pytest.fail, ("code from the file was run",)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "evil").write_bytes(pickle.dumps(Malice()))
    with pytest.raises(DamagedFile, match="not written by coverset"):
        load_tensors(tmp_path / "evil")


def test_safetensors_of_others_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save

    (tmp_path / "foreign").write_bytes(save(TENSORS))
    with pytest.raises(DamagedFile, match="not written by coverset"):
        load_tensors(tmp_path / "foreign")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors does not exist"):
        load_tensors(tmp_path / "nowhere.safetensors")


def test_writing_leaves_no_temporary_and_makes_directories(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a" / "b" / "file", b"old")
    write_bytes(tmp_path / "a" / "b" / "file", b"new")
    assert [entry.name for entry in (tmp_path / "a" / "b").iterdir()] == ["file"]
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"new"


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_the_old_file_survives_a_failed_write(tmp_path: Path, monkeypatch, broken: str) -> None:
    write_bytes(tmp_path / "file", b"old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", fail) if broken == "fsync" else monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left") as failed:
        write_bytes(tmp_path / "file", b"new")
    assert failed.value.filename == str(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_temporaries_match_the_pattern_by_which_leftovers_are_found(tmp_path: Path, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(storage.os, "fsync", lambda descriptor: seen.extend(tmp_path.iterdir()))
    write_bytes(tmp_path / "config.json", b"{}")
    assert [entry.match(storage.TEMPORARY) for entry in seen] == [True]


def test_json_spells_out_what_json_cannot_say(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"ceiling": float("inf"), "cells": ((1, 2),)})
    assert read_json(tmp_path / "x.json") == {"ceiling": "inf", "cells": [[1, 2]]}
    assert float(read_json(tmp_path / "x.json")["ceiling"]) == float("inf")
    assert json.loads(json_line({"value": float("nan")})) == {"value": "nan"}
    assert json_line({"a": [1]}) == b'{"a":[1]}\n'


@pytest.mark.parametrize("content", [b'{"a": ', b"", b"\xff\xfe", b"{'a': 1}"])
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DamagedFile, match=r"config\.json is not valid JSON"):
        read_json(tmp_path / "config.json")


def test_logged_numbers_have_six_digits_and_unknown_ones_are_null() -> None:
    assert rounded(np.array([[1 / 3, np.nan], [12345678.0, 0.0]])) == [[0.333333, None], [12345700.0, 0.0]]
    assert rounded(np.float32(0.1)) == 0.1
