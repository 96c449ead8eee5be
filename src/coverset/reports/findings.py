"""The main findings of a chapter as sentences computed from its numbers."""

import math

import numpy as np

from coverset.evaluation.statistics import Interval
from coverset.reports import agent_tables, tables
from coverset.reports.agent_groups import AgentGroup
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.uncovered_sections import describe_probes
from coverset.reports.wording import format_count, format_interval, format_mean, format_number, join_words


def describe_findings(chapter: Chapter) -> list[str]:
    """Describe coverage, returns by agent, and certificates; empty if no run is finished."""
    sentences = [describe_coverage(chapter)]
    sentences += [describe_returns(chapter, agents) for agents in chapter.agents]
    sentences += [describe_certificates(chapter), describe_probes(chapter)]
    return [sentence for sentence in sentences if sentence]


def describe_coverage(chapter: Chapter) -> str:
    """Describe how much of the coverage set the seeds of every method find."""
    found = [_describe_method_coverage(method) for method in chapter.methods if method.finished]
    if not found:
        return ""
    if chapter.coverage_size is None:
        return _describe_populations(chapter)
    return f"All {chapter.coverage_size} members of the coverage set were found by {join_words(found)}."


def _describe_populations(chapter: Chapter) -> str:
    """Describe kinds and returns of the populations of a game whose coverage set is unknown."""
    sentences = []
    for method in chapter.methods:
        rows = [row for row in tables.population_table(chapter).rows if row[0] == method.label]
        if not rows:
            continue
        kinds = [row[3] for row in rows if row[3] is not None]
        distinct = f" {format_number(float(np.mean(kinds)))} kinds of teammates on average;" if kinds else ""
        own = format_number(float(np.mean([row[5] for row in rows])))
        cross = [row[6] for row in rows if row[6] is not None]
        apart = f", and {format_number(float(np.mean(cross)))} in cross-play" if cross else ""
        seeds = format_count(len(rows), "seed")
        sentences.append(f"{method.label}, {seeds}:{distinct} pairs earn {own} in self-play{apart}.")
    return " ".join(sentences)


def _describe_method_coverage(method: MethodRuns) -> str:
    found = [summary["coverage_found"] or 0 for summary in method.summaries().values()]
    sizes = [summary["coverage_size"] or 0 for summary in method.summaries().values()]
    whole = sum(count >= size for count, size in zip(found, sizes, strict=True))
    sentence = f"{method.label} in {whole} of {format_count(len(found), 'seed')}"
    return sentence if whole == len(found) else f"{sentence} (on average {format_number(float(np.mean(found)))})"


def describe_returns(chapter: Chapter, agents: AgentGroup) -> str:
    """Describe which method's agents earn most with held-out partners, and compare the reference with the others."""
    earned = {
        method.label: [*returns.values()]
        for method in chapter.methods
        if (returns := agent_tables.final_returns(method, agents.label))
    }
    if not earned:
        return ""
    best = max(earned, key=lambda label: np.mean(earned[label]))
    most = "earn most:" if len(earned) > 1 else "earn"
    amount = format_mean(earned[best])
    sentence = f"With held-out partners, {agents.title} agents trained with {best} teammates {most} {amount}."
    compared = [
        describe_difference(chapter.reference.label, other.label, found.student)
        for other in chapter.methods[1:]
        if (found := agent_tables.compare_methods(chapter.reference, other, agents.label)) is not None
    ]
    return " ".join([sentence, *compared])


def describe_difference(first: str, second: str, interval: Interval) -> str:
    """Describe which method earns more, by how much, and whether the interval excludes 0."""
    if not math.isfinite(interval.low):
        return f"{first} minus {second}: {format_number(interval.mean)} in the only seed that both have."
    if interval.n == 2:
        return f"{first} minus {second}: {format_number(interval.mean)} on average over the two seeds that both have."
    sentence = (
        f"{first} minus {second}: {format_number(interval.mean)} "
        f"(95% interval {format_interval(interval.low, interval.high)}, {interval.n} seeds paired)"
    )
    if interval.low > 0 or interval.high < 0:
        return f"{sentence}, so {first if interval.low > 0 else second} is ahead."
    return f"{sentence}; the interval contains 0, so these seeds do not distinguish them."


def describe_certificates(chapter: Chapter) -> str:
    """Describe in how many populations the constraints hold exactly, and the largest regret."""
    certified = [(method.label, list(method.certificates().values())) for method in chapter.methods]
    certified = [(label, certificates) for label, certificates in certified if certificates]
    if not certified:
        return ""
    held = [f"{sum(c['constraints_violated'] == 0 for c in some)} of {len(some)} {label}" for label, some in certified]
    regrets = [f"{format_number(max(map(_largest_regret, some)))} with {label}" for label, some in certified]
    return (
        f"According to the exact certificates, all constraints hold in {join_words(held)} populations. The largest "
        f"regret of a best response is at most {join_words(regrets)}."
    )


def _largest_regret(certificate: dict) -> float:
    return max(best["regret_blind"]["upper"] for best in certificate["discounted"]["best_responses"])


def describe_unfinished(chapter: Chapter) -> str:
    """Describe which methods have runs that the results leave out."""
    missing = [
        f"{len(method.runs) - len(method.finished)} of {format_count(len(method.runs), 'seed')} of {method.label}"
        for method in chapter.methods
        if len(method.finished) < len(method.runs)
    ]
    return f"Unfinished or unreadable, and therefore left out: {join_words(missing)}." if missing else ""
