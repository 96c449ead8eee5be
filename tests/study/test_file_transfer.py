"""Files on their way between machines: what changed, and that a death in the middle of writing loses nothing."""

from pathlib import Path

import pytest

from coverset.study import file_transfer
from coverset.study.file_transfer import Changes, find_changes, read_snapshot, write_changes

RUN = {
    "seed-0/summary.json": b"s",
    "seed-0/policies.safetensors": b"p",
    "seed-0/metrics.jsonl": b"1\n2\n",
    "seed-0/checkpoints/00000002.safetensors": b"c",
    "seed-0/config.json": b"{}",
}


def test_a_directory_comes_out_as_it_was(tmp_path: Path) -> None:
    write_changes(tmp_path, Changes(RUN, ()))
    (tmp_path / "seed-0" / ".summary.json.7.tmp").touch()
    assert read_snapshot(tmp_path) == RUN
    assert read_snapshot(tmp_path / "nowhere") == {}


def test_a_checkpoint_that_goes_while_it_is_looked_at_is_left_out(tmp_path: Path, monkeypatch) -> None:
    write_changes(tmp_path, Changes(RUN, ()))
    read = Path.read_bytes

    def rotate(path: Path) -> bytes:
        if path.parent.name == "checkpoints":
            path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", rotate)
    assert read_snapshot(tmp_path) == {name: data for name, data in RUN.items() if "checkpoints" not in name}


def test_only_what_changed_travels_and_what_is_gone_goes(tmp_path: Path) -> None:
    write_changes(tmp_path, Changes(RUN, ()))
    after = {**RUN, "seed-0/metrics.jsonl": b"1\n", "seed-0/rl2/config.json": b"{}"}
    del after["seed-0/checkpoints/00000002.safetensors"]
    changed = find_changes(RUN, after)
    assert changed.written == {"seed-0/metrics.jsonl": b"1\n", "seed-0/rl2/config.json": b"{}"}
    assert changed.removed == ("seed-0/checkpoints/00000002.safetensors",)
    (tmp_path / "seed-0" / "certificate.json").write_bytes(b"written by another unit meanwhile")
    write_changes(tmp_path, changed)
    assert read_snapshot(tmp_path) == {**after, "seed-0/certificate.json": b"written by another unit meanwhile"}


@pytest.mark.parametrize("survived", range(1, len(RUN)))
def test_whoever_dies_in_the_middle_leaves_a_run_to_go_on_from(tmp_path: Path, monkeypatch, survived: int) -> None:
    """It is known whose run it is, no checkpoint is ahead of the log, and it does not count as done."""
    written = []

    def write(path: Path, data: bytes) -> None:
        if len(written) == survived:
            raise OSError("No space left on device")
        written.append(path.name)

    monkeypatch.setattr(file_transfer, "write_bytes", write)
    with pytest.raises(OSError, match="No space left"):
        write_changes(tmp_path, Changes(RUN, ()))
    assert written[0] == "config.json"
    assert "summary.json" not in written
    assert "00000002.safetensors" not in written or "metrics.jsonl" in written
