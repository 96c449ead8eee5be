"""Comparable timings: interleaved repeats, medians, and ratios within one run.

The speed of a shared machine varies over time. Workloads are therefore interleaved, and a ratio compares timings of the
same repeat only.
"""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import jax

from coverset.checks import check_one_of

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""Wall-clock time, and processor time over all threads, which other processes disturb less."""


def find_clock(name: str) -> Callable[[], float]:
    """The clock called `name`."""
    check_one_of("clock", name, CLOCKS)
    return CLOCKS[name]


def time_interleaved(
    work: Mapping[str, Callable[[], Any]], *, repeats: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of every repeat of every workload, after one untimed run of each that compiles it."""
    for run in work.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            started = clock()
            jax.block_until_ready(run())
            seconds[name].append(clock() - started)
    return seconds


def compute_ratios(numerators: list[float], denominators: list[float]) -> list[float]:
    """Ratios of two interleaved series, repeat by repeat."""
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def median_ratio(numerators: list[float], denominators: list[float]) -> float:
    """The median of the ratios of two interleaved series."""
    return median(compute_ratios(numerators, denominators))
