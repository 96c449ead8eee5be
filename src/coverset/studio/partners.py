"""Policies to watch and play with: members of a population, ad hoc agents, heuristics."""

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
from coverset.runs.storage import DamagedFile, rounded
from coverset.studio.catalogue import Run
from coverset.studio.files import SafeDirectory

MOST_KEPT = 16


@dataclass(frozen=True)
class NamedEnvironment:
    """An environment with its name and parameters in files."""

    name: str
    parameters: dict[str, Any]
    environment: Environment


@dataclass(frozen=True)
class Partner:
    """A policy that a person can play with."""

    reference: str
    """For example teammate:2; see `messages.PARTNER`."""
    name: str
    policy: Policy
    seat: int
    """The seat of the policy."""
    oracle: float | None = None
    """The best expected return per episode with it; None if unknown."""


class PartnerLoader:
    """Loads policies of the runs below the directory and caches the most recently used runs."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self._lock = Lock()
        self._runs: OrderedDict[tuple[Path, int], GenerationRun] = OrderedDict()

    def make_environment(self, record: dict[str, Any]) -> NamedEnvironment:
        """Build the environment that a config or recording names, if it is trusted."""
        environment = registry.make_recorded("The file", record)
        return NamedEnvironment(record["env"], dict(record["env_parameters"]), environment)

    def environment_of(self, run: Run) -> NamedEnvironment:
        """Build the environment of a run, finished or not."""
        return self.make_environment(self.directory.read_record(run.path / "config.json"))

    def run(self, run: Run) -> GenerationRun:
        """Load a finished run with its policies."""
        self.environment_of(run)
        key = (run.path, self.directory.file(run.path / "policies.safetensors").stat().st_mtime_ns)
        with self._lock:
            if key not in self._runs:
                self._runs[key] = read_run(run.path)
            self._runs.move_to_end(key)
            while len(self._runs) > MOST_KEPT:
                self._runs.popitem(last=False)
            return self._runs[key]

    def pair(self, run: Run, i: int, j: int) -> tuple[Environment, tuple[Policy, Policy]]:
        """Load best response `i` and teammate `j` of a run, counted from 1."""
        loaded = self.run(run)
        best, teammates = loaded.population
        return loaded.environment, (select_member(best, i, "best response"), select_member(teammates, j, "teammate"))

    def find(self, run: Run, reference: str) -> tuple[NamedEnvironment, Partner]:
        """Load the partner that a checked reference names, and its environment."""
        named = self.environment_of(run)
        kind, _, which = reference.partition(":")
        if kind == "heuristic":
            return named, _make_heuristic(named.environment, which)
        if kind == "agent":
            return named, self._load_agent(run, named, which)
        seat = 0 if kind == "best-response" else 1
        name = kind.replace("-", " ")
        policy = select_member(self.run(run).population[seat], int(which), name)
        return named, Partner(reference, f"{name} {which}", policy, seat)

    def _load_agent(self, run: Run, named: NamedEnvironment, learner: str) -> Partner:
        if learner.startswith("."):
            raise ValueError("There is no such agent in this run.")
        path = self.directory.file(run.path / learner / AGENT_FILE)
        policy, about = load_agent_policy(path)
        known_as = {"env": named.name, "env_parameters": named.parameters}
        check_same_environment(learner, about, named.environment, known_as)
        if about.get("seat") not in (0, 1):
            raise DamagedFile(f"{learner}/{AGENT_FILE} does not name the seat of the agent.")
        return Partner(f"agent:{learner}", f"{learner} agent", policy, about["seat"])

    def list_heuristics(self, run: Run) -> list[dict[str, str]]:
        """Describe the heuristics of a run's environment."""
        environment = self.environment_of(run).environment
        sentences = describe_heuristics(environment)
        return [
            {"reference": f"heuristic:{name}", "name": name, "does": sentences.get(name, "")}
            for name in heuristics(environment)
        ]


def select_member(policies: Any, number: int, name: str) -> Policy:
    """Select one member of a stack, counted from 1."""
    size = policies.mlp.weights[0].shape[0]
    if not 1 <= number <= size:
        raise ValueError(f"{name} must be a number from 1 to {size}, got {number}.")
    return jax.tree.map(lambda x: jnp.asarray(x[0]), members(policies, number - 1))


def _make_heuristic(environment: Environment, name: str) -> Partner:
    known = heuristics(environment)
    if name not in known:
        raise ValueError(f"This environment has no heuristic {name}.")
    oracle = best_response(environment, known[name], seat=0)
    value = None if oracle is None else rounded(oracle.value)
    return Partner(f"heuristic:{name}", f"heuristic {name}", known[name], 1, value)
