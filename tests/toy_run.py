"""A training run so small that it takes a second, the same one as words of the command line, and one untrained."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.pipeline.generate import make_plan
from coverset.pipeline.loop import Reporter
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population, save_population
from coverset.policies.stacked import count_members
from coverset.runs.storage import write_json
from coverset.runs.trust import sign_record

SETTINGS: dict[str, Any] = {
    "population_size": 2,
    "hidden_sizes": (8,),
    "envs_per_pair": 2,
    "rollout_length": 2,
    "epochs": 1,
    "chunk_steps": 80,
    "total_steps": 12 * 80,
    "parallel_seeds": 1,
}
CHUNKS = 12


def words(**changes: Any) -> list[str]:
    """The settings as options."""
    options: list[str] = []
    for name, value in {**SETTINGS, **changes}.items():
        values = value if isinstance(value, tuple) else (value,)
        options += [f"--{name.replace('_', '-')}", *map(str, values)]
    return options


class Witness(Reporter):
    """Notes what a run reports, and asks it to stop after some chunks."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.started: list[tuple[tuple[int, ...], int]] = []
        self.warnings: list[str] = []
        self.chunks = 0

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        self.started.append((seeds, steps_done))

    def chunk(self, env_steps: int, status: str) -> None:
        self.chunks += 1

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)

    def should_stop(self) -> bool:
        return self.chunks == self.stop_after


def outcome(directory: Path) -> dict[str, bytes]:
    """The files of a finished run that depend on its seed and settings alone."""
    newest = max((directory / "checkpoints").glob("*.safetensors"))
    return {
        path.name: path.read_bytes()
        for path in (directory / "policies.safetensors", directory / "metrics.jsonl", newest)
    }


def untrained(path: Path, name: str, *, width: int = 4, **parameters) -> None:
    """A run whose two pairs have learned nothing: for environments of which only the board matters."""
    environment = registry.make(name, **parameters)

    def policies(seat: int) -> ActorPolicy:
        sizes = (environment.observation_size, width, environment.num_actions[seat])
        return dense_policy(jax.vmap(lambda key: MLP.create(key, sizes))(jax.random.split(jax.random.key(seat), 2)))

    write_run(path, name, Population(policies(0), policies(1)), **parameters)


def write_constant(path: Path, name: str, *, actions: Sequence[int], **parameters) -> None:
    """A run whose pairs always choose one action each, in both seats."""
    environment = registry.make(name, **parameters)
    population = Population(*(constant_policies(environment, seat, actions) for seat in (0, 1)))
    write_run(path, name, population, **parameters)


def constant_policies(environment: Environment, seat: int, actions: Sequence[int], *, width: int = 0) -> ActorPolicy:
    """Policies that always choose one action each; with a hidden layer where it has a width."""
    size, inner = environment.num_actions[seat], (width,) * bool(width)
    sizes = (environment.observation_size, *inner, size)
    weights = [jnp.zeros((len(actions), *shape)) for shape in pairwise(sizes)]
    biases = [*(jnp.zeros((len(actions), each)) for each in inner), 50.0 * jnp.eye(size)[jnp.array(actions)]]
    return dense_policy(MLP(tuple(weights), tuple(biases)))


def write_run(path: Path, name: str, population: Population, **parameters) -> None:
    """A finished run that holds this population."""
    size = count_members(population.teammates)
    config = make_plan(name, env_parameters=parameters, population_size=size).config(0)
    write_json(path / "config.json", config)
    about = sign_record({key: config[key] for key in ("env", "env_parameters", "seed")})
    save_population(path / "policies.safetensors", population, about)
    write_json(path / "summary.json", {"env": name, "env_steps": 0, "cross_play": [[0.0] * size] * size})
