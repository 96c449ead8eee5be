"""`coverset bench`: speed, as ratios measured in one run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options

DESCRIPTION = """Measure how fast this machine generates teammates and trains agents: throughput, share of the
matrix-product peak, breakdown of an update, the same update with gathered parameters and masked losses, scaling with K
and with environments, environments alone, start-up and memory. Compared programs are interleaved within one run;
docs/how-to/benchmark.md explains the tables. `coverset bench methods` compares the cost of an update of every method
with that of L-BRDiv instead; `coverset bench coverage` measures how much of known coverage sets methods find. All
benchmarks together take well over a quarter of an hour on two cores;
nothing else should run meanwhile.

Examples:
  coverset bench --quick
  coverset bench foraging --preset fast --out runs/bench
  coverset bench --clock cpu --json
  coverset bench methods reaching --clock cpu
  coverset bench coverage --help
"""

COLUMNS: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]] = {
    "throughput": (
        "Training",
        (
            ("env", "environment", ""),
            ("preset", "preset", ""),
            ("stage", "stage", ""),
            ("parallel_seeds", "seeds", "d"),
            ("steps_per_second", "steps/s", ",.0f"),
            ("operations_per_step", "operations/step", ",.0f"),
            ("share_of_peak", "share of peak", ".2f"),
        ),
    ),
    "populations": (
        "Scaling with the population, and the baseline that gathers and masks",
        (
            ("env", "environment", ""),
            ("population_size", "K", "d"),
            ("num_envs", "environments", "d"),
            ("cost_relative_to_smallest", "cost/step", ".2f"),
            ("linear_growth_would_be", "if linear", ".0f"),
            ("grid_speedup", "grid speedup", ".2f"),
            ("arithmetic_saved", "arithmetic saved", ".2f"),
            ("lowest_speedup", "at least", ".2f"),
            ("half_of_k", "K/2", ".1f"),
        ),
    ),
    "environments": (
        "Scaling with the number of environments",
        (
            ("env", "environment", ""),
            ("envs_per_pair", "per pair", "d"),
            ("num_envs", "total", "d"),
            ("steps_per_second", "steps/s", ",.0f"),
        ),
    ),
    "stepping": (
        "Environments alone, random actions",
        (
            ("env", "environment", ""),
            ("num_envs", "in parallel", "d"),
            ("steps_per_second", "steps/s", ",.0f"),
            ("foraging_is_times_as_fast", "speedup of foraging", ".2f"),
            ("overcooked_is_times_as_fast", "speedup of overcooked", ".2f"),
        ),
    ),
    "acting": (
        "Calls of an agent, one observation at a time",
        (
            ("env", "environment", ""),
            ("learner", "learner", ""),
            ("calls_per_second", "calls/s", ",.0f"),
        ),
    ),
    "methods": (
        "Cost of an update, relative to L-BRDiv",
        (
            ("env", "environment", ""),
            ("method", "method", ""),
            ("num_envs", "environments", "d"),
            ("update_seconds", "update s", ".4f"),
            ("cost_of_update", "update", ".2f"),
            ("cost_of_step", "step", ".2f"),
        ),
    ),
    "startup": (
        "Start of a generation run, in a fresh process",
        (
            ("env", "environment", ""),
            ("preset", "preset", ""),
            ("cache", "cache", ""),
            ("import_seconds", "import s", ".1f"),
            ("init_seconds", "init s", ".1f"),
            ("trace_seconds", "trace s", ".1f"),
            ("compile_seconds", "compile s", ".1f"),
            ("ready_seconds", "ready s", ".1f"),
            ("peak_bytes", "peak bytes", ",d"),
        ),
    ),
    "coverage": (
        "Time to full coverage",
        (
            ("env", "environment", ""),
            ("preset", "preset", ""),
            ("coverage_found", "found", "d"),
            ("coverage_size", "of", "d"),
            ("env_steps", "steps", ",d"),
            ("compile_seconds", "compile s", ".1f"),
            ("seconds", "train s", ".1f"),
        ),
    ),
}
"""Tables in display order: title, and field, heading and format of every column."""


@dataclass(frozen=True)
class Bench:
    """Command-line options."""

    env: tyro.conf.Positional[tuple[str, ...]] = ()
    """Environments, as for `coverset generate` (default: the four built-in ones); `methods`, and then environments, to
    compare methods (default: reaching)."""
    preset: tuple[str, ...] = ("fast", "paper")
    """Presets to measure: fast, paper, or both."""
    quick: bool = False
    """Smaller sizes and fewer repeats."""
    coverage: bool = False
    """Also measure the training time until each environment's coverage set is found."""
    clock: str = "wall"
    """wall, or cpu: processor time over all threads, which other processes disturb less."""
    out: Path | None = None
    """Directory for bench.json and bench.png (default: runs/bench)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, run the command, print the result."""
    if arguments[:1] == ["coverage"]:
        from coverset.cli import bench_coverage

        return bench_coverage.main(arguments[1:])
    command = read_options(Bench, arguments, command="bench", description=DESCRIPTION)

    from coverset.bench.settings import FULL, QUICK
    from coverset.bench.suite import BUILT_IN, bench

    out = command.out or Path("runs") / "bench"
    if command.env[:1] == ("methods",):
        return _compare_methods(command, out)
    with Console(stderr=True).status("Starting") as status:
        record = bench(
            command.env or BUILT_IN,
            presets=command.preset,
            settings=QUICK if command.quick else FULL,
            clock=command.clock,
            coverage=command.coverage,
            out=out,
            on_start=lambda words: status.update(f"Measuring {words}"),
        )
    if command.json:
        print_json(record)
        return 0
    for part, (title, columns) in COLUMNS.items():
        if part in record:
            _show(title, columns, record[part])
    _show_parts(record["parts"])
    print(f"Written: {out / 'bench.json'}, {out / 'bench.png'}")
    return 0


def _compare_methods(command: Bench, out: Path) -> int:
    from coverset.bench.settings import FULL, QUICK
    from coverset.bench.suite import bench_methods

    settings = QUICK if command.quick else FULL
    with Console(stderr=True).status("Measuring methods"):
        record = bench_methods(
            command.env[1:] or ("reaching",), preset=command.preset[0], settings=settings, clock=command.clock, out=out
        )
    if command.json:
        print_json(record)
        return 0
    _show(*COLUMNS["methods"], record["methods"])
    print(f"Written: {out / 'methods.json'}")
    return 0


def _show(title: str, columns: Sequence[tuple[str, str, str]], rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for _, heading, form in columns:
        table.add_column(heading, justify="right" if form else "left")
    for row in rows:
        table.add_row(*(format(row[field], form) if field in row else "" for field, _, form in columns))
    Console().print(table)


def _show_parts(rows: list[dict[str, Any]]) -> None:
    """Print the breakdown with one column per environment and preset, since there are many parts."""
    from coverset.bench.parts import PARTS

    table = Table(title="Breakdown of an update: shares of its time", title_justify="left")
    table.add_column("")
    for row in rows:
        table.add_column(f"{row['env']} {row['preset']}", justify="right")
    table.add_row("milliseconds", *(f"{1000 * row['update_seconds']:.2f}" for row in rows))
    for part in PARTS:
        table.add_row(part.replace("_", " "), *(f"{row[part]:.3f}" for row in rows))
    Console().print(table)
