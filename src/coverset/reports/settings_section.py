"""The section that tells how a chapter's runs were made: commands, settings, versions."""

import json
from typing import Any

from coverset.reports import tables
from coverset.reports.blocks import Block, Code, Grid, Section, Words
from coverset.reports.chapters import Chapter, learner_name, slugged
from coverset.reports.commands import commands
from coverset.reports.records import Content


def settings_section(chapter: Chapter) -> Section:
    """Commands that would make the runs again, all settings side by side, and versions."""
    told = (
        "These commands would make the runs again; settings that differ from the preset of the installed version are "
        "spelled out."
    )
    blocks: list[Block] = [Words(told), Code(commands(chapter))]
    generation = {method.label: method.runs[0].config for method in chapter.methods}
    blocks.append(_grid(chapter, "generation", generation, "Settings of teammate generation"))
    for learner in chapter.learners:
        configs = {
            method.label: next(iter(method.agents[learner].values())).config
            for method in chapter.methods
            if method.agents.get(learner)
        }
        if configs:
            title = f"Settings of {learner_name(learner)} agents"
            blocks.append(_grid(chapter, learner, configs, title))
    return Section("settings", "Settings, versions, commands", blocks)


def _grid(chapter: Chapter, part: str, configs: dict[str, Content], title: str) -> Grid:
    """A row per setting, a column per method."""
    flat = {label: _flat(config) for label, config in configs.items()}
    names = list(dict.fromkeys(name for values in flat.values() for name in values))
    rows = [(name, *(values.get(name, "") for values in flat.values())) for name in names]
    long = [(part, label, name, value) for label, values in flat.items() for name, value in values.items()]
    data = tables.tidy(chapter, f"settings-{slugged(part)}", ("part", "method", "setting", "value"), long)
    caption = "As in config.json; versions are those of the machine that made the runs."
    return Grid(caption, ("setting", *flat), rows, (data,), text_columns=1 + len(flat), folded=title)


def _flat(config: Content) -> dict[str, str]:
    """Everything but the seed, by name; what is nested is told by a dotted name."""
    found = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": _text(part) for inner, part in value.items()}
        elif name not in ("seed", "command"):
            found[name] = _text(value)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
