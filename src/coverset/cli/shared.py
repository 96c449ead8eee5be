"""What several commands need at the edge: exit codes, the compilation cache, Ctrl-C and SIGTERM, small parsers."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

FAILED, BAD_INPUT, IN_USE = 1, 2, 3
"""Exit codes: a part failed; the caller's mistake; another process is at work there. Stopped: 128 + the signal."""
MOST_SEEDS = 10_000
"""More than anybody trains at once: a range beyond is a slip, and one of billions would fill the memory."""
LONGEST_RANGE = 100
"""Characters of one word; Python itself reads no numbers of thousands of digits."""


def enable_compilation_cache() -> None:
    """Keep compiled programs in the user's cache directory, so that a second start is quick."""
    import jax
    from platformdirs import user_cache_path

    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(user_cache_path("coverset") / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@dataclass
class StopRequest:
    """Whether a signal has asked to stop, and which."""

    signum: int | None = None

    def __call__(self) -> bool:
        return self.signum is not None

    @property
    def exit_code(self) -> int:
        """As shells tell an end by a signal: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signum or signal.SIGINT)


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Within the block the first Ctrl-C or SIGTERM only raises a flag, so that work can stop in order.

    The second interrupts with KeyboardInterrupt, which carries the number of its signal.
    """
    request = StopRequest()

    def ask(signum: int, frame: Any) -> None:
        if request():
            raise KeyboardInterrupt(signum)
        request.signum = signum

    before = {signum: signal.signal(signum, ask) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def option(arguments: Sequence[str], name: str, default: str) -> str:
    """The value of an option, before the real parsing: other defaults depend on it."""
    for position, argument in enumerate(arguments):
        if argument == name and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return default


def seed_list(words: Sequence[str]) -> list[int]:
    """Read seeds: whole numbers, and ranges such as 0..15."""
    seeds: list[int] = []
    for word in words:
        first, dots, last = word.partition("..")
        too_long = len(word) > LONGEST_RANGE
        if too_long or not first.isdecimal() or (dots and not last.isdecimal()) or (dots and int(last) < int(first)):
            told = word[:LONGEST_RANGE]
            raise ValueError(f"seeds must be whole numbers from 0 on, or ranges such as 0..15, got '{told}'.")
        start, stop = int(first), int(last if dots else first) + 1
        if len(seeds) + stop - start > MOST_SEEDS:
            raise ValueError(f"seeds must be at most {MOST_SEEDS} at once, got '{word}'.")
        seeds.extend(range(start, stop))
    return seeds


def key_values(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE words; values are JSON where they can be, else plain text."""
    values = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ValueError(f"{name} must be given as NAME=VALUE, got '{word}'.")
        try:
            values[key.replace("-", "_")] = json.loads(text)
        except json.JSONDecodeError:
            values[key.replace("-", "_")] = text
    return values
