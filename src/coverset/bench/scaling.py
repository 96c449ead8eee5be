"""How cost grows with the population and with the number of environments, and what the pair grid saves.

All programs train whole updates: rollout, advantages, epochs, and the multiplier step of L-BRDiv at every update.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

from coverset.bench.arithmetic import generation_operations
from coverset.bench.effort import Effort
from coverset.bench.gathered import GATHERED
from coverset.bench.timing import median_ratio, ratios, take_turns
from coverset.bench.workloads import Chunks, update_chunks
from coverset.pipeline.generate import Plan, make_plan


def measure_populations(environment: str, effort: Effort, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """A row for every K: cost of an environment step on the pair grid, and by gathering and masking.

    The number of environments is about the same at each K, so that only the number of policies grows.
    """
    plans = {k: _population_plan(environment, k, effort) for k in effort.populations}
    grids = {k: update_chunks(plan) for k, plan in plans.items()}
    gathered = {k: update_chunks(plans[k], GATHERED) for k in plans if k <= effort.gathered_up_to}
    work: dict[str, Chunks] = {}
    for k in plans:
        work[f"grid {k}"] = grids[k]
        if k in gathered:
            work[f"gathered {k}"] = gathered[k]
    seconds = take_turns(work, repeats=effort.repeats, clock=clock)
    smallest = min(plans)
    return [
        {
            "env": environment,
            "population_size": k,
            "num_envs": plan.settings.num_envs,
            "seconds_per_step": median(seconds[f"grid {k}"]) / grids[k].steps,
            "cost_relative_to_smallest": _relative_cost(seconds, grids, k, smallest),
            "linear_growth_would_be": k / smallest,
            **(_comparison(plan, seconds) if k in gathered else {}),
        }
        for k, plan in plans.items()
    ]


def _population_plan(environment: str, population_size: int, effort: Effort) -> Plan:
    per_pair = max(1, round(effort.grid_envs / population_size**2))
    sizes: dict[str, Any] = {"population_size": population_size, "envs_per_pair": per_pair, "extra_self_play": 0}
    return make_plan(environment, **_one_update(effort), **sizes)


def _relative_cost(seconds: dict[str, list[float]], grids: dict[int, Chunks], k: int, smallest: int) -> float:
    per_chunk = median_ratio(seconds[f"grid {k}"], seconds[f"grid {smallest}"])
    return per_chunk * grids[smallest].steps / grids[k].steps


def _comparison(plan: Plan, seconds: dict[str, list[float]]) -> dict[str, float]:
    k = plan.settings.population_size
    masked, own = (generation_operations(plan.environment, plan.settings, masked=masked) for masked in (True, False))
    speedups = ratios(seconds[f"gathered {k}"], seconds[f"grid {k}"])
    return {
        "grid_speedup": median(speedups),
        "lowest_speedup": min(speedups),
        "highest_speedup": max(speedups),
        "arithmetic_saved": masked / own,
        "half_of_k": k / 2,
    }


def measure_environments(environment: str, effort: Effort, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """A row for every number of environments in a cell of the preset's grid: throughput."""
    plans = {n: make_plan(environment, **_one_update(effort), envs_per_pair=n) for n in effort.envs_per_pair}
    work = {str(n): update_chunks(plan) for n, plan in plans.items()}
    seconds = take_turns(work, repeats=effort.repeats, clock=clock)
    return [
        {
            "env": environment,
            "envs_per_pair": n,
            "num_envs": plan.settings.num_envs,
            "steps_per_second": work[str(n)].steps / median(seconds[str(n)]),
        }
        for n, plan in plans.items()
    ]


def _one_update(effort: Effort) -> dict[str, Any]:
    """The fast preset, one update to a chunk."""
    sizes = ("population_size", "envs_per_pair", "extra_self_play")
    replaced = {name: value for name, value in effort.generation.items() if name not in sizes}
    return {"preset": "fast", "chunk_steps": 1, **replaced}
