"""Two directives for docs/reference/settings.md, whose tables are built from the code when the site is.

`settings` lists all settings of a stage, a method or a learner, and `presets` their values for one environment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from coverset.adhoc.registry import LEARNERS, learner_class
from coverset.presets import PRESETS, resolve_generation, resolve_training
from coverset.settings import GenerateSettings, TrainSettings
from coverset.teammates.registry import METHODS, method_class

STAGES = {"generate": GenerateSettings, "train": TrainSettings}


def settings_class(name: str) -> Any:
    """The record of settings of a stage, a method or a learner."""
    return STAGES.get(name) or (method_class(name) if name in METHODS else learner_class(name))


def setting_rows(name: str) -> list[list[str]]:
    """Every setting of a stage, a method or a learner: name, default, meaning."""
    record = settings_class(name)
    meanings: dict[str, list[str]] = {}
    for owner in reversed(record.__mro__[:-1]):
        docs = ModuleAnalyzer.for_module(owner.__module__).find_attr_docs()
        meanings |= {field: text for (cls, field), text in docs.items() if cls == owner.__name__}
    return [
        [f"`{field.name}`", written(field.default), " ".join(meanings[field.name]).strip()] for field in fields(record)
    ]


def preset_rows(stage: str, environment: str) -> list[list[str]]:
    """Settings for which a preset differs from the default, with the value in every preset."""
    resolve, names = (resolve_generation, METHODS) if stage == "generate" else (resolve_training, LEARNERS)
    first, *others = names
    chosen = {name: [resolve(environment, name, preset) for preset in PRESETS] for name in names}
    rows = differing_rows(STAGES[stage], [settings for settings, _ in chosen[first]])
    for name in names:
        rows += differing_rows(settings_class(name), [own for _, own in chosen[name]], f" of {name}")
    for name in others:
        values = [settings for settings, _ in chosen[name]]
        rows += [row for row in differing_rows(STAGES[stage], values, f" of {name}") if not repeats(row, rows)]
    return rows


def differing_rows(record: Any, chosen: Sequence[Any], suffix: str = "") -> list[list[str]]:
    """One row for every field that has another value than its default in some preset."""
    rows = []
    for field in fields(record):
        values = [getattr(settings, field.name) for settings in chosen]
        if any(value != field.default for value in values):
            rows.append([f"`{field.name}`{suffix}", *map(written, values)])
    return rows


def repeats(row: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether the same setting has the same values in a row without a method's name."""
    return [row[0].partition(" of ")[0], *row[1:]] in rows


def written(value: Any) -> str:
    """A value for people: 32,000,000 and 128, 256; none where every run has to say it."""
    if value is MISSING:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(written, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> nodes.table:
    """A table of short texts; backquotes make names."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in header), cols=len(header))
    group += nodes.thead("", table_row(header))
    group += nodes.tbody("", *map(table_row, rows))
    return nodes.table("", group)


def table_row(cells: Sequence[str]) -> nodes.row:
    """One row."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *inline(cell))) for cell in cells))


def inline(text: str) -> list[nodes.Node]:
    """Text with names in backquotes."""
    parts = enumerate(text.split("`"))
    return [nodes.literal("", part) if odd % 2 else nodes.Text(part) for odd, part in parts if part]


class Settings(Directive):
    """```{settings} NAME```: all settings of a stage, a method or a learner."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return [table(("setting", "default", "meaning"), setting_rows(self.arguments[0]))]


class Presets(Directive):
    """```{presets} STAGE ENVIRONMENT```: what the presets say."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        return [table(("setting", *PRESETS), preset_rows(*self.arguments))]


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("settings", Settings)
    app.add_directive("presets", Presets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
