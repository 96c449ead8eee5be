"""Files are whole or not there, and every changed byte is noticed."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from coverset.runs import storage
from coverset.runs.storage import (
    DamagedFile,
    load_tensors,
    read_json,
    read_rows,
    round_floats,
    save_tensors,
    to_json_line,
    write_bytes,
    write_json,
)
from fuzz_mutations import with_checksum

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
    assert json.loads(to_json_line({"value": float("nan")})) == {"value": "nan"}
    assert to_json_line({"a": [1]}) == b'{"a":[1]}\n'


@pytest.mark.parametrize("content", [b'{"a": ', b"", b"\xff\xfe", b"{'a': 1}"])
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DamagedFile, match=r"config\.json is not valid JSON"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000, "nested more than 32 levels deep"),
        (b"[" * 33 + b"]" * 33, "nested more than 32 levels deep"),
        (b'{"a": 1, "b": 2, "a": 3}', "holds 'a' more than once"),
        (b'{"a": NaN}', "the number 'NaN' is not finite"),
        (b'{"a": [-Infinity]}', "the number '-Infinity' is not finite"),
        (b'{"a": 1e999}', "the number inf is too large"),
        (b'{"a": 9223372036854775808}', "the number 9223372036854775808 is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (rb'{"a": "\ud800"}', "surrogates not allowed"),
        (rb'{"\udfff": 1}', "surrogates not allowed"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b'"' + b"a" * storage.MAX_RECORD_BYTES + b'"', "larger than the 4,194,304 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_json_that_would_hurt_later_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DamagedFile, match=words) as refused:
        read_json(tmp_path / "config.json")
    assert str(tmp_path / "config.json") in str(refused.value)
    assert len(str(refused.value)) < 500


def test_json_up_to_the_limits_is_read(tmp_path: Path) -> None:
    whole = {"deep": json.loads("[" * 30 + "]" * 30), "large": [2**63 - 1, -(2**63), 1.7e308], "text": "\U0001f600é"}
    write_json(tmp_path / "config.json", whole)
    assert read_json(tmp_path / "config.json") == whole


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"garbage", "is not valid JSON: Expecting value"),
        (b"[1]", "must hold a JSON object, not list"),
        (b"", "not valid"),
    ],
)
def test_a_damaged_row_is_named_by_file_and_line(tmp_path: Path, line: bytes, words: str) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_bytes(b'{"chunk":1}\n' * 6 + line + b"\n" + b'{"chunk":8}\n')
    with pytest.raises(DamagedFile) as refused:
        read_rows(log)
    assert str(refused.value).startswith(f"{log}, line 7, ")
    assert words in str(refused.value)


def header(**entries) -> bytes:
    """A file of tensors with this header and 24 bytes of data."""
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + bytes(24)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\0" * 7, "ends within its header"),
        ((2**63).to_bytes(8, "little") + b"{}", "ends within its header"),
        ((2**20 + 1).to_bytes(8, "little") + b" " * (2**20 + 1), "its header is larger than 1,048,576 bytes"),
        ((2).to_bytes(8, "little") + b"[]", "its header must hold a JSON object, not list"),
        (header(), "does not hold the text 'coverset'"),
        (header(__metadata__={"coverset": "[1]"}), "its description must hold a JSON object"),
        (header(__metadata__={"coverset": '{"content": 1}'}), "does not hold the texts 'content' and 'sha256'"),
    ],
)
def test_headers_that_cannot_be_trusted_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(DamagedFile, match=words):
        load_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}, "not as large as its shape"),
        ({"dtype": "F32", "shape": [6], "data_offsets": [0, 20]}, "not as large as its shape"),
        ({"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}, "its tensors do not fill it"),
        ({"dtype": "F32", "shape": [5], "data_offsets": [4, 24]}, "its tensors do not fill it"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}, "no dtype, shape and data_offsets"),
        ({"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}, "no dtype, shape and data_offsets"),
        ({"dtype": "BF16", "shape": [12], "data_offsets": [0, 24]}, "no dtype, shape and data_offsets"),
        ({"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}, "dimension"),
        ([], "no dtype, shape and data_offsets"),
    ],
)
def test_tensors_that_lie_about_their_size_are_refused(tmp_path: Path, entry, words: str) -> None:
    described = json.dumps({"content": "{}", "sha256": ""})
    (tmp_path / "x.safetensors").write_bytes(header(__metadata__={"coverset": described}, x=entry))
    with pytest.raises(DamagedFile, match=words):
        load_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("metadata", ["[]", "null", '"text"', "3"])
def test_metadata_that_are_no_object_are_refused(tmp_path: Path, metadata: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(with_checksum(TENSORS, metadata))
    with pytest.raises(DamagedFile, match=r"metadata of .*x\.safetensors must hold a JSON object"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_file_larger_than_allowed_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sparse file: reading it would take more memory than there is."""
    with (tmp_path / "x.safetensors").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(DamagedFile, match="is larger than the 536,870,912 bytes"):
        load_tensors(tmp_path / "x.safetensors")


def test_logged_numbers_have_six_digits_and_unknown_ones_are_null() -> None:
    assert round_floats(np.array([[1 / 3, np.nan], [12345678.0, 0.0]])) == [[0.333333, None], [12345700.0, 0.0]]
    assert round_floats(np.float32(0.1)) == 0.1
