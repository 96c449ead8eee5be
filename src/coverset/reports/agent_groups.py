"""Group the agents of a chapter: seeds are pooled under one label only if they were trained and measured alike.

An agent is known by the name of its directory. Agents of one name that were trained otherwise than most of their
method, or measured otherwise than most of the chapter, keep a label of their own, so that nothing is left out.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from coverset.adhoc.registry import TITLES, agent_folder
from coverset.reports.records import AgentRecord, Content, RunRecord

T = TypeVar("T")
BySeed = dict[int, AgentRecord]


@dataclass(frozen=True)
class AgentGroup:
    """Agents that differ in nothing but their seed and the method that made their teammates."""

    label: str
    """Unique within the chapter."""
    learner: str
    seat: int
    title: str
    """What figures and tables call them."""

    @property
    def name(self) -> str:
        """The agents' name, which is that of their directories."""
        return self.label.partition(" ")[0]


def group_agents(methods: Sequence[Sequence[RunRecord]]) -> tuple[list[AgentGroup], list[dict[str, BySeed]]]:
    """The groups of a chapter in order, and for each of its methods the finished agents by label and seed."""
    trained = [_label_by_training(runs) for runs in methods]
    labelled = _split_by_evaluation(trained)
    first = {label: next(iter(agents.values())) for by_label in labelled for label, agents in by_label.items()}
    order = {learner: number for number, learner in enumerate(TITLES)}
    ranked = sorted(first, key=lambda label: (order.get(first[label].learner, len(order)), label))
    several = len({agent.config["seat"] for agent in first.values()}) > 1
    return [_make_group(label, first[label], name_seat=several) for label in ranked], labelled


def learner_title(learner: str) -> str:
    """The display name of a learner: that of its class, where a file outside coverset defines it."""
    return TITLES.get(learner, learner.rpartition(":")[2])


def _make_group(label: str, agent: AgentRecord, *, name_seat: bool) -> AgentGroup:
    name, _, variant = label.partition(" ")
    learner, seat = agent.learner, agent.config["seat"]
    title = learner_title(learner)
    details = [] if name == agent_folder(learner) else [title]
    details += [variant.strip("()")] if variant else []
    details += [f"seat {seat}"] if (name_seat or seat) and f"seat {seat}" not in variant else []
    shown = title if name == agent_folder(learner) else name
    return AgentGroup(label, learner, seat, f"{shown} ({', '.join(details)})" if details else shown)


def _label_by_training(runs: Sequence[RunRecord]) -> dict[str, BySeed]:
    """The finished agents of a method: the largest group of a name has that name, others add what differs."""
    finished = [agent for run in runs for agent in run.agents if agent.summary is not None]
    labelled: dict[str, BySeed] = {}
    for name, agents in group_by(finished, lambda agent: agent.name).items():
        usual, *others = sorted(group_by(agents, _training_key).values(), key=len, reverse=True)
        labelled[str(name)] = {agent.seed: agent for agent in usual}
        for group in others:
            variant = _describe_training(group[0].config, usual[0].config)
            labelled[_free_label(f"{name} ({variant})", labelled)] = {agent.seed: agent for agent in group}
    return labelled


def _training_key(agent: AgentRecord) -> Hashable:
    config = agent.config
    return config["preset"], config["seat"], tuple(config["partners"]), settings_key(config, "learner_settings")


def settings_key(config: Content, own: str) -> str:
    """Shared settings and the method's or learner's `own`, without those that change no more than reduction order."""
    settings = {name: value for name, value in config["settings"].items() if name != "parallel_seeds"}
    return to_json({"settings": settings, own: config.get(own, {})})


def _describe_training(config: Content, usual: Content) -> str:
    """What sets agents apart from most agents of their name, such as `seat 1, memory_size 64`."""
    told = [f"seat {config['seat']}"] if config["seat"] != usual["seat"] else []
    told += [f"trained with {' and '.join(config['partners'])}"] if config["partners"] != usual["partners"] else []
    for part in ("settings", "learner_settings"):
        mine, theirs = config.get(part, {}), usual.get(part, {})
        changed = [name for name in mine if name != "parallel_seeds" and mine[name] != theirs.get(name)]
        told += [f"{name} {to_json(mine[name])}" for name in changed]
    told += [f"preset {config['preset']}"] if config["preset"] != usual["preset"] else []
    return ", ".join(told[:3]) or "other settings"


def _split_by_evaluation(trained: list[dict[str, BySeed]]) -> list[dict[str, BySeed]]:
    """Move agents that were measured otherwise than most of their label, over all methods, to a label of their own."""
    found: list[dict[str, BySeed]] = [{} for _ in trained]
    for label in dict.fromkeys(label for by_label in trained for label in by_label):
        entries = [(place, agent) for place, known in enumerate(trained) for agent in known.get(label, {}).values()]
        measured = [entry for entry in entries if entry[1].evaluation is not None]
        usual, *others = sorted(group_by(measured, _measuring_key).values(), key=len, reverse=True) or [[]]
        usual += [entry for entry in entries if entry[1].evaluation is None]
        for group in (usual, *others):
            variant = "" if group is usual else f" ({_describe_evaluation(group[0][1], usual[0][1])})"
            own = label if group is usual else _free_label(f"{label}{variant}", *trained, *found)
            for place, agent in group:
                found[place].setdefault(own, {})[agent.seed] = agent
    return found


def _measuring_key(entry: tuple[int, AgentRecord]) -> Hashable:
    evaluation = entry[1].evaluation or {}
    return frozenset(evaluation["partners"]), evaluation["seat"], evaluation["episodes"]


def _describe_evaluation(agent: AgentRecord, usual: AgentRecord) -> str:
    """What sets a measurement apart, such as `measured with 5 partners`."""
    mine, theirs = agent.evaluation or {}, usual.evaluation or {}
    if set(mine["partners"]) != set(theirs["partners"]):
        names = [*mine["partners"]]
        return f"measured with {names[0] if len(names) == 1 else f'{len(names)} other partners'}"
    if mine["episodes"] != theirs["episodes"]:
        return f"measured over {mine['episodes']} episodes"
    return f"measured in seat {mine['seat']}"


def _free_label(wanted: str, *taken: dict[str, Any]) -> str:
    """The label, numbered from 2 on if it is taken."""
    number, label = 1, wanted
    while any(label in known for known in taken):
        number += 1
        label = f"{wanted} {number}"
    return label


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, list[T]]:
    """Items by key, in the order of their first occurrence."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def to_json(content: Any) -> str:
    """Content as JSON, with sorted keys."""
    return json.dumps(content, sort_keys=True)
