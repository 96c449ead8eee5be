"""The main findings of a chapter as sentences computed from its numbers."""

import math

import numpy as np

from coverset.evaluation.statistics import Interval, student_interval
from coverset.reports import tables
from coverset.reports.chapters import Chapter, MethodRuns, learner_name
from coverset.reports.wording import format_count, format_interval, format_mean, format_number, join_words


def describe_findings(chapter: Chapter) -> list[str]:
    """Describe coverage, returns by learner, and certificates; empty if there are no results."""
    sentences = [describe_coverage(chapter)]
    sentences += [describe_returns(chapter, learner) for learner in chapter.learners]
    sentences.append(describe_certificates(chapter))
    return [sentence for sentence in sentences if sentence]


def describe_coverage(chapter: Chapter) -> str:
    """Describe how much of the coverage set the seeds of every method find."""
    found = [_describe_method_coverage(method) for method in chapter.methods if method.finished]
    if chapter.coverage_size is None or not found:
        return ""
    return f"All {chapter.coverage_size} members of the coverage set were found by {join_words(found)}."


def _describe_method_coverage(method: MethodRuns) -> str:
    found = [summary["coverage_found"] or 0 for summary in method.summaries().values()]
    sizes = [summary["coverage_size"] or 0 for summary in method.summaries().values()]
    whole = sum(count >= size for count, size in zip(found, sizes, strict=True))
    sentence = f"{method.label} in {whole} of {format_count(len(found), 'seed')}"
    return sentence if whole == len(found) else f"{sentence} (on average {format_number(float(np.mean(found)))})"


def describe_returns(chapter: Chapter, learner: str) -> str:
    """Describe which method's agents earn most with held-out partners, and compare the reference with the others."""
    means = {
        method.label: student_interval(returns.values())
        for method in chapter.methods
        if (returns := tables.final_returns(method, learner))
    }
    if not means:
        return ""
    best = max(means, key=lambda label: means[label].mean)
    most = "most with held-out partners:" if len(means) > 1 else "with held-out partners"
    sentence = f"{learner_name(learner)} agents trained with {best} teammates earn {most} {format_mean(means[best])}."
    compared = [
        describe_difference(chapter.reference.label, other.label, found.student)
        for other in chapter.methods[1:]
        if (found := tables.compare_methods(chapter.reference, other, learner)) is not None
    ]
    return " ".join([sentence[0].upper() + sentence[1:], *compared])


def describe_difference(first: str, second: str, interval: Interval) -> str:
    """Describe which method earns more, by how much, and whether the interval excludes 0."""
    if not math.isfinite(interval.low):
        return f"{first} minus {second}: {format_number(interval.mean)} in the only seed that both have."
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
