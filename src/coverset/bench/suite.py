"""All questions in one run, and what comes of it: `bench.json` and `bench.png`."""

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.bench.coverage import measure_coverage
from coverset.bench.effort import FULL, Effort
from coverset.bench.figure import bench_figure
from coverset.bench.growth import measure_environments, measure_populations
from coverset.bench.parts import measure_parts
from coverset.bench.startup import measure_startup
from coverset.bench.stepping import measure_stepping
from coverset.bench.throughput import measure_throughput
from coverset.bench.timing import find_clock
from coverset.checks import check_one_of
from coverset.envs import registry
from coverset.presets import PRESETS
from coverset.reports.figures import save_figure
from coverset.runs.directory import versions
from coverset.runs.storage import write_json

BUILT_IN = ("matrix", "reaching", "weighted-reaching", "foraging")
SUBJECT = "foraging"
"""Growth and the baseline are measured in one environment: this, or else the first of those asked for."""


def bench(
    environments: Sequence[str] = BUILT_IN,
    *,
    presets: Sequence[str] = PRESETS,
    effort: Effort = FULL,
    clock: str = "wall",
    coverage: bool = False,
    out: str | Path | None = None,
    starting: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Measure speed, all of it in this one run.

    Args:
      environments: names that `coverset.make` knows.
      presets: `fast`, `paper` or both.
      effort: how much of everything to run.
      clock: `wall`, or `cpu` for the processor's time, which other work on the machine disturbs less.
      coverage: whether to train each environment with the first preset until its coverage set is found.
      out: a directory for `bench.json` and `bench.png`; nothing is written if not given.
      starting: called with a few words before each part.
    Returns:
      The content of `bench.json`; docs/speed.md says what each field means.
    """
    names, presets = list(dict.fromkeys(environments)), list(dict.fromkeys(presets))
    ticks = find_clock(clock)
    for preset in presets:
        check_one_of("preset", preset, PRESETS)
    for name in names:
        registry.make(name)
    if not names or not presets:
        raise ValueError("bench needs at least one environment and one preset.")
    root = None if out is None else Path(out)
    if root is not None and root.exists() and not root.is_dir():
        raise ValueError(f"out must be a directory, but {root} is a file.")
    subject = SUBJECT if SUBJECT in names else names[0]
    each = [(name, preset) for name in names for preset in presets]
    tell = _teller(starting)
    found: dict[str, Any] = {
        "machine": _machine(clock),
        "stepping": tell("stepping", measure_stepping, names, effort, ticks),
        "populations": tell(f"growth with K in {subject}", measure_populations, subject, effort, ticks),
        "environments": tell(f"growth with environments in {subject}", measure_environments, subject, effort, ticks),
        "throughput": [
            row
            for one in each
            for row in tell(f"throughput of {' '.join(one)}", measure_throughput, *one, effort, ticks)
        ],
        "parts": [tell(f"parts of {' '.join(one)}", measure_parts, *one, effort, ticks) for one in each],
        "startup": [row for one in each for row in tell(f"start of {' '.join(one)}", measure_startup, *one, effort)],
    }
    if coverage:
        rows = [tell(f"coverage of {name}", measure_coverage, name, presets[0], effort) for name in names]
        found["coverage"] = [row for row in rows if row is not None]
    record = jax.tree.map(lambda x: float(f"{x:.6g}") if isinstance(x, float) else x, found)
    if root is not None:
        save_figure(root / "bench.png", bench_figure(record))
        write_json(root / "bench.json", record)
    return record


def _teller(starting: Callable[[str], None]) -> Callable[..., Any]:
    def tell(words: str, measure: Callable[..., Any], *arguments: Any) -> Any:
        starting(words)
        return measure(*arguments)

    return tell


def _machine(clock: str) -> dict[str, Any]:
    """Under what conditions all this was measured."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "device": jax.devices()[0].device_kind,
        "load_before": os.getloadavg()[0],
        "clock": clock,
        "versions": versions(),
    }
