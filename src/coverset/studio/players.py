"""Who can be watched and played with: members of a population, ad hoc agents, heuristics."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import best_response, describe_heuristics, heuristics
from coverset.partners import AGENT_FILE, SEATS, GenerationRun, find_member, load_agent_for, read_run
from coverset.policy import Policy
from coverset.runs.storage import rounded
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
        environment = registry.make_recorded("The file", record)
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
        chosen = zip(SEATS, (i, j), strict=True)
        first, second = (find_member(loaded.population, role, number)[1] for role, number in chosen)
        return loaded.environment, (first, second)

    def find(self, run: Run, reference: str) -> tuple[World, Player]:
        """The player that a checked reference names, and its environment."""
        world = self.world_of(run)
        kind, _, which = reference.partition(":")
        if kind == "heuristic":
            return world, _heuristic(world.environment, which)
        if kind == "agent":
            return world, self._agent(run, world, which)
        role = f"{kind}s"
        name, policy = find_member(self.run(run).population, role, int(which))
        return world, Player(reference, name, policy, SEATS[role])

    def _agent(self, run: Run, world: World, learner: str) -> Player:
        if learner.startswith("."):
            raise ValueError("There is no such agent in this run.")
        path = self.directory.file(run.path / learner / AGENT_FILE)
        known_as = {"env": world.name, "env_parameters": world.parameters}
        policy, about = load_agent_for(path, world.environment, known_as)
        return Player(f"agent:{learner}", f"{learner} agent", policy, about["seat"])

    def list_heuristics(self, run: Run) -> list[dict[str, str]]:
        """The heuristics of a run's environment, in words."""
        environment = self.world_of(run).environment
        sentences = describe_heuristics(environment)
        return [
            {"reference": f"heuristic:{name}", "name": name, "does": sentences.get(name, "")}
            for name in heuristics(environment)
        ]


def _heuristic(environment: Environment, name: str) -> Player:
    known = heuristics(environment)
    if name not in known:
        raise ValueError(f"This environment has no heuristic {name}.")
    oracle = best_response(environment, known[name], seat=0)
    value = None if oracle is None else rounded(oracle.value)
    return Player(f"heuristic:{name}", f"heuristic {name}", known[name], 1, value)
