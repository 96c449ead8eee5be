"""`coverset certify` from tiny real runs to its files and refusals."""

import json
import shutil

import numpy as np
import pytest

from coverset.cli import main as command_line
from coverset.cli.certify import main
from coverset.envs.matrix import MatrixGame
from coverset.pipeline.generate import generate

TINY = {"total_steps": 200, "hidden_sizes": (8,), "envs_per_pair": 1, "rollout_length": 8, "epochs": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of tiny runs by environment; tests that change something copy them."""
    root = tmp_path_factory.mktemp("runs")
    generate("matrix", seeds=(0, 1), out=root / "matrix", population_size=2, **TINY)
    parameters = {"size": 3, "horizon": 8}
    generate("reaching", out=root / "reaching", env_parameters=parameters, population_size=2, **TINY)
    return root


@pytest.mark.parametrize(("name", "seeds"), [("matrix", [0, 1]), ("reaching", [0])])
def test_certificates_of_real_runs(runs, name, seeds, capsys) -> None:
    assert main([str(runs / name), "--json"]) == 0
    certificates = json.loads(capsys.readouterr().out)["certificates"]
    assert [certificate["seed"] for certificate in certificates] == seeds
    for certificate in certificates:
        directory = runs / name / f"seed-{certificate['seed']}"
        assert json.loads((directory / "certificate.json").read_text()) == certificate
        summary = json.loads((directory / "summary.json").read_text())
        difference = np.abs(np.array(certificate["undiscounted"]["pair_returns"]) - np.array(summary["cross_play"]))
        assert np.all(difference < 5 * np.array(summary["cross_play_standard_error"]) + 0.05)
        assert certificate["margin"] == summary["margin"]
        assert not list(directory.glob(".*.tmp"))


def test_table_of_one_seed(runs, capsys) -> None:
    assert main([str(runs / "matrix" / "seed-1")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "matrix: lbrdiv, preset fast, seed 1" in printed
    assert "constraints" in printed
    assert "exact over 10 joint states and a horizon of 1; 4,096 simulated episodes of each pair agree" in printed
    assert main([str(runs / "matrix"), "--seeds", "1", "--trials", "1"]) == 0


def refusal(capsys, *arguments) -> str:
    assert command_line.run(["certify", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return " ".join(captured.err.split())


def test_missing_runs_are_refused(runs, tmp_path, capsys) -> None:
    assert "is not a directory" in refusal(capsys, tmp_path / "nowhere")
    assert "holds no seed-N directories" in refusal(capsys, tmp_path)
    assert "has no seed 7" in refusal(capsys, runs / "matrix", "--seeds", "7")
    assert "trials must be at least 0" in refusal(capsys, runs / "matrix", "--trials", "-1")


def test_unfinished_and_damaged_runs_are_refused_before_anything_is_written(runs, tmp_path, capsys) -> None:
    root = tmp_path / "copy"
    shutil.copytree(runs / "matrix", root)
    for certificate in root.rglob("certificate.json"):
        certificate.unlink()
    seed = root / "seed-1"
    policies = (seed / "policies.safetensors").read_bytes()
    (seed / "policies.safetensors").write_bytes(policies[:-4] + b"none")
    assert "damaged" in refusal(capsys, root)
    (seed / "policies.safetensors").write_bytes(policies)
    config = json.loads((seed / "config.json").read_text())
    (seed / "config.json").write_text(json.dumps({**config, "env_version": 0}))
    assert "was made with version 0 of matrix" in refusal(capsys, root)
    (seed / "config.json").write_text(json.dumps({**config, "settings": {"margin": "wide"}}))
    assert "config.json is damaged: margin must be a number, got 'wide'." in refusal(capsys, root)
    (seed / "summary.json").unlink()
    assert "not finished" in refusal(capsys, root)
    assert not list(root.rglob("certificate.json"))


def test_environments_that_cannot_be_enumerated_are_refused(runs, capsys, monkeypatch) -> None:
    monkeypatch.setattr(MatrixGame, "initial_states", lambda self: None)
    assert "MatrixGame cannot be enumerated: its initial_states" in refusal(capsys, runs / "matrix")
