"""Finding runs; nothing else can be requested."""

import pytest

from coverset.studio import catalogue
from coverset.studio.catalogue import Catalogue, find_runs
from coverset.studio.files import NotFound, SafeDirectory


def test_runs_are_found_below_the_directory_in_the_order_of_their_seeds(tmp_path):
    for name in ("b/seed-10", "b/seed-2", "a/deep/seed-0", "a/seed-x", "b/checkpoints/seed-1", ".hidden/seed-1"):
        (tmp_path / name).mkdir(parents=True)
    assert [run.id for run in find_runs(tmp_path)] == ["a/deep/seed-0", "b/seed-2", "b/seed-10"]


def test_a_run_and_a_seed_can_be_shown_by_themselves(made):
    assert [run.id for run in find_runs(made / "matrix")] == ["seed-0", "seed-1"]
    (only,) = find_runs(made / "matrix" / "seed-1")
    assert (only.id, only.group, only.seed) == (".", "matrix", 1)


def test_links_are_not_followed(tmp_path):
    (tmp_path / "elsewhere" / "seed-0").mkdir(parents=True)
    (tmp_path / "shown" / "runs").mkdir(parents=True)
    (tmp_path / "shown" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "shown" / "runs" / "seed-1").symlink_to(tmp_path / "elsewhere" / "seed-0")
    assert find_runs(tmp_path / "shown") == []


def test_depth_and_number_are_bounded(tmp_path, monkeypatch):
    (tmp_path / "/".join("abcdefg") / "seed-0").mkdir(parents=True)
    assert find_runs(tmp_path) == []
    monkeypatch.setattr(catalogue, "MOST_RUNS", 3)
    for seed in range(9):
        (tmp_path / f"seed-{seed}").mkdir()
    assert len(find_runs(tmp_path)) == 3


@pytest.mark.parametrize("id", ["", "/", "..", "../runs", "a/../a/seed-0", "/etc", "a/seed-0/", "a/seed-0\0", "a"])
def test_only_what_was_found_can_be_asked_for(tmp_path, id):
    (tmp_path / "a" / "seed-0").mkdir(parents=True)
    known = Catalogue(SafeDirectory(tmp_path))
    assert known.run("a/seed-0").seed == 0
    with pytest.raises(NotFound):
        known.run(id)
