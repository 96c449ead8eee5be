"""Nothing outside the directory is read, whatever the links and names."""

import os

import pytest

from coverset.runs.storage import DamagedFile
from coverset.studio.files import OutsideDirectory, SafeDirectory, parse_json


@pytest.fixture
def shown(tmp_path):
    (tmp_path / "outside.json").write_text('{"secret": 1}')
    (tmp_path / "shown").mkdir()
    return SafeDirectory(tmp_path / "shown")


def test_files_inside_are_read_and_links_that_stay_inside_followed(shown):
    (shown.path / "a.json").write_text('{"a": [1, NaN]}')
    (shown.path / "b.json").symlink_to("a.json")
    assert shown.read_record(shown.path / "b.json") == {"a": [1, None]}


@pytest.mark.parametrize("target", ["../outside.json", "sub/../../outside.json"])
def test_ways_out_are_refused_without_telling_where_they_lead(shown, target):
    (shown.path / "sub").mkdir()
    with pytest.raises(OutsideDirectory) as refused:
        shown.read(shown.path / target)
    (shown.path / "link.json").symlink_to(shown.path / target)
    with pytest.raises(OutsideDirectory) as by_link:
        shown.read(shown.path / "link.json")
    assert "secret" not in str(refused.value) + str(by_link.value)
    assert "link.json leads out of the directory" in str(by_link.value)


def test_a_linked_directory_leads_out_too(shown, tmp_path):
    (shown.path / "door").symlink_to(tmp_path)
    with pytest.raises(OutsideDirectory):
        shown.read(shown.path / "door" / "outside.json")


def test_pipes_large_files_and_other_things_than_objects_are_refused(shown):
    os.mkfifo(shown.path / "pipe.json")
    with pytest.raises(FileNotFoundError):
        shown.read(shown.path / "pipe.json")
    (shown.path / "large.json").write_bytes(b"x" * 101)
    with pytest.raises(DamagedFile, match="larger than 100 bytes"):
        shown.read(shown.path / "large.json", 100)
    (shown.path / "list.json").write_text("[]")
    with pytest.raises(DamagedFile, match=r"list.json must contain a JSON object, not list"):
        shown.read_record(shown.path / "list.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000])
def test_what_is_not_json_is_damage(content):
    with pytest.raises(DamagedFile, match="it is not valid JSON"):
        parse_json(content, "it")


def test_the_directory_must_exist(tmp_path):
    with pytest.raises(ValueError, match="DIR must be a directory"):
        SafeDirectory(tmp_path / "nowhere")
