"""The report's section on what kind of partner every teammate is, from `coverset inspect`."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from coverset.reports.blocks import HtmlTable, Paragraph, Section
from coverset.reports.chapters import Chapter
from coverset.reports.records import Content
from coverset.reports.tables import DataTable, make_table
from coverset.reports.wording import UNKNOWN, format_number

TEXT = (
    "What kind of partner every teammate is. A convention can be served by whoever knows it; a handshake plays with a "
    "stranger only after the opening of its own best response; a saboteur ruins the game for any best response, "
    "too, once a stranger has played; an incompetent teammate is served by nobody."
)
CAPTION = (
    "Competence: what a best response to the teammate earns. Regret: by how much it fails to answer the best response "
    "that it answers best. Handshake: what a stranger gains by an own opening of at most a quarter of an episode. "
    "Sabotage: what its own best response loses where strangers have led. Estimates come from simulation and probes."
)
MEASURES = ("competence", "regret", "handshake", "sabotage")


def inspection_section(chapter: Chapter) -> Section | None:
    """One row per method and seed with the number of teammates of every kind, and all teammates; None without any."""
    teammates = inspection_table(chapter)
    if not teammates.rows:
        return None
    rows = [
        (method, str(seed), str(member), word, *(_format(value) for value in values), how)
        for method, seed, member, word, *values, how in teammates.rows
    ]
    columns = ("method", "seed", "teammate", "is a", *MEASURES, "measured")
    folded = f"All {len(rows)} teammates" if len(rows) > 16 else ""
    table = HtmlTable(CAPTION, columns, rows, (teammates,), text_columns=4, folded=folded)
    return Section("inspection", "Handshakes and sabotage", [Paragraph(TEXT), _count_table(chapter), table])


def inspection_table(chapter: Chapter) -> DataTable:
    """The word and the measures of every inspected teammate."""
    columns = ("method", "seed", "teammate", "word", *MEASURES, "measured")
    rows = [
        (label, seed, mate["teammate"], mate["word"], *_measures(mate), record["measured"])
        for label, seed, record in _inspections(chapter)
        for mate in record["teammates"]
    ]
    return make_table(chapter, "inspection", columns, rows)


def _inspections(chapter: Chapter) -> Iterator[tuple[str, int, Content]]:
    for method in chapter.methods:
        for seed, record in method.inspections().items():
            yield method.label, seed, record


def _measures(mate: Content) -> tuple[float | None, ...]:
    """Numbers, None where there is none."""
    parts = (("competence",), ("rationality", "regret"), ("handshake", "gain"), ("sabotage", "loss"))
    return tuple(_look_up(mate, *names, "value") for names in parts)


def _look_up(content: Any, *names: str) -> Any:
    for name in names:
        content = None if content is None else content[name]
    return content


def _format(value: float | None) -> str:
    return UNKNOWN if value is None else format_number(value)


def _count_table(chapter: Chapter) -> HtmlTable:
    """Teammates of every kind, by method and seed."""
    words = ("convention", "handshake", "saboteur", "incompetent")
    data = []
    for label, seed, record in _inspections(chapter):
        counts = Counter(mate["word"] for mate in record["teammates"])
        data.append((label, seed, *(counts[word] for word in words)))
    table = make_table(chapter, "inspected-kinds", ("method", "seed", *words), data)
    columns = ("method", "seed", "conventions", "handshakes", "saboteurs", "incompetent")
    return HtmlTable("Number of teammates of every kind.", columns, [tuple(map(str, row)) for row in data], (table,))
