"""Loggers of others: each row of the log once, whatever happens to the run."""

import json
import struct
from pathlib import Path

import pytest

import coverset
import toy_run
from coverset.cli.main import run
from coverset.loggers.base import find_loggers, flatten_row
from coverset.pipeline.loop import Stopped
from toy_run import CHUNKS, Witness

KILLED = 5
"""Chunks after which the run stops; its newest checkpoint is then damaged, so that it must go back further."""


def test_every_number_of_a_row_has_a_name() -> None:
    row = {"chunk": 3, "pair_returns": [[1.0, None], [2.5, 4]], "covers": ["action 1", None], "gaps": {"other": [[1]]},
           "multipliers": None, "held_out": {"H1": 0.5}}  # fmt: skip
    assert flatten_row(row) == {
        "chunk": 3.0, "pair_returns/1-1": 1.0, "pair_returns/2-1": 2.5, "pair_returns/2-2": 4.0,
        "gaps/other/1-1": 1.0, "held_out/H1": 0.5,
    }  # fmt: skip


def test_unknown_and_missing_loggers_are_named(monkeypatch) -> None:
    with pytest.raises(ValueError, match=r"log must be one of tensorboard, wandb, got 'tensorbord'\. Did you mean"):
        find_loggers(["tensorbord"])
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.delitem(__import__("sys").modules, "coverset.loggers.wandb", raising=False)
    with pytest.raises(ValueError, match=r"log 'wandb' needs the package wandb: install coverset\[wandb\]"):
        find_loggers(["wandb"])


def run_with_a_setback(out: Path, logs: list[str]) -> Path:
    """A toy run that is stopped, loses its newest checkpoint, and is resumed; its directory."""
    settings = {**toy_run.SETTINGS, "out": out, "logs": logs, "checkpoint_seconds": 0}
    with pytest.raises(Stopped):
        coverset.generate("matrix", reporter=Witness(stop_after=KILLED), **settings)
    directory = out / "seed-0"
    (directory / "checkpoints" / f"{KILLED:08d}.safetensors").write_bytes(b"damaged")
    coverset.generate("matrix", resume=True, reporter=Witness(), **settings)
    return directory


def rows_of(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def tensorboard_rows(directory: Path) -> list[tuple[int, str, float]]:
    """Step, name and value of everything in the event files."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in (directory / "tensorboard").iterdir():
        content, start = path.read_bytes(), 0
        while start < len(content):
            (length,) = struct.unpack_from("<Q", content, start)
            event = Event.FromString(content[start + 12 : start + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            start += 12 + length + 4
    return found


def test_tensorboard_holds_every_row_once_after_a_setback(tmp_path: Path) -> None:
    directory = run_with_a_setback(tmp_path, ["tensorboard"])
    rows, found = rows_of(directory), tensorboard_rows(directory)
    assert len(rows) == CHUNKS
    assert len(found) == len({(step, name) for step, name, _ in found}) == sum(len(flatten_row(row)) for row in rows)
    returns = {step: value for step, name, value in found if name == "self_play_return"}
    assert returns == pytest.approx({row["env_steps"]: row["self_play_return"] for row in rows}, rel=1e-6)


BLOCK, FILE_HEADER, HEADER = 32768, 7, struct.Struct("<IHB")
"""Its files are logs as LevelDB writes them: records cut at blocks, each part behind checksum, length and kind."""
WHOLE, LAST = 1, 4


def wandb_records(content: bytes) -> list[bytes]:
    records, parts, start = [], b"", FILE_HEADER
    while start + HEADER.size <= len(content):
        if BLOCK - start % BLOCK < HEADER.size:
            start += BLOCK - start % BLOCK
            continue
        _, length, kind = HEADER.unpack_from(content, start)
        start += HEADER.size
        parts += content[start : start + length]
        start += length
        if kind in (WHOLE, LAST):
            records, parts = [*records, parts], b""
    return records


def wandb_rows(directory: Path) -> list[dict]:
    """The history in the one offline run that is left."""
    from wandb.proto.wandb_internal_pb2 import Record

    (place,) = (directory / "wandb").glob("offline-run-*/*.wandb")
    records = [Record.FromString(content) for content in wandb_records(place.read_bytes())]
    rows = [record.history.item for record in records if record.WhichOneof("record_type") == "history"]
    return [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in row} for row in rows]


def test_wandb_without_a_login_is_told_in_one_sentence(tmp_path: Path, monkeypatch, capsys) -> None:
    import wandb

    def refuse(**_):
        raise wandb.errors.UsageError("No API key configured.\nUse `wandb login` to log in.")

    monkeypatch.setattr(wandb, "init", refuse)
    assert run(["generate", "matrix", *toy_run.words(), "--log", "wandb", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "coverset: log 'wandb' cannot start: log in with `wandb login`, or set WANDB_MODE=offline "
        "(UsageError: No API key configured)."
    )


def test_wandb_holds_every_row_once_after_a_setback(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    directory = run_with_a_setback(tmp_path, ["wandb"])
    rows, history = rows_of(directory), wandb_rows(directory)
    assert [row["chunk"] for row in rows] == [int(entry["chunk"]) for entry in history] == list(range(1, CHUNKS + 1))
    assert [entry["_step"] for entry in history] == list(range(1, CHUNKS + 1))
    for row, entry in zip(rows, history, strict=True):
        assert {name: entry[name] for name in flatten_row(row)} == pytest.approx(flatten_row(row))
