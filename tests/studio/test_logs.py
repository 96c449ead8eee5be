"""A log that grows, is truncated, replaced and damaged while it is read."""

import json
from itertools import pairwise

import pytest

from coverset.studio import logs
from coverset.studio.files import SafeDirectory
from coverset.studio.logs import LogReader


@pytest.fixture
def log(tmp_path):
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def reader(tmp_path):
    return LogReader(SafeDirectory(tmp_path))


def line(step: int) -> bytes:
    return json.dumps({"env_steps": step}).encode() + b"\n"


def steps(read: logs.Log) -> list[int]:
    return [row["env_steps"] for row in read.rows]


def test_a_log_that_is_not_there_yet_is_empty(reader, log):
    assert reader.read(log).count == 0


def test_a_half_written_row_is_left_until_it_is_whole(reader, log):
    log.write_bytes(line(1) + line(2)[:5])
    assert steps(reader.read(log)) == [1]
    with log.open("ab") as file:
        file.write(line(2)[5:] + line(3))
    assert steps(reader.read(log)) == [1, 2, 3]


def test_a_replaced_or_shortened_log_is_read_anew(reader, log, tmp_path):
    log.write_bytes(line(1) + line(2) + line(3))
    assert reader.read(log).count == 3
    (tmp_path / "new").write_bytes(line(1) + line(7) + line(8))
    (tmp_path / "new").replace(log)
    assert steps(reader.read(log)) == [1, 7, 8]
    log.write_bytes(line(9))
    assert steps(reader.read(log)) == [9]


def test_damaged_rows_are_counted_and_passed_over(reader, log):
    log.write_bytes(line(1) + b'{"env_steps": \n[1]\n{"env_steps": "many"}\n\xff\n' + line(2))
    read = reader.read(log)
    assert (steps(read), read.damaged) == ([1, 2], 4)


def test_long_logs_are_thinned_evenly_and_end_with_the_newest_row(reader, log, monkeypatch):
    monkeypatch.setattr(logs, "MOST_ROWS", 10)
    log.write_bytes(b"".join(map(line, range(1, 102))))
    read = reader.read(log)
    assert read.count == 101
    kept = steps(read)
    assert len(kept) <= 11
    assert kept[-1] == 101
    assert len({b - a for a, b in pairwise(kept[:-1])}) == 1


def test_a_row_without_end_does_not_fill_the_memory(reader, log, monkeypatch):
    monkeypatch.setattr(logs, "LONGEST_ROW", 64)
    log.write_bytes(b"x" * 1000 + b"\n" + line(1))
    read = reader.read(log)
    assert steps(read) == [1]
    assert read.damaged > 0
