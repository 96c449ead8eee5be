"""Group run records for a report: one chapter per environment, which holds its methods, which hold their seeds.

Seeds are pooled only if everything else is equal: environment and parameters, method, preset, settings; `agent_groups`
says which agents are alike.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from coverset.reports.agent_groups import AgentGroup, group_agents, group_by, settings_key, to_json
from coverset.reports.records import AgentRecord, Content, RunRecord
from coverset.runs.game_names import game_title

METHOD_NAMES = {"lbrdiv": "L-BRDiv", "brdiv": "BRDiv", "lipo": "LIPO", "independent": "Independent"}
"""Display names from the paper, in the order of its figures; other methods follow under their own names."""
ENVIRONMENT_ORDER = ("matrix", "reaching", "weighted-reaching", "foraging")


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
    """Finished agents by the label of their group and by seed."""

    @property
    def name(self) -> str:
        """The method's name in config.json."""
        return self.runs[0].method

    @property
    def evaluations(self) -> dict[str, dict[int, Content]]:
        """Evaluations by the label of the agents' group and by seed."""
        measured = {
            label: {seed: agent.evaluation for seed, agent in agents.items() if agent.evaluation is not None}
            for label, agents in self.agents.items()
        }
        return {label: by_seed for label, by_seed in measured.items() if by_seed}

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

    def inspections(self) -> dict[int, Content]:
        """Inspections, by seed."""
        return {run.seed: run.inspection for run in self.runs if run.inspection is not None}


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
    agents: tuple[AgentGroup, ...] = ()
    """Groups of finished agents, in order."""

    @property
    def coverage_size(self) -> int | None:
        """The number of members of the coverage set; None if it is unknown."""
        sizes = [s["coverage_size"] for m in self.methods for s in m.summaries().values()]
        return next((size for size in sizes if size is not None), None)

    def agent_title(self, label: str) -> str:
        """The display name of a group of agents."""
        return next(agents.title for agents in self.agents if agents.label == label)

    @property
    def reference(self) -> MethodRuns:
        """The method that the others are compared with: L-BRDiv if present, else the first."""
        return self.methods[0]


def make_chapters(runs: Iterable[RunRecord], members: Callable[[Content], Sequence[str]]) -> tuple[Chapter, ...]:
    """Group runs into chapters.

    Args:
      runs: in any order.
      members: maps a run's config to the names of the members of its coverage set, empty if unknown.
    """
    by_environment = group_by(runs, lambda run: (run.config["env"], to_json(run.config["env_parameters"])))
    groups = sorted(by_environment.values(), key=lambda group: _rank(group[0].config["env"], ENVIRONMENT_ORDER))
    titles = _make_titles([group[0].config for group in groups])
    slugs = _number_duplicates([make_slug(_short_title(group[0].config)) for group in groups])
    return tuple(
        _make_chapter(title, slug, group, members) for title, slug, group in zip(titles, slugs, groups, strict=True)
    )


def _make_chapter(title: str, slug: str, runs: list[RunRecord], members: Callable[[Content], Sequence[str]]) -> Chapter:
    left_out: list[str] = []
    groups = sorted(
        (_drop_repeated_seeds(group, left_out) for group in group_by(runs, _pooling_key).values()),
        key=lambda group: (_rank(group[0].method, METHOD_NAMES), group[0].path),
    )
    agent_groups, agents = group_agents(groups)
    labels = _make_labels(groups)
    slugs = _number_duplicates([make_slug(label) for label in labels])
    methods = tuple(
        MethodRuns(label, part, tuple(sorted(group, key=lambda run: run.seed)), trained)
        for label, part, group, trained in zip(labels, slugs, groups, agents, strict=True)
    )
    known = [s for method in methods for s in method.summaries().values() if s["coverage_size"] is not None]
    found = sorted({name for summary in known for name in summary["covers"] if name})
    names = _name_members([*members(runs[0].config), *found], known)
    return Chapter(title, slug, runs[0].config["env"], methods, names, tuple(left_out), tuple(agent_groups))


def _name_members(names: Sequence[str], summaries: Sequence[Content]) -> tuple[str, ...]:
    """The members of the coverage set; those that no seed found stay unnamed where only the game could name them."""
    size = max((summary["coverage_size"] for summary in summaries), default=0)
    known = [*dict.fromkeys(names)] if summaries else []
    return (*known, *["(not found)"] * (size - len(known)))


def _drop_repeated_seeds(runs: list[RunRecord], left_out: list[str]) -> list[RunRecord]:
    """Keep the first run of every seed."""
    by_seed = group_by(runs, lambda run: run.seed).values()
    for first, *copies in by_seed:
        left_out += [f"{copy.path} repeats the seed of {first.path}." for copy in copies]
    return [same[0] for same in by_seed]


def _pooling_key(run: RunRecord) -> Hashable:
    """What pooled runs must share. `parallel_seeds` is left out: it only affects the floating-point reduction order."""
    return run.directory, run.method, run.config["preset"], settings_key(run.config, "method_settings")


def _make_labels(groups: list[list[RunRecord]]) -> list[str]:
    """Make unique labels: the method's name, with preset or directory where that is ambiguous."""
    names = [METHOD_NAMES.get(group[0].method, group[0].method) for group in groups]
    presets = [f"{name} {group[0].config['preset']}" for name, group in zip(names, groups, strict=True)]
    places = [f"{name} ({group[0].directory})" for name, group in zip(names, groups, strict=True)]
    labels = names
    for longer in (presets, places):
        labels = [label if labels.count(label) == 1 else further for label, further in zip(labels, longer, strict=True)]
    return _number_duplicates(labels)


def _rank(name: str, order: Iterable[str]) -> tuple[int, str]:
    known = list(order)
    return (known.index(name) if name in known else len(known), name)


def _make_titles(configs: list[Content]) -> list[str]:
    """Title environments by their readable names, with what differs if an environment occurs more than once."""
    short = [_short_title(config) for config in configs]
    titles = []
    for config, title in zip(configs, short, strict=True):
        twins = [other for other, named in zip(configs, short, strict=True) if named == title]
        alike = [other["env_parameters"] for other in twins if other["env"] == config["env"]]
        names = sorted({name for parameters in alike for name in parameters})
        differing = [name for name in names if len({to_json(parameters.get(name)) for parameters in alike}) > 1]
        values = ", ".join(f"{name} {to_json(config['env_parameters'].get(name))}" for name in differing)
        name = title if len(alike) == len(twins) else config["env"]
        titles.append(f"{name} ({values})" if values else name)
    return titles


def _short_title(config: Content) -> str:
    return game_title(config["env"], config["env_parameters"])


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
