"""Small real runs, and studios that serve them on loopback."""

import shutil
from pathlib import Path

import jax
import pytest

import toy_run
from coverset.envs import registry
from coverset.generation import generate, make_plan
from coverset.policies.networks import MLP, NetworkPolicy
from coverset.policies.population import Population, save_population
from coverset.storage import write_json
from coverset.studio import replays, trials  # noqa: F401  in threads the tests' import hook trips over ast.parse
from coverset.training import train
from studio_client import Served


def untrained(path: Path, name: str, **parameters) -> None:
    """A run whose two pairs have learned nothing: for environments of which only the board matters."""
    environment = registry.make(name, **parameters)
    write_json(path / "config.json", make_plan(name, env_parameters=parameters, population_size=2).config(0))

    def policies(seat: int) -> NetworkPolicy:
        sizes = (environment.observation_size, 4, environment.num_actions[seat])
        return NetworkPolicy(jax.vmap(lambda key: MLP.create(key, sizes))(jax.random.split(jax.random.key(seat), 2)))

    save_population(path / "policies.safetensors", Population(policies(0), policies(1)), {})
    write_json(path / "summary.json", {"env": name, "env_steps": 0, "cross_play": [[0.0, 0.0], [0.0, 0.0]]})


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Runs of four environments, one with an ad hoc agent; not to be changed."""
    root = tmp_path_factory.mktemp("studio")
    generate("matrix", seeds=(0, 1), out=root / "matrix", **toy_run.SETTINGS)
    train(root / "matrix", learner="plastic", seeds=(0,))
    untrained(root / "weighted" / "seed-0", "weighted-reaching")
    untrained(root / "foraging" / "seed-0", "foraging", horizon=6)
    untrained(root / "countdown" / "seed-0", "countdown:Countdown")
    return root


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    """A copy of the runs to do with as one likes."""
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def shared(made: Path, tmp_path_factory):
    """A studio for tests that leave its runs alone; they may play and record."""
    root = tmp_path_factory.mktemp("shared") / "runs"
    shutil.copytree(made, root)
    with Served(root) as served:
        yield served
