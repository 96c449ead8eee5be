"""Run directories: who may use them, and how a run finds its place again."""

import json
import os
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from coverset.pipeline.loop import seed_groups
from coverset.reports.figures import save_figure
from coverset.runs.directory import KEPT_CHECKPOINTS, RunDirectory, from_tensors, to_tensors, versions
from coverset.runs.storage import DamagedFile, check_fields, save_tensors

CONFIG = {"env": "matrix", "settings": {"margin": 1.0, "hidden_sizes": (32, 32)}, "seed": 0, "versions": {"jax": "1"}}


class State(NamedTuple):
    key: jax.Array
    layers: tuple[jax.Array, ...]
    update: jax.Array


def state(number: float) -> State:
    return State(jax.random.key(int(number)), (jnp.full((2, 3), float(number)), jnp.zeros(3)), jnp.int32(number))


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "seed-0")


@pytest.fixture
def claimed(directory: RunDirectory) -> RunDirectory:
    """The same, where the run has begun."""
    directory.claim(CONFIG)
    return directory


def entries(directory: RunDirectory) -> list[str]:
    return sorted(path.name for path in directory.path.rglob("*") if path.is_file())


def test_a_new_directory_is_claimed_once(directory: RunDirectory) -> None:
    directory.check_claim(CONFIG, resume=False)
    assert not directory.path.exists()
    directory.claim(CONFIG)
    assert json.loads(directory.config_path.read_text())["settings"] == {"margin": 1.0, "hidden_sizes": [32, 32]}
    directory.check_claim(CONFIG, resume=True)
    with pytest.raises(ValueError, match="already holds this run: continue it with `resume=True`"):
        directory.check_claim(CONFIG, resume=False)


def test_an_empty_directory_is_free(directory: RunDirectory) -> None:
    directory.path.mkdir()
    directory.check_claim(CONFIG, resume=False)


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_killed_while_its_config_was_written_can_start(directory: RunDirectory, resume: bool) -> None:
    directory.path.mkdir()
    (directory.path / ".config.json.123.tmp").write_text('{"env": ')
    directory.check_claim(CONFIG, resume=resume)
    directory.claim(CONFIG)
    directory.rewind(0, 0)
    assert entries(directory) == ["config.json"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"settings": {"margin": 2.0, "hidden_sizes": (32, 32)}}, "its margin is 1.0, not 2.0"),
        ({"env": "reaching"}, "its env is matrix, not reaching"),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"extra": True}, "its extra is None, not True"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_another_run_is_named_by_what_differs(directory: RunDirectory, change: dict, named: str, resume: bool) -> None:
    directory.claim(CONFIG)
    with pytest.raises(ValueError, match=f"holds another run .{named}"):
        directory.check_claim({**CONFIG, **change}, resume=resume)


def begun(root: Path, **groups: list[int] | None) -> dict[int, RunDirectory]:
    """Seeds by name, `s0=[0, 1]`; those without a group are free."""
    directories = {int(name[1:]): RunDirectory(root / name) for name in groups}
    for directory, group in zip(directories.values(), groups.values(), strict=True):
        if group is not None:
            directory.claim({**CONFIG, **({"trained_with": group} if group else {})})
    return directories


def finish(directory: RunDirectory) -> None:
    """Results that are whole, whatever they hold."""
    for name in directory.results:
        path = directory.path / name
        save_tensors(path, {}, {}) if path.suffix == ".safetensors" else save_figure(path, Figure())
    directory.summary_path.write_text('{"seed": 0}')


def test_seeds_are_grouped_as_they_were_begun_and_the_rest_as_they_come(tmp_path: Path) -> None:
    """A group killed before all its seeds had a config is whole again; runs that do not say are not mixed with new."""
    directories = begun(tmp_path, s5=None, s0=[0, 1, 2], s1=None, s2=[0, 1, 2], s3=[], s4=None, s6=None, s7=[], s8=[8])
    finish(directories[8])
    assert seed_groups(directories, 2) == [(5, 4), (0, 1, 2), (3, 7), (6,)]


def test_a_group_that_cannot_be_had_again_is_refused(tmp_path: Path) -> None:
    directories = begun(tmp_path, s0=[0, 1], s1=[1])
    with pytest.raises(ValueError, match=r"s0 was begun in one program with seeds 0 1, but seed 1 was begun otherwise"):
        seed_groups(directories, 2)


def test_other_versions_may_resume(directory: RunDirectory) -> None:
    directory.claim(CONFIG)
    directory.check_claim({**CONFIG, "versions": versions()}, resume=True)


def test_other_files_are_left_alone(directory: RunDirectory) -> None:
    directory.path.mkdir()
    (directory.path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"out must be empty or a run of coverset, but .*seed-0 holds other files"):
        directory.check_claim(CONFIG, resume=True)


def test_a_file_is_no_directory(directory: RunDirectory) -> None:
    directory.path.write_text("")
    with pytest.raises(ValueError, match=r"out must be a directory, but .*seed-0 is a file"):
        directory.check_claim(CONFIG, resume=False)


@pytest.mark.parametrize("content", ['{"env": "mat', "[]", "3"])
def test_a_damaged_config_is_named(directory: RunDirectory, content: str) -> None:
    directory.claim(CONFIG)
    directory.config_path.write_text(content)
    with pytest.raises(DamagedFile, match=r"config\.json"):
        directory.check_claim(CONFIG, resume=True)


def test_a_state_survives_its_file_key_and_all(claimed: RunDirectory) -> None:
    claimed.save_checkpoint(2, to_tensors(state(5)))
    loaded = claimed.load_checkpoint(2, jax.eval_shape(lambda: state(0)))
    assert jax.tree.structure(loaded) == jax.tree.structure(state(5))
    np.testing.assert_array_equal(jax.random.key_data(loaded.key), jax.random.key_data(jax.random.key(5)))
    assert loaded.key.dtype == jax.random.key(0).dtype
    np.testing.assert_array_equal(loaded.layers[0], np.full((2, 3), 5.0))
    assert int(loaded.update) == 5


@pytest.mark.parametrize("spoil", ["missing", "shape", "dtype"])
def test_a_state_of_another_shape_is_refused(tmp_path: Path, spoil: str) -> None:
    tensors = to_tensors(state(1))
    name = next(key for key in tensors if "layers[0]" in key)
    if spoil == "missing":
        del tensors[name]
    else:
        tensors[name] = tensors[name].T if spoil == "shape" else tensors[name].astype(np.float64)
    with pytest.raises(DamagedFile, match=r"does not fit this run: \.layers\[0\] should be float32\[2, 3\]"):
        from_tensors(tensors, state(0), source=tmp_path)


def test_the_newest_few_checkpoints_are_kept(claimed: RunDirectory) -> None:
    for chunk in (1, 2, 9, 10, 11):
        claimed.save_checkpoint(chunk, to_tensors(state(chunk)))
    assert claimed.checkpoints() == [9, 10, 11]
    assert len(claimed.checkpoints()) == KEPT_CHECKPOINTS


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damaged_checkpoints_are_passed_over_and_named(claimed: RunDirectory, damage: str) -> None:
    for chunk in (1, 2, 3):
        claimed.save_checkpoint(chunk, to_tensors(state(chunk)))
    spoil(claimed.path / "checkpoints" / "00000003.safetensors", damage)
    warnings: list[str] = []
    whole = claimed.load_intact_checkpoints(jax.eval_shape(lambda: state(0)), warnings.append)
    assert list(whole) == [1, 2]
    assert int(whole[2].update) == 2
    assert len(warnings) == 1
    assert "00000003.safetensors" in warnings[0]
    assert "the checkpoint of chunk 2" in warnings[0]


def spoil(path: Path, damage: str) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole if damage == "flip" else whole[: len(whole) // 2])


def test_when_every_checkpoint_is_damaged_the_warning_says_from_where_it_goes_on(claimed: RunDirectory) -> None:
    claimed.save_checkpoint(1, to_tensors(state(1)))
    spoil(claimed.path / "checkpoints" / "00000001.safetensors", "cut")
    warnings: list[str] = []
    assert claimed.load_intact_checkpoints(jax.eval_shape(lambda: state(0)), warnings.append) == {}
    assert "the start of the run" in warnings[0]


def check_steps(number: int, row: dict) -> None:
    check_fields("The row", row, env_steps=int)
    if row["env_steps"] != 8 * number:
        raise ValueError(f"Row {number} is another.")


def test_going_back_forgets_later_rows_and_checkpoints_and_leftovers(directory: RunDirectory) -> None:
    directory.claim(CONFIG)
    for chunk in (1, 2, 3):
        directory.append_metrics({"chunk": chunk, "env_steps": 8 * chunk})
        directory.save_checkpoint(chunk, to_tensors(state(chunk)))
    with directory.metrics_path.open("ab") as file:
        file.write(b'{"chunk":4,"en')
    (directory.path / "checkpoints" / ".00000004.safetensors.77.tmp").write_text("half")
    assert directory.count_intact_rows(check_steps) == 3
    directory.rewind(2, 2)
    assert directory.metrics_path.read_bytes() == b'{"chunk":1,"env_steps":8}\n{"chunk":2,"env_steps":16}\n'
    assert entries(directory) == ["00000001.safetensors", "00000002.safetensors", "config.json", "metrics.jsonl"]
    directory.save_checkpoint(3, to_tensors(state(3)))
    assert directory.checkpoints() == [1, 2, 3]


@pytest.mark.parametrize(
    "line", ["garbage", "{}", '{"env_steps":NaN}', '{"env_steps":"16"}', '{"env_steps":8}', "[" * 10_000]
)
def test_a_line_that_is_no_row_counts_as_lost(line: str, directory: RunDirectory) -> None:
    directory.claim(CONFIG)
    directory.append_metrics({"chunk": 1, "env_steps": 8})
    with directory.metrics_path.open("a") as file:
        file.write(f"{line}\n")
    directory.append_metrics({"chunk": 3, "env_steps": 24})
    assert directory.count_intact_rows(check_steps) == 1


def test_a_run_that_ended_before_the_checkpoint_keeps_its_fewer_rows(directory: RunDirectory) -> None:
    directory.claim(CONFIG)
    for chunk in (1, 2):
        directory.append_metrics({"chunk": chunk, "env_steps": 8 * chunk})
    directory.rewind(4, 2)
    assert directory.count_intact_rows(check_steps) == 2
    with pytest.raises(DamagedFile, match="holds 2 of the 3 rows"):
        directory.rewind(4, 3)


def test_the_log_reaches_the_disk_before_the_checkpoint(directory: RunDirectory, monkeypatch) -> None:
    directory.claim(CONFIG)
    directory.append_metrics({"chunk": 1})
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    directory.save_checkpoint(1, to_tensors(state(1)))
    (checkpoint,) = (directory.path / "checkpoints").iterdir()
    assert synced == [directory.metrics_path.stat().st_ino, checkpoint.stat().st_ino]


@pytest.mark.parametrize("content", [b'{"chunk":1}\n', b'{"chunk":1}\n{"chunk":2}', None])
def test_a_log_that_lost_rows_is_not_continued(directory: RunDirectory, content: bytes | None) -> None:
    directory.claim(CONFIG)
    if content is not None:
        directory.metrics_path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"metrics\.jsonl"):
        directory.rewind(2, 2)


def test_a_run_is_done_when_its_summary_and_all_results_are_whole(claimed: RunDirectory) -> None:
    assert claimed.summary() is None
    finish(claimed)
    assert claimed.summary() == {"seed": 0}
    assert claimed.is_done()
    for name in ("summary.json", *claimed.results):
        path = claimed.path / name
        whole = path.read_bytes()
        for damaged in (None, b"", whole[: len(whole) // 2], b"\xff" + whole[1:], whole[:-1]):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            if damaged != whole[:-1] or path.suffix != ".json":  # a line feed less is no damage
                assert claimed.list_missing_results() == [path]
            path.write_bytes(whole)
    assert claimed.is_done()


def test_versions_name_what_decides_the_bytes() -> None:
    assert {"python", "machine", "coverset", "jax", "jaxlib", "numpy"} <= set(versions())
