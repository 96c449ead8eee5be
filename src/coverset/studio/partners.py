"""Policies to watch and play with: members of a population, ad hoc agents, heuristics."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import best_response, describe_heuristics, heuristics
from coverset.partners import (
    AGENT_FILE,
    POLICIES_FILE,
    ROLES,
    SEATS,
    GenerationRun,
    find_member,
    load_agent_for,
    load_probe_for,
    read_run,
)
from coverset.policies.population import Population
from coverset.policy import Policy
from coverset.runs.storage import round_floats
from coverset.studio.catalogue import Run
from coverset.studio.files import SafeDirectory
from coverset.studio.resemblance import Resemblance, keeps_belief

MOST_KEPT = 16
PROBE = "probe-"
EGOS = ("agent:", "best-response:", f"{PROBE}best-response:")
"""References of policies for the ego's seat; all others play the seats of the team."""


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
    """The seat of the policy; of a policy for the whole team, its first."""
    oracle: float | None = None
    """The best expected return per episode with it; None if unknown."""
    told: str | None = None
    """What the policy's `belief` means: its own `belief`, or the `resemblance` of its actions; None if it has none."""

    @property
    def is_ego(self) -> bool:
        """Whether the policy is an ad hoc agent or a best response, which plays one seat and has teammates."""
        return self.reference.startswith(EGOS)


class PartnerLoader:
    """Loads policies of the runs below the directory and caches the most recently used runs."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self._lock = Lock()
        self._runs: OrderedDict[tuple[Path, int], GenerationRun] = OrderedDict()

    def make_environment(self, record: dict[str, Any]) -> NamedEnvironment:
        """Build the environment that a config or recording names, if it is trusted."""
        environment = registry.make_from_record("The file", record)
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

    def pair(self, run: Run, i: int, j: int, probe: str | None = None) -> tuple[Environment, tuple[Policy, Policy]]:
        """Load best response `i` and teammate `j` of a run, counted from 1, or the teammate of a probe.

        With a probe, best response 0 is the one that it has found.
        """
        loaded = self.run(run)
        if probe is not None:
            found = self._load_probe(run, probe)
            best_response = find_member(loaded.population if i else found, ROLES[0], i or 1)[1]
            return loaded.environment, (best_response, find_member(found, ROLES[1], j)[1])
        chosen = zip(SEATS, (i, j), strict=True)
        first, second = (find_member(loaded.population, role, number)[1] for role, number in chosen)
        return loaded.environment, (first, second)

    def find(self, run: Run, reference: str) -> tuple[NamedEnvironment, Partner]:
        """Load the partner that a checked reference names, and its environment."""
        named = self.environment_of(run)
        kind, _, which = reference.partition(":")
        if kind == "heuristic":
            return named, _make_heuristic(named.environment, which)
        if kind == "agent":
            return named, self._load_agent(run, named, which)
        if kind.startswith(PROBE):
            role = f"{kind.removeprefix(PROBE)}s"
            name, policy = find_member(self._load_probe(run, which), role, 1)
            return named, Partner(reference, f"{name.removesuffix(' 1')} found by {which}", policy, SEATS[role])
        role = f"{kind}s"
        name, policy = find_member(self.run(run).population, role, int(which))
        return named, Partner(reference, name, policy, SEATS[role])

    def find_team(self, run: Run, partner: Partner, reference: str | None) -> Partner | None:
        """Load who plays the team's other seats beside a person and an ego; None if the game has no such seats.

        By default, they are played by the teammate that belongs to a best response, or by the first teammate.
        """
        if self.environment_of(run).environment.num_seats == 2 or not partner.is_ego:
            if reference is not None:
                raise ValueError("team must be left out with this partner, who leaves no other seat than yours.")
            return None
        kind, _, number = partner.reference.partition(":")
        own = f"teammate:{number if kind == 'best-response' else 1}"
        if kind.startswith(PROBE):
            own = f"{PROBE}teammate:{number}"
        return self.find(run, reference or own)[1]

    def _load_agent(self, run: Run, named: NamedEnvironment, name: str) -> Partner:
        if name.startswith("."):
            raise ValueError("There is no such agent in this run.")
        path = self.directory.file(run.path / name / AGENT_FILE)
        known_as = {"env": named.name, "env_parameters": named.parameters}
        policy, about = load_agent_for(path, named.environment, known_as)
        told = "belief" if keeps_belief(policy) else None
        if told is None and (about["seat"] == 0 or named.environment.seats_alike):
            policy, told = Resemblance(policy, self.run(run).population.best_responses), "resemblance"
        return Partner(f"agent:{name}", f"{name} agent", policy, about["seat"], told=told)

    def _load_probe(self, run: Run, name: str) -> Population:
        """Load what probes against a run have found."""
        if name.startswith("."):
            raise ValueError("There are no such probes in this run.")
        named = self.environment_of(run)
        path = self.directory.file(run.path / name / POLICIES_FILE)
        return load_probe_for(path, named.environment, {"env": named.name, "env_parameters": named.parameters})

    def list_heuristics(self, run: Run) -> list[dict[str, str]]:
        """Describe the heuristics of a run's environment."""
        environment = self.environment_of(run).environment
        sentences = describe_heuristics(environment)
        return [
            {"reference": f"heuristic:{name}", "name": name, "does": sentences.get(name, "")}
            for name in heuristics(environment)
        ]


def _make_heuristic(environment: Environment, name: str) -> Partner:
    known = heuristics(environment)
    if name not in known:
        raise ValueError(f"This environment has no heuristic {name}.")
    oracle = best_response(environment, known[name], seat=0)
    value = None if oracle is None else round_floats(oracle.value)
    return Partner(f"heuristic:{name}", f"heuristic {name}", known[name], 1, value)
