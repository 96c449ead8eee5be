"""Who can be watched and played with: members of a population, ad hoc agents, heuristics."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp

from coverset.adhoc.saved import load_agent_policy
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import best_response, describe_heuristics, heuristics
from coverset.partners import AGENT_FILE, GenerationRun, check_same_environment, read_run
from coverset.policies.population import members
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile, round_floats
from coverset.studio.catalogue import Run
from coverset.studio.files import SafeDirectory

MOST_KEPT = 16


@dataclass(frozen=True)
class World:
    """An environment, and how files name it."""

    name: str
    parameters: dict[str, Any]
    environment: Environment


@dataclass(frozen=True)
class Player:
    """Somebody to play with."""

    reference: str
    """For example teammate:2; see `messages.PARTNER`."""
    name: str
    policy: Policy
    seat: int
    """Where it sits."""
    oracle: float | None = None
    """The best expected return per episode with it, where that is known."""


class Players:
    """Policies of the runs below the directory, the ones used last kept in memory."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self._lock = Lock()
        self._runs: OrderedDict[tuple[Path, int], GenerationRun] = OrderedDict()

    def world(self, record: dict[str, Any]) -> World:
        """Build the environment that a configuration or recording names, if it is trusted."""
        environment = registry.make_from_record("The file", record)
        return World(record["env"], dict(record["env_parameters"]), environment)

    def world_of(self, run: Run) -> World:
        """The environment of a run, finished or not."""
        return self.world(self.directory.read_record(run.path / "config.json"))

    def run(self, run: Run) -> GenerationRun:
        """A finished run with its policies."""
        self.world_of(run)
        key = (run.path, self.directory.file(run.path / "policies.safetensors").stat().st_mtime_ns)
        with self._lock:
            if key not in self._runs:
                self._runs[key] = read_run(run.path)
            self._runs.move_to_end(key)
            while len(self._runs) > MOST_KEPT:
                self._runs.popitem(last=False)
            return self._runs[key]

    def pair(self, run: Run, i: int, j: int) -> tuple[Environment, tuple[Policy, Policy]]:
        """Best response `i` and teammate `j` of a run, counted from 1."""
        loaded = self.run(run)
        best, teammates = loaded.population
        return loaded.environment, (member(best, i, "best response"), member(teammates, j, "teammate"))

    def find(self, run: Run, reference: str) -> tuple[World, Player]:
        """The player that a checked reference names, and its environment."""
        world = self.world_of(run)
        kind, _, which = reference.partition(":")
        if kind == "heuristic":
            return world, _heuristic(world.environment, which)
        if kind == "agent":
            return world, self._agent(run, world, which)
        seat = 0 if kind == "best-response" else 1
        name = kind.replace("-", " ")
        policy = member(self.run(run).population[seat], int(which), name)
        return world, Player(reference, f"{name} {which}", policy, seat)

    def _agent(self, run: Run, world: World, learner: str) -> Player:
        if learner.startswith("."):
            raise ValueError("There is no such agent in this run.")
        path = self.directory.file(run.path / learner / AGENT_FILE)
        policy, about = load_agent_policy(path)
        known_as = {"env": world.name, "env_parameters": world.parameters}
        check_same_environment(learner, about, world.environment, known_as)
        if about.get("seat") not in (0, 1):
            raise DamagedFile(f"{learner}/{AGENT_FILE} does not say in which seat the agent sits.")
        return Player(f"agent:{learner}", f"{learner} agent", policy, about["seat"])

    def list_heuristics(self, run: Run) -> list[dict[str, str]]:
        """The heuristics of a run's environment, in words."""
        environment = self.world_of(run).environment
        sentences = describe_heuristics(environment)
        return [
            {"reference": f"heuristic:{name}", "name": name, "does": sentences.get(name, "")}
            for name in heuristics(environment)
        ]


def member(policies: Any, number: int, name: str) -> Policy:
    """One member of a stack, counted from 1."""
    size = policies.mlp.weights[0].shape[0]
    if not 1 <= number <= size:
        raise ValueError(f"{name} must be a number from 1 to {size}, got {number}.")
    return jax.tree.map(lambda x: jnp.asarray(x[0]), members(policies, number - 1))


def _heuristic(environment: Environment, name: str) -> Player:
    known = heuristics(environment)
    if name not in known:
        raise ValueError(f"This environment has no heuristic {name}.")
    oracle = best_response(environment, known[name], seat=0)
    value = None if oracle is None else round_floats(oracle.value)
    return Player(f"heuristic:{name}", f"heuristic {name}", known[name], 1, value)
