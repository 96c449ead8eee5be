"""Report section about what populations leave uncovered: the regret that probes found, and advice on poor runs."""

from coverset.reports import tables
from coverset.reports.blocks import Block, BulletList, HtmlTable, Section
from coverset.reports.chapters import Chapter
from coverset.reports.wording import UNKNOWN, format_count, format_number, join_words


def probe_table(chapter: Chapter) -> tables.DataTable:
    """What the probes of every run found."""
    columns = ("method", "seed", "probes", "coverage_regret", "standard_error", "margin")
    columns += ("exact_lower", "exact_upper", "worst_teammate")
    rows = []
    for method in chapter.methods:
        for seed, summary in method.summaries().items():
            if (probe := summary.get("probe")) is not None:
                exact = probe["exact"]["over_all"] or (None, None)
                measured = (probe["probes"], probe["coverage_regret"], probe["standard_error"], probe["margin"])
                rows.append((method.label, seed, *measured, *exact, probe["teammate"]))
    return tables.make_table(chapter, "probes", columns, rows)


def list_advice(chapter: Chapter) -> list[str]:
    """What to try about every run that came out poorly."""
    return [
        f"{method.label}, seed {seed}: {summary['advice']}"
        for method in chapter.methods
        for seed, summary in method.summaries().items()
        if summary.get("advice")
    ]


def uncovered_section(chapter: Chapter) -> Section | None:
    """The coverage regret that probes found and advice; None where there is neither."""
    data, advice = probe_table(chapter), list_advice(chapter)
    blocks: list[Block] = [_probe_table(data)] if data.rows else []
    blocks += [BulletList(advice)] if advice else []
    return Section("uncovered", "What is left uncovered", blocks) if blocks else None


def _probe_table(data: tables.DataTable) -> HtmlTable:
    rows = []
    for method, seed, probes, regret, error, margin, low, high, teammate in data.rows:
        measured = f"{format_number(regret)} ± {format_number(2 * error)}"
        exact = UNKNOWN if low is None else " to ".join(dict.fromkeys((format_number(low), format_number(high))))
        rows.append((method, str(seed), str(probes), measured, format_number(margin), exact, teammate or UNKNOWN))
    columns = ("method", "seed", "probes", "regret", "margin", "exact", "worst teammate")
    caption = (
        "Coverage regret: how much more a best response earns with the worst teammate that probes found than any best "
        "response of the population does, over new episodes, ± two standard errors. Exact: over all teammates, where "
        "the game is small enough."
    )
    return HtmlTable(caption, columns, rows, (data,))


def describe_probes(chapter: Chapter) -> str:
    """Describe in how many populations probes found a regret above the margin, and the largest."""
    told = []
    for method in chapter.methods:
        rows = [row for row in probe_table(chapter).rows if row[0] == method.label]
        if rows:
            above = sum(row[3] > row[5] for row in rows)
            largest = format_number(max(row[3] for row in rows))
            told.append(f"{above} of {format_count(len(rows), 'population')} of {method.label} (at most {largest})")
    return f"Probes found a coverage regret above the margin in {join_words(told)}." if told else ""
