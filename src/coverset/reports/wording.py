"""Format numbers, intervals and lists for a report."""

from collections.abc import Collection, Sequence

from coverset.evaluation.statistics import student_interval

UNKNOWN = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"


def format_number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits, thousands separators and a minus sign; None as a dash."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif abs(value) < 5e-4:
        text = "0" if value == 0 else f"{value:.0e}"
    else:
        text = f"{value:#.{digits}g}".removesuffix(".")
    return text.replace("-", MINUS)


def format_interval(low: float | None, high: float | None, both: Sequence[float] = ()) -> str:
    """Format an interval over seeds; `one seed` if its ends are unknown.

    Args:
      low: its lower end.
      high: its upper end.
      both: the values of two seeds, which are shown instead: Student's interval of two is absurdly wide.
    """
    if low is None or high is None:
        return "one seed"
    if len(both) == 2:
        return f"two seeds: {format_number(min(both))}, {format_number(max(both))}"
    return f"{format_number(low)} to {format_number(high)}"


def format_mean(values: Collection[float]) -> str:
    """Format a mean over seeds, for example `6.9 (95% interval 6.5 to 7.3 over 4 seeds)`."""
    interval = student_interval(values)
    if interval.n == 1:
        return f"{format_number(interval.mean)} (one seed, so no interval)"
    if interval.n == 2:
        lower, upper = map(format_number, sorted(values))
        return f"{format_number(interval.mean)} (two seeds: {lower} and {upper})"
    ends = format_interval(interval.low, interval.high)
    return f"{format_number(interval.mean)} (95% interval {ends} over {interval.n} seeds)"


def join_words(words: Sequence[str]) -> str:
    """Join words, for example `A, B and C`."""
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def format_count(count: int, word: str) -> str:
    """Format a count, for example `1 seed` or `2 seeds`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
