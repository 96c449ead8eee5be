"""Small real runs, and studios that serve them on loopback."""

import shutil
from pathlib import Path

import pytest

import toy_run
from coverset.pipeline.generate import generate
from coverset.pipeline.train import train
from coverset.runs.storage import read_json, write_json
from coverset.studio import replays, trials  # noqa: F401  in threads the tests' import hook trips over ast.parse
from saved_agents import make_spec, write_untrained
from studio_client import Served
from toy_run import untrained


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Runs of four environments, one with an ad hoc agent; tests must not change them."""
    root = tmp_path_factory.mktemp("studio")
    generate("matrix", seeds=(0, 1), out=root / "matrix", **toy_run.SETTINGS)
    train(root / "matrix", learner="plastic", seeds=(0,))
    seed = root / "matrix" / "seed-0"
    about = {name: read_json(seed / "config.json")[name] for name in ("env", "env_parameters")}
    write_untrained(seed / "copy-1" / "agent.safetensors", about, make_spec(), "rl2")
    write_json(seed / "copy-1" / "config.json", {"command": "train", "learner": "rl2", "seat": 0})
    untrained(root / "weighted" / "seed-0", "weighted-reaching")
    untrained(root / "foraging" / "seed-0", "foraging", horizon=6)
    untrained(root / "countdown" / "seed-0", "countdown:Countdown")
    return root


@pytest.fixture(scope="session")
def several(tmp_path_factory):
    """A studio with games of three players: a generated run with an agent for seat 1, two that have learned nothing."""
    root = tmp_path_factory.mktemp("several") / "runs"
    three = {"players": 3, "horizon": 12}
    generate("reaching", seeds=(0,), out=root / "reaching", env_parameters=three, minibatches=1, **toy_run.SETTINGS)
    train(root / "reaching", learner="plastic", seeds=(0,), seat=1)
    untrained(root / "foraging" / "seed-0", "foraging", **three)
    untrained(root / "naming" / "seed-0", "turns:Naming")
    with Served(root) as served:
        yield served


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """A copy of the runs that a test may change."""
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def shared(made: Path, tmp_path_factory):
    """A studio for tests that do not change its runs; they may play and record."""
    root = tmp_path_factory.mktemp("shared") / "runs"
    shutil.copytree(made, root)
    with Served(root) as served:
        yield served
