"""All benchmarks in one run, and their files `bench.json` and `bench.png`."""

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from coverset.bench.acting import measure_acting
from coverset.bench.coverage import measure_coverage
from coverset.bench.figure import bench_figure
from coverset.bench.methods import measure_methods
from coverset.bench.parts import measure_parts
from coverset.bench.scaling import measure_environments, measure_populations
from coverset.bench.settings import FULL, BenchSettings
from coverset.bench.startup import measure_startup
from coverset.bench.stepping import measure_stepping
from coverset.bench.throughput import measure_throughput
from coverset.bench.timing import find_clock
from coverset.checks import check_one_of
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.seats import has_common_reward, is_masked
from coverset.presets import PRESETS
from coverset.reports.figures import save_figure
from coverset.runs.directory import versions
from coverset.runs.storage import write_json

BUILT_IN = ("matrix", "reaching", "weighted-reaching", "foraging")
SUBJECT = "foraging"
"""Environment of the scaling benchmarks; the first of the given ones if this is not among them."""


def bench(
    environments: Sequence[str] = BUILT_IN,
    *,
    presets: Sequence[str] = PRESETS,
    settings: BenchSettings = FULL,
    clock: str = "wall",
    coverage: bool = False,
    out: str | Path | None = None,
    on_start: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Run all benchmarks in this process.

    Args:
      environments: names that `coverset.make` knows.
      presets: `fast`, `paper` or both.
      settings: sizes and repeats.
      clock: `wall`, or `cpu` for processor time, which other processes disturb less.
      coverage: whether to train each environment with the first preset until its coverage set is found.
      out: directory of `bench.json` and `bench.png`; nothing is written if not given.
      on_start: called with a short description before each benchmark.
    Returns:
      The content of `bench.json`; docs/how-to/benchmark.md defines each field.
    """
    names, presets = list(dict.fromkeys(environments)), list(dict.fromkeys(presets))
    _check_choices(names, presets, out)
    found = {"machine": _describe_machine(clock), **_measure(names, presets, settings, find_clock(clock), on_start)}
    if coverage:
        rows = []
        for name in names:
            on_start(f"coverage of {name}")
            rows.append(measure_coverage(name, presets[0], settings))
        found["coverage"] = [row for row in rows if row is not None]
    record = jax.tree.map(lambda x: float(f"{x:.6g}") if isinstance(x, float) else x, found)
    if out is not None:
        save_figure(Path(out) / "bench.png", bench_figure(record))
        write_json(Path(out) / "bench.json", record)
    return record


def bench_methods(
    environments: Sequence[str],
    *,
    preset: str = "fast",
    settings: BenchSettings = FULL,
    clock: str = "wall",
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Compare the cost of an update of every built-in method with L-BRDiv's; written to `methods.json` in `out`.

    Args:
      environments: names that `coverset.make` knows.
      preset: `fast` or `paper`.
      settings: repeats, and settings of teammate generation.
      clock: `wall` or `cpu`.
      out: directory; nothing is written if not given.
    """
    _check_choices(environments, [preset], out)
    timer = find_clock(clock)
    rows = [row for name in environments for row in measure_methods(name, settings, timer, preset=preset)]
    record = {"machine": _describe_machine(clock), "methods": rows}
    if out is not None:
        write_json(Path(out) / "methods.json", record)
    return record


def _check_choices(names: Sequence[str], presets: Sequence[str], out: str | Path | None) -> None:
    for preset in presets:
        check_one_of("preset", preset, PRESETS)
    for name in names:
        _check_comparable(name, registry.make(name))
    if not names or not presets:
        raise ValueError("bench needs at least one environment and one preset.")
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"out must be a directory, but {out} is a file.")


def _check_comparable(name: str, environment: Environment) -> None:
    """Raise for games that the counts of operations and the baseline are not written for."""
    seats, common = environment.num_seats, has_common_reward(environment)
    if seats != 2 or not common or is_masked(environment):
        found = f"{seats} players" if seats != 2 else "illegal actions" if common else "a reward for each player"
        raise ValueError(
            f"bench measures games of two players with one common reward and no illegal actions, got '{name}' with "
            f"{found}."
        )


def _measure(
    names: Sequence[str],
    presets: Sequence[str],
    settings: BenchSettings,
    clock: Callable[[], float],
    on_start: Callable[[str], None],
) -> dict[str, Any]:
    def run(words: str, measure: Callable[..., Any], *arguments: Any) -> Any:
        on_start(words)
        return measure(*arguments)

    subject = SUBJECT if SUBJECT in names else names[0]
    each = [(name, preset) for name in names for preset in presets]
    return {
        "stepping": run("stepping", measure_stepping, names, settings, clock),
        "acting": run("calls of agents", measure_acting, names, settings, clock),
        "populations": run(f"scaling with K in {subject}", measure_populations, subject, settings, clock),
        "environments": run(f"scaling with environments in {subject}", measure_environments, subject, settings, clock),
        "throughput": [
            row
            for one in each
            for row in run(f"throughput of {' '.join(one)}", measure_throughput, *one, settings, clock)
        ],
        "parts": [run(f"parts of {' '.join(one)}", measure_parts, *one, settings, clock) for one in each],
        "startup": [row for one in each for row in run(f"start of {' '.join(one)}", measure_startup, *one, settings)],
    }


def _describe_machine(clock: str) -> dict[str, Any]:
    """The conditions of the measurements."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "device": jax.devices()[0].device_kind,
        "load_before": os.getloadavg()[0],
        "clock": clock,
        "versions": versions(),
    }
