"""Taking times that can be compared: turns instead of blocks, medians instead of means, ratios within one run.

A machine that does other things too is slower in one second than in the next. What is to be compared therefore takes
turns, and each repeat compares only what ran next to each other.
"""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import jax

from coverset.checks import check_one_of

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""What a user waits for; and the processor's time over all threads, which other processes disturb less."""


def find_clock(name: str) -> Callable[[], float]:
    """The clock called `name`."""
    check_one_of("clock", name, CLOCKS)
    return CLOCKS[name]


def take_turns(
    work: Mapping[str, Callable[[], Any]], *, repeats: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of every repeat of every piece of work. Each runs once before, so that nothing compiles while timed."""
    for run in work.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            started = clock()
            jax.block_until_ready(run())
            seconds[name].append(clock() - started)
    return seconds


def ratios(above: list[float], below: list[float]) -> list[float]:
    """Of two series that took turns, repeat by repeat."""
    return [a / b for a, b in zip(above, below, strict=True)]


def median_ratio(above: list[float], below: list[float]) -> float:
    """The middle one."""
    return median(ratios(above, below))
