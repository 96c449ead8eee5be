"""Numbers and lists as a report writes them."""

import math
from collections.abc import Sequence

from coverset.evaluation.statistics import Interval

UNKNOWN = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, thousands apart, a true minus sign; a dash for what is not known."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif abs(value) < 5e-4:
        text = "0" if value == 0 else f"{value:.0e}"
    else:
        text = f"{value:#.{digits}g}".removesuffix(".")
    return text.replace("-", MINUS)


def span(low: float | None, high: float | None) -> str:
    """An interval; words where one seed tells nothing of others."""
    return "one seed" if low is None or high is None else f"{number(low)} to {number(high)}"


def mean_and_interval(interval: Interval) -> str:
    """For example: 6.9 (95% interval 6.5 to 7.3 over 4 seeds)."""
    if not math.isfinite(interval.low):
        return f"{number(interval.mean)} (one seed, so no interval)"
    ends = span(interval.low, interval.high)
    return f"{number(interval.mean)} (95% interval {ends} over {interval.n} seeds)"


def listed(words: Sequence[str]) -> str:
    """For example: A, B and C."""
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def counted(count: int, word: str) -> str:
    """For example: 1 seed, 2 seeds."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
