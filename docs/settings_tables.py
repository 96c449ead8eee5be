"""Two directives for docs/presets.md, whose tables are made of `coverset.presets` and `coverset.settings` when the site
is built: `settings` lists all settings of a stage, and `presets` their values for one environment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from coverset.presets import PRESETS, generate_settings, train_settings
from coverset.settings import GenerateSettings, TrainSettings

STAGES = {"generate": GenerateSettings, "train": TrainSettings}
TUNED = ("brdiv", "lipo")
"""Methods with an alpha of their own in every environment."""


def preset_settings(stage: str, environment: str, preset: str) -> GenerateSettings | TrainSettings:
    """What a preset says about a stage, whatever the method."""
    if stage == "train":
        return train_settings(environment, preset)
    return generate_settings(environment, "lbrdiv", preset)


def setting_rows(stage: str) -> list[list[str]]:
    """Every setting of a stage: name, default, meaning."""
    record = STAGES[stage]
    meanings = ModuleAnalyzer.for_module(record.__module__).find_attr_docs()
    return [
        [f"`{field.name}`", written(field.default), " ".join(meanings[record.__name__, field.name]).strip()]
        for field in fields(record)
    ]


def preset_rows(stage: str, environment: str) -> list[list[str]]:
    """Settings of which a preset says something else than the default, with the value in every preset."""
    chosen = [preset_settings(stage, environment, preset) for preset in PRESETS]
    rows = []
    for field in fields(STAGES[stage]):
        values = [getattr(settings, field.name) for settings in chosen]
        if field.name != "alpha" and any(value != field.default for value in values):
            rows.append([f"`{field.name}`", *map(written, values)])
    return rows + (method_rows(environment) if stage == "generate" else [])


def method_rows(environment: str) -> list[list[str]]:
    """The weight of cross-play, for every method that needs one, and what else is tuned for a method."""
    rows = []
    for method in TUNED:
        own = [generate_settings(environment, method, preset) for preset in PRESETS]
        shared = [preset_settings("generate", environment, preset) for preset in PRESETS]
        for field in fields(GenerateSettings):
            values = [getattr(settings, field.name) for settings in own]
            if field.name == "alpha" or values != [getattr(settings, field.name) for settings in shared]:
                rows.append([f"`{field.name}` of {method}", *map(written, values)])
    return rows


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
    """```{settings} STAGE```: all its settings."""

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
