"""Scaling of the cost with the population size and with the number of environments, and the speedup of the pair grid.

All programs train whole updates: rollout, advantages, epochs, and the multiplier step of L-BRDiv at every update.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

from coverset.bench.arithmetic import generation_operations
from coverset.bench.baseline import GATHER_AND_MASK
from coverset.bench.settings import BenchSettings
from coverset.bench.timing import compute_ratios, median_ratio, time_interleaved
from coverset.bench.workloads import Workload, make_update_workload
from coverset.pipeline.generate import Plan, make_plan


def measure_populations(environment: str, settings: BenchSettings, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """A row for every K: cost of an environment step on the pair grid, and with the baseline.

    The number of environments is about the same for each K, so that only the number of policies grows.
    """
    plans = {k: _population_plan(environment, k, settings) for k in settings.populations}
    grids = {k: make_update_workload(plan) for k, plan in plans.items()}
    gathered = {k: make_update_workload(plans[k], GATHER_AND_MASK) for k in plans if k <= settings.baseline_up_to}
    work: dict[str, Workload] = {}
    for k in plans:
        work[f"grid {k}"] = grids[k]
        if k in gathered:
            work[f"gathered {k}"] = gathered[k]
    seconds = time_interleaved(work, repeats=settings.repeats, clock=clock)
    smallest = min(plans)
    return [
        {
            "env": environment,
            "population_size": k,
            "num_envs": plan.trainer.grid.num_envs,
            "seconds_per_step": median(seconds[f"grid {k}"]) / grids[k].steps,
            "cost_relative_to_smallest": _relative_cost(seconds, grids, k, smallest),
            "linear_growth_would_be": k / smallest,
            **(_comparison(plan, seconds) if k in gathered else {}),
        }
        for k, plan in plans.items()
    ]


def _population_plan(environment: str, population_size: int, settings: BenchSettings) -> Plan:
    per_pair = max(1, round(settings.grid_envs / population_size**2))
    sizes: dict[str, Any] = {"population_size": population_size, "envs_per_pair": per_pair, "extra_self_play": 0}
    return make_plan(environment, **_one_update(settings), **sizes)


def _relative_cost(seconds: dict[str, list[float]], grids: dict[int, Workload], k: int, smallest: int) -> float:
    per_chunk = median_ratio(seconds[f"grid {k}"], seconds[f"grid {smallest}"])
    return per_chunk * grids[smallest].steps / grids[k].steps


def _comparison(plan: Plan, seconds: dict[str, list[float]]) -> dict[str, float]:
    k = plan.settings.population_size
    masked, own = (generation_operations(plan.environment, plan.settings, masked=masked) for masked in (True, False))
    speedups = compute_ratios(seconds[f"gathered {k}"], seconds[f"grid {k}"])
    return {
        "grid_speedup": median(speedups),
        "lowest_speedup": min(speedups),
        "highest_speedup": max(speedups),
        "arithmetic_saved": masked / own,
        "half_of_k": k / 2,
    }


def measure_environments(environment: str, settings: BenchSettings, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """A row of throughput for every number of environments per cell."""
    plans = {n: make_plan(environment, **_one_update(settings), envs_per_pair=n) for n in settings.envs_per_pair}
    work = {str(n): make_update_workload(plan) for n, plan in plans.items()}
    seconds = time_interleaved(work, repeats=settings.repeats, clock=clock)
    return [
        {
            "env": environment,
            "envs_per_pair": n,
            "num_envs": plan.trainer.grid.num_envs,
            "steps_per_second": work[str(n)].steps / median(seconds[str(n)]),
        }
        for n, plan in plans.items()
    ]


def _one_update(settings: BenchSettings) -> dict[str, Any]:
    """Settings of the fast preset with one update per chunk."""
    sizes = ("population_size", "envs_per_pair", "extra_self_play")
    replaced = {name: value for name, value in settings.generation.items() if name not in sizes}
    return {"preset": "fast", "chunk_steps": 1, **replaced}
