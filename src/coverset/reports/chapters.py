"""Group run records for a report: one chapter per environment, which holds its methods, which hold their seeds.

Seeds are pooled only if everything else is equal: environment and parameters, method, preset, settings, and for agents
also the training and evaluation partners.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coverset.adhoc.registry import TITLES
from coverset.reports.records import AgentRecord, Content, RunRecord

METHOD_NAMES = {"lbrdiv": "L-BRDiv", "brdiv": "BRDiv", "lipo": "LIPO", "independent": "Independent"}
"""Display names from the paper, in the order of its figures; other methods follow under their own names."""
ENVIRONMENT_ORDER = ("matrix", "reaching", "weighted-reaching", "foraging")

T = TypeVar("T")


@dataclass(frozen=True)
class MethodRuns:
    """Runs of one method that differ only in their seed."""

    label: str
    """Unique within the chapter."""
    slug: str
    """The label as part of file names."""
    runs: tuple[RunRecord, ...]
    """Sorted by seed."""
    agents: dict[str, dict[int, AgentRecord]] = field(default_factory=dict)
    """Finished agents with equal training settings, by learner and seed."""
    evaluations: dict[str, dict[int, Content]] = field(default_factory=dict)
    """Evaluations with the chapter's partners, by learner and seed."""

    @property
    def name(self) -> str:
        """The method's name in config.json."""
        return self.runs[0].method

    @property
    def finished(self) -> dict[int, RunRecord]:
        """Runs with a summary, by seed."""
        return {run.seed: run for run in self.runs if run.summary is not None}

    def summaries(self) -> dict[int, Content]:
        """Summaries of finished runs, by seed."""
        return {seed: run.summary for seed, run in self.finished.items() if run.summary is not None}

    def certificates(self) -> dict[int, Content]:
        """Certificates, by seed."""
        return {run.seed: run.certificate for run in self.runs if run.certificate is not None}


@dataclass(frozen=True)
class Chapter:
    """The results of one environment."""

    title: str
    slug: str
    """For file names and anchors; unique within the report."""
    env: str
    methods: tuple[MethodRuns, ...]
    members: tuple[str, ...]
    """Names of the members of the coverage set; empty if it is unknown."""
    left_out: tuple[str, ...] = ()
    """Sentences that name what was not pooled, and why."""

    @property
    def coverage_size(self) -> int | None:
        """The number of members of the coverage set; None if it is unknown."""
        sizes = [s["coverage_size"] for m in self.methods for s in m.summaries().values()]
        return next((size for size in sizes if size is not None), None)

    @property
    def learners(self) -> tuple[str, ...]:
        """Learners with at least one finished or evaluated agent."""
        found = {learner for method in self.methods for learner in (*method.agents, *method.evaluations)}
        return tuple(sorted(found, key=lambda name: _rank(name, TITLES)))

    @property
    def reference(self) -> MethodRuns:
        """The method that the others are compared with: L-BRDiv if present, else the first."""
        return self.methods[0]


def learner_name(learner: str) -> str:
    """The display name of a learner."""
    return TITLES.get(learner, learner)


def make_chapters(runs: Iterable[RunRecord], members: Callable[[Content], Sequence[str]]) -> tuple[Chapter, ...]:
    """Group runs into chapters.

    Args:
      runs: in any order.
      members: maps a run's config to the names of the members of its coverage set, empty if unknown.
    """
    by_environment = _group_by(runs, lambda run: (run.config["env"], _to_json(run.config["env_parameters"])))
    groups = sorted(by_environment.values(), key=lambda group: _rank(group[0].config["env"], ENVIRONMENT_ORDER))
    titles = _make_titles([group[0].config for group in groups])
    slugs = _number_duplicates([make_slug(group[0].config["env"]) for group in groups])
    return tuple(
        _make_chapter(title, slug, group, members) for title, slug, group in zip(titles, slugs, groups, strict=True)
    )


def _make_chapter(title: str, slug: str, runs: list[RunRecord], members: Callable[[Content], Sequence[str]]) -> Chapter:
    left_out: list[str] = []
    groups = sorted(
        (_drop_repeated_seeds(group, left_out) for group in _group_by(runs, _pooling_key).values()),
        key=lambda group: (_rank(group[0].method, METHOD_NAMES), group[0].path),
    )
    agents = [_select_comparable_agents(group, left_out) for group in groups]
    evaluations = _select_comparable_evaluations(agents, left_out)
    labels = _make_labels(groups)
    slugs = _number_duplicates([make_slug(label) for label in labels])
    methods = tuple(
        MethodRuns(label, part, tuple(sorted(group, key=lambda run: run.seed)), trained, measured)
        for label, part, group, trained, measured in zip(labels, slugs, groups, agents, evaluations, strict=True)
    )
    known = [s for method in methods for s in method.summaries().values() if s["coverage_size"] is not None]
    found = sorted({name for summary in known for name in summary["covers"] if name})
    names = tuple(dict.fromkeys((*members(runs[0].config), *found))) if known else ()
    return Chapter(title, slug, runs[0].config["env"], methods, names, tuple(left_out))


def _drop_repeated_seeds(runs: list[RunRecord], left_out: list[str]) -> list[RunRecord]:
    """Keep the first run of every seed."""
    by_seed = _group_by(runs, lambda run: run.seed).values()
    for first, *copies in by_seed:
        left_out += [f"{copy.path} repeats the seed of {first.path}." for copy in copies]
    return [same[0] for same in by_seed]


def _pooling_key(run: RunRecord) -> Hashable:
    """What pooled runs must share. `parallel_seeds` is left out: it only affects the floating-point reduction order."""
    return run.directory, run.method, run.config["preset"], _settings_key(run.config, "method_settings")


def _make_labels(groups: list[list[RunRecord]]) -> list[str]:
    """Make unique labels: the method's name, with preset or directory where that is ambiguous."""
    names = [METHOD_NAMES.get(group[0].method, group[0].method) for group in groups]
    presets = [f"{name} {group[0].config['preset']}" for name, group in zip(names, groups, strict=True)]
    places = [f"{name} ({group[0].directory})" for name, group in zip(names, groups, strict=True)]
    labels = names
    for longer in (presets, places):
        labels = [label if labels.count(label) == 1 else further for label, further in zip(labels, longer, strict=True)]
    return _number_duplicates(labels)


def _select_comparable_agents(runs: list[RunRecord], left_out: list[str]) -> dict[str, dict[int, AgentRecord]]:
    """For each learner, select the largest group of finished agents with equal training settings."""
    finished = [agent for run in runs for agent in run.agents if agent.summary is not None]
    chosen = {}
    for learner, agents in _group_by(finished, lambda agent: agent.learner).items():
        kept, others = _split_largest_group(agents, _training_key)
        left_out += [f"{agent.path} was trained with other settings than most of its method." for agent in others]
        chosen[learner] = {agent.seed: agent for agent in kept}
    return chosen


def _training_key(agent: AgentRecord) -> Hashable:
    config = agent.config
    return config["preset"], config["seat"], tuple(config["partners"]), _settings_key(config, "learner_settings")


def _settings_key(config: Content, own: str) -> str:
    """Shared settings and the method's or learner's `own`, without those that change no more than reduction order."""
    settings = {name: value for name, value in config["settings"].items() if name != "parallel_seeds"}
    return _to_json({"settings": settings, own: config.get(own, {})})


def _select_comparable_evaluations(
    agents: list[dict[str, dict[int, AgentRecord]]], left_out: list[str]
) -> list[dict[str, dict[int, Content]]]:
    """Select the chapter's largest group of evaluations with equal partners, seat and trial length."""
    measured = [
        agent
        for learners in agents
        for by_seed in learners.values()
        for agent in by_seed.values()
        if agent.evaluation is not None
    ]
    kept, others = _split_largest_group(measured, _evaluation_key)
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


def _evaluation_key(agent: AgentRecord) -> Hashable:
    evaluation = agent.evaluation or {}
    return frozenset(evaluation["partners"]), evaluation["seat"], evaluation["episodes"]


def _split_largest_group(items: list[T], key: Callable[[T], Hashable]) -> tuple[list[T], list[T]]:
    """Return the largest group of items that share a key, and all other items."""
    groups = list(_group_by(items, key).values())
    if not groups:
        return [], []
    kept = max(groups, key=len)
    return kept, [item for group in groups if group is not kept for item in group]


def _group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _to_json(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _rank(name: str, order: Iterable[str]) -> tuple[int, str]:
    known = list(order)
    return (known.index(name) if name in known else len(known), name)


def _make_titles(configs: list[Content]) -> list[str]:
    """Title environments by name, with the parameters that differ if an environment occurs more than once."""
    titles = []
    for config in configs:
        alike = [other["env_parameters"] for other in configs if other["env"] == config["env"]]
        names = sorted({name for parameters in alike for name in parameters})
        differing = [name for name in names if len({_to_json(parameters.get(name)) for parameters in alike}) > 1]
        values = ", ".join(f"{name} {_to_json(config['env_parameters'].get(name))}" for name in differing)
        titles.append(f"{config['env']} ({values})" if values else config["env"])
    return titles


def make_slug(name: str) -> str:
    """Turn text into a part of a file name or anchor."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "environment"


def _number_duplicates(names: Sequence[str]) -> list[str]:
    """Make names unique by numbering repetitions from 2."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name}-{number}"
        found.append(candidate)
    return found
