"""The report section on how to reproduce a chapter: commands, settings, versions."""

import json
from typing import Any

from coverset.reports import tables
from coverset.reports.blocks import Block, CodeBlock, HtmlTable, Paragraph, Section
from coverset.reports.chapters import Chapter, make_slug
from coverset.reports.commands import reproduction_commands
from coverset.reports.records import Content


def settings_section(chapter: Chapter) -> Section:
    """Commands that reproduce the runs, all settings side by side, and versions."""
    text = (
        "These commands reproduce the runs. Settings that differ from the preset of the installed version are given as "
        "options."
    )
    blocks: list[Block] = [Paragraph(text), CodeBlock(reproduction_commands(chapter))]
    generation = {method.label: method.runs[0].config for method in chapter.methods}
    blocks.append(_settings_table(chapter, "generation", generation, "Settings of teammate generation"))
    for agents in chapter.agents:
        configs = {
            method.label: next(iter(method.agents[agents.label].values())).config
            for method in chapter.methods
            if method.agents.get(agents.label)
        }
        blocks.append(_settings_table(chapter, agents.label, configs, f"Settings of {agents.title} agents"))
    return Section("settings", "Settings, versions, commands", blocks)


def _settings_table(chapter: Chapter, part: str, configs: dict[str, Content], title: str) -> HtmlTable:
    """One row per setting, one column per method."""
    flat = {label: _flatten(config) for label, config in configs.items()}
    names = list(dict.fromkeys(name for values in flat.values() for name in values))
    rows = [(name, *(values.get(name, "") for values in flat.values())) for name in names]
    long = [(part, label, name, value) for label, values in flat.items() for name, value in values.items()]
    data = tables.make_table(chapter, f"settings-{make_slug(part)}", ("part", "method", "setting", "value"), long)
    caption = "Values from config.json; versions are those used for the runs."
    return HtmlTable(caption, ("setting", *flat), rows, (data,), text_columns=1 + len(flat), folded=title)


def _flatten(config: Content) -> dict[str, str]:
    """Flatten a config without its seed; nested names are joined by dots."""
    found = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": _to_text(part) for inner, part in value.items()}
        elif name not in ("seed", "command"):
            found[name] = _to_text(value)
    return found


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
