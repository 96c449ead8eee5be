"""What a chapter's numbers say, in sentences computed from them."""

import math

import numpy as np

from coverset.evaluation.statistics import Interval, student_interval
from coverset.reports import tables
from coverset.reports.chapters import Chapter, Method, learner_name
from coverset.reports.wording import counted, listed, mean_and_interval, number, span


def findings(chapter: Chapter) -> list[str]:
    """What each method covers, who is ahead and by how much, and exact verdicts; empty without any result."""
    sentences = [coverage_sentence(chapter)]
    sentences += [return_sentence(chapter, learner) for learner in chapter.learners]
    sentences.append(certificate_sentence(chapter))
    return [sentence for sentence in sentences if sentence]


def coverage_sentence(chapter: Chapter) -> str:
    """How much of the coverage set the seeds of every method found."""
    told = [_coverage(method) for method in chapter.methods if method.finished]
    if chapter.coverage_size is None or not told:
        return ""
    return f"All {chapter.coverage_size} members of the coverage set were found by {listed(told)}."


def _coverage(method: Method) -> str:
    found = [summary["coverage_found"] or 0 for summary in method.summaries().values()]
    sizes = [summary["coverage_size"] or 0 for summary in method.summaries().values()]
    whole = sum(count >= size for count, size in zip(found, sizes, strict=True))
    told = f"{method.label} in {whole} of {counted(len(found), 'seed')}"
    return told if whole == len(found) else f"{told} (on average {number(float(np.mean(found)))})"


def return_sentence(chapter: Chapter, learner: str) -> str:
    """Which method's agents earn most with held-out partners, and how the reference compares with the others."""
    means = {
        method.label: student_interval(returns.values())
        for method in chapter.methods
        if (returns := tables.final_returns(method, learner))
    }
    if not means:
        return ""
    best = max(means, key=lambda label: means[label].mean)
    most = "most with held-out partners:" if len(means) > 1 else "with held-out partners"
    told = f"{learner_name(learner)} agents trained with {best} teammates earn {most} {mean_and_interval(means[best])}."
    compared = [
        difference_sentence(chapter.reference.label, other.label, found.student)
        for other in chapter.methods[1:]
        if (found := tables.difference(chapter.reference, other, learner)) is not None
    ]
    return " ".join([told[0].upper() + told[1:], *compared])


def difference_sentence(first: str, second: str, interval: Interval) -> str:
    """Who is ahead, by how much, and whether the seeds can tell."""
    if not math.isfinite(interval.low):
        return f"{first} minus {second}: {number(interval.mean)} in the one seed that both have."
    told = (
        f"{first} minus {second}: {number(interval.mean)} "
        f"(95% interval {span(interval.low, interval.high)}, {interval.n} seeds paired)"
    )
    if interval.low > 0 or interval.high < 0:
        return f"{told}, so {first if interval.low > 0 else second} is ahead."
    return f"{told}; the interval holds 0, so these seeds do not tell them apart."


def certificate_sentence(chapter: Chapter) -> str:
    """Whether the constraints hold exactly, and what best responses give away."""
    certified = [(method.label, list(method.certificates().values())) for method in chapter.methods]
    certified = [(label, certificates) for label, certificates in certified if certificates]
    if not certified:
        return ""
    held = [
        f"{sum(c['constraints_violated'] == 0 for c in some)} of {len(some)} of {label}" for label, some in certified
    ]
    regrets = [f"{number(max(map(_regret, some)))} with {label}" for label, some in certified]
    return (
        f"Solved exactly, all constraints hold in these populations: {listed(held)}. A best response gives away at "
        f"most {listed(regrets)}."
    )


def _regret(certificate: dict) -> float:
    return max(best["regret_blind"]["upper"] for best in certificate["discounted"]["best_responses"])


def unfinished_sentence(chapter: Chapter) -> str:
    """Which methods have runs that are not in the numbers."""
    missing = [
        f"{len(method.runs) - len(method.finished)} of {counted(len(method.runs), 'seed')} of {method.label}"
        for method in chapter.methods
        if len(method.finished) < len(method.runs)
    ]
    return f"Not finished or not readable, and so not in the numbers: {listed(missing)}." if missing else ""
