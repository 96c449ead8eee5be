"""Shared parts of commands: exit codes, the compilation cache, Ctrl-C and SIGTERM, small parsers."""

import json
import shlex
import shutil
import signal
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from coverset.cli.interrupts import leave_on_signals

FAILED, BAD_INPUT, IN_USE = 1, 2, 3
"""Exit codes: a part failed; user error; in use by another process. Stopped: 128 + the signal."""
MAX_SEEDS = 10_000
"""Larger ranges are typing errors, and ranges of billions would exhaust the memory."""
MAX_RANGE_LENGTH = 100
"""Maximum characters of a range; Python refuses to parse integers of thousands of digits."""
WIDEST = 100
"""Longest line of text."""


def enable_compilation_cache() -> None:
    """Cache compiled programs in the user's cache directory, so that later starts are fast."""
    with leave_on_signals():
        import jax
    from platformdirs import user_cache_path

    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(user_cache_path("coverset") / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@dataclass
class StopRequest:
    """Whether a signal has requested a stop, and which signal."""

    signum: int | None = None

    def __call__(self) -> bool:
        return self.signum is not None

    @property
    def exit_code(self) -> int:
        """The shell convention for signals: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signum or signal.SIGINT)


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Within the block, the first Ctrl-C or SIGTERM only sets a flag, so that work can stop cleanly.

    The second raises KeyboardInterrupt with the number of its signal.
    """
    request = StopRequest()

    def request_stop(signum: int, frame: Any) -> None:
        if request():
            raise KeyboardInterrupt(signum)
        request.signum = signum

    before = {signum: signal.signal(signum, request_stop) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def peek_option(arguments: Sequence[str], name: str, default: str) -> str:
    """The value of an option before the full parsing, for defaults that depend on it."""
    for position, argument in enumerate(arguments):
        if argument == name and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return default


def take_option(arguments: Sequence[str], name: str, value: str) -> tuple[list[str], str | None]:
    """The arguments without an option, if it has this value, and the value; else all of them, and None."""
    left = list(arguments)
    for words in ([name, value], [f"{name}={value}"]):
        for position in range(len(left) - len(words) + 1):
            if left[position : position + len(words)] == words:
                return left[:position] + left[position + len(words) :], value
    return left, None


def parse_seeds(words: Sequence[str]) -> list[int]:
    """Parse seeds: integers, and ranges such as 0..15."""
    seeds: list[int] = []
    for word in words:
        first, dots, last = word.partition("..")
        too_long = len(word) > MAX_RANGE_LENGTH
        if too_long or not first.isdecimal() or (dots and not last.isdecimal()) or (dots and int(last) < int(first)):
            shown = word[:MAX_RANGE_LENGTH]
            raise ValueError(f"seeds must be non-negative integers, or ranges such as 0..15, got '{shown}'.")
        start, stop = int(first), int(last if dots else first) + 1
        if len(seeds) + stop - start > MAX_SEEDS:
            raise ValueError(f"seeds must be at most {MAX_SEEDS} at once, got '{word}'.")
        seeds.extend(range(start, stop))
    return seeds


def print_text(text: str, *, indent: str = "") -> None:
    """Print a sentence in lines that fit into the terminal; further ones, and the first too if given, are indented."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    style: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": indent or "  "}
    print(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False, **style))


def quote_command(*words: str, env_args: Sequence[str] = ()) -> str:
    """A command to paste into a shell."""
    return shlex.join(["coverset", *words, *(["--env-args", *env_args] if env_args else [])])


def parse_key_values(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE words; a value that is not valid JSON is text."""
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
