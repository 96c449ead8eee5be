"""Records in the order in which a report tells of them: a chapter per environment, in it the methods, in them seeds.

Seeds are pooled only where everything else is the same: environment and its parameters, method, preset and settings,
and for agents also the partners they were trained and measured with.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coverset.adhoc.registry import TITLES
from coverset.reports.records import AgentRecord, Content, RunRecord

METHOD_NAMES = {"lbrdiv": "L-BRDiv", "brdiv": "BRDiv", "lipo": "LIPO", "independent": "Independent"}
"""As the paper writes them, in the order of its figures; methods of others come after, under their own names."""
ENVIRONMENT_ORDER = ("matrix", "reaching", "weighted-reaching", "foraging")

T = TypeVar("T")


@dataclass(frozen=True)
class Method:
    """Runs that differ in nothing but their seed."""

    label: str
    """Unique within the chapter."""
    slug: str
    """The same as part of file names."""
    runs: tuple[RunRecord, ...]
    """By seed."""
    agents: dict[str, dict[int, AgentRecord]] = field(default_factory=dict)
    """Finished agents by learner and seed, trained alike."""
    evaluations: dict[str, dict[int, Content]] = field(default_factory=dict)
    """What was measured, by learner and seed, with the chapter's partners."""

    @property
    def name(self) -> str:
        """As in config.json."""
        return self.runs[0].method

    @property
    def finished(self) -> dict[int, RunRecord]:
        """Runs with a summary, by seed."""
        return {run.seed: run for run in self.runs if run.summary is not None}

    def summaries(self) -> dict[int, Content]:
        """Of finished runs, by seed."""
        return {seed: run.summary for seed, run in self.finished.items() if run.summary is not None}

    def certificates(self) -> dict[int, Content]:
        """By seed."""
        return {run.seed: run.certificate for run in self.runs if run.certificate is not None}


@dataclass(frozen=True)
class Chapter:
    """One environment."""

    title: str
    slug: str
    """For file names and anchors; unique within the report."""
    env: str
    methods: tuple[Method, ...]
    members: tuple[str, ...]
    """Names of the coverage set's members; empty where it is not known."""
    left_out: tuple[str, ...] = ()
    """What was not pooled with the rest, and why."""

    @property
    def coverage_size(self) -> int | None:
        """How many members the coverage set has, where it is known."""
        sizes = [s["coverage_size"] for m in self.methods for s in m.summaries().values()]
        return next((size for size in sizes if size is not None), None)

    @property
    def learners(self) -> tuple[str, ...]:
        """Those with anything to show."""
        found = {learner for method in self.methods for learner in (*method.agents, *method.evaluations)}
        return tuple(sorted(found, key=lambda name: _place(name, TITLES)))

    @property
    def reference(self) -> Method:
        """The method that the others are compared with: L-BRDiv, or else the first."""
        return self.methods[0]


def learner_name(learner: str) -> str:
    """As the report writes it."""
    return TITLES.get(learner, learner)


def make_chapters(runs: Iterable[RunRecord], members: Callable[[Content], Sequence[str]]) -> tuple[Chapter, ...]:
    """Sort runs into chapters.

    Args:
      runs: in any order.
      members: for a run's config the names of its environment's coverage set, empty where they are not known.
    """
    by_environment = _grouped(runs, lambda run: (run.config["env"], _key(run.config["env_parameters"])))
    groups = sorted(by_environment.values(), key=lambda group: _place(group[0].config["env"], ENVIRONMENT_ORDER))
    titles = _titles([group[0].config for group in groups])
    slugs = _unique([slugged(group[0].config["env"]) for group in groups])
    return tuple(
        _chapter(title, slug, group, members) for title, slug, group in zip(titles, slugs, groups, strict=True)
    )


def _chapter(title: str, slug: str, runs: list[RunRecord], members: Callable[[Content], Sequence[str]]) -> Chapter:
    left_out: list[str] = []
    groups = sorted(
        (_once_per_seed(group, left_out) for group in _grouped(runs, _variant).values()),
        key=lambda group: (_place(group[0].method, METHOD_NAMES), group[0].path),
    )
    agents = [_comparable_agents(group, left_out) for group in groups]
    evaluations = _comparable_evaluations(agents, left_out)
    labels = _labels(groups)
    slugs = _unique([slugged(label) for label in labels])
    methods = tuple(
        Method(label, part, tuple(sorted(group, key=lambda run: run.seed)), trained, measured)
        for label, part, group, trained, measured in zip(labels, slugs, groups, agents, evaluations, strict=True)
    )
    known = [s for method in methods for s in method.summaries().values() if s["coverage_size"] is not None]
    found = sorted({name for summary in known for name in summary["covers"] if name})
    names = tuple(dict.fromkeys((*members(runs[0].config), *found))) if known else ()
    return Chapter(title, slug, runs[0].config["env"], methods, names, tuple(left_out))


def _once_per_seed(runs: list[RunRecord], left_out: list[str]) -> list[RunRecord]:
    """Runs without copies: a seed counts once."""
    by_seed = _grouped(runs, lambda run: run.seed).values()
    for first, *copies in by_seed:
        left_out += [f"{copy.path} repeats the seed of {first.path}." for copy in copies]
    return [same[0] for same in by_seed]


def _variant(run: RunRecord) -> Hashable:
    """What runs must share to be pooled. How many seeds trained together decides no more than the last digit."""
    settings = {name: value for name, value in run.config["settings"].items() if name != "parallel_seeds"}
    return run.directory, run.method, run.config["preset"], _key(settings)


def _labels(groups: list[list[RunRecord]]) -> list[str]:
    """The method's name, with as much more as is needed to tell groups apart."""
    names = [METHOD_NAMES.get(group[0].method, group[0].method) for group in groups]
    presets = [f"{name} {group[0].config['preset']}" for name, group in zip(names, groups, strict=True)]
    places = [f"{name} ({group[0].directory})" for name, group in zip(names, groups, strict=True)]
    labels = names
    for longer in (presets, places):
        labels = [label if labels.count(label) == 1 else further for label, further in zip(labels, longer, strict=True)]
    return _unique(labels)


def _comparable_agents(runs: list[RunRecord], left_out: list[str]) -> dict[str, dict[int, AgentRecord]]:
    """Finished agents that were trained alike: of each learner the largest such group."""
    finished = [agent for run in runs for agent in run.agents if agent.summary is not None]
    chosen = {}
    for learner, agents in _grouped(finished, lambda agent: agent.learner).items():
        kept, others = _largest(agents, _training)
        left_out += [f"{agent.path} was trained otherwise than most of its method." for agent in others]
        chosen[learner] = {agent.seed: agent for agent in kept}
    return chosen


def _training(agent: AgentRecord) -> Hashable:
    config = agent.config
    settings = {name: value for name, value in config["settings"].items() if name != "parallel_seeds"}
    return config["preset"], config["seat"], tuple(config["partners"]), _key(settings)


def _comparable_evaluations(
    agents: list[dict[str, dict[int, AgentRecord]]], left_out: list[str]
) -> list[dict[str, dict[int, Content]]]:
    """Evaluations with the same partners, seat and length of trials: the largest such group of the chapter."""
    measured = [
        agent
        for learners in agents
        for by_seed in learners.values()
        for agent in by_seed.values()
        if agent.evaluation is not None
    ]
    kept, others = _largest(measured, _measurement)
    left_out += [f"{agent.path} was measured with other partners, seats or trials than most." for agent in others]
    paths = {agent.path for agent in kept}
    return [
        {
            learner: chosen
            for learner, by_seed in learners.items()
            if (chosen := {seed: a.evaluation for seed, a in by_seed.items() if a.path in paths and a.evaluation})
        }
        for learners in agents
    ]


def _measurement(agent: AgentRecord) -> Hashable:
    evaluation = agent.evaluation or {}
    return frozenset(evaluation["partners"]), evaluation["seat"], evaluation["episodes"]


def _largest(items: list[T], key: Callable[[T], Hashable]) -> tuple[list[T], list[T]]:
    """The largest group of items that share a key, and all others."""
    groups = list(_grouped(items, key).values())
    if not groups:
        return [], []
    kept = max(groups, key=len)
    return kept, [item for group in groups if group is not kept for item in group]


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _key(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _place(name: str, order: Iterable[str]) -> tuple[int, str]:
    known = list(order)
    return (known.index(name) if name in known else len(known), name)


def _titles(configs: list[Content]) -> list[str]:
    """Names of the environments; where one comes with several sets of parameters, those that differ are told."""
    titles = []
    for config in configs:
        alike = [other["env_parameters"] for other in configs if other["env"] == config["env"]]
        names = sorted({name for parameters in alike for name in parameters})
        differing = [name for name in names if len({_key(parameters.get(name)) for parameters in alike}) > 1]
        told = ", ".join(f"{name} {_key(config['env_parameters'].get(name))}" for name in differing)
        titles.append(f"{config['env']} ({told})" if told else config["env"])
    return titles


def slugged(name: str) -> str:
    """Text as part of a file name or an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "environment"


def _unique(names: Sequence[str]) -> list[str]:
    """The same names, numbered from the second of a kind on."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name}-{number}"
        found.append(candidate)
    return found
