"""Environment steps a second of generation and of agent training, and their share of the matrix-product peak."""

from collections.abc import Callable
from statistics import median
from typing import Any

from coverset.bench.arithmetic import (
    PEAK_OPERATIONS,
    generation_operations,
    peak_product,
    training_operations,
)
from coverset.bench.effort import Effort
from coverset.bench.timing import median_ratio, take_turns
from coverset.bench.workloads import generation_chunks, training_chunks
from coverset.pipeline.generate import make_plan


def measure_throughput(
    environment: str, preset: str, effort: Effort, clock: Callable[[], float]
) -> list[dict[str, Any]]:
    """A row for teammate generation and one for agent training."""
    plan = make_plan(environment, preset=preset, **effort.chunked(effort.generation))
    generation = generation_chunks(plan)
    training, agent, partner_sizes = training_chunks(plan, effort.chunked(effort.training))
    work = {"peak": peak_product(), "generate": generation, "train": training}
    seconds = take_turns(work, repeats=effort.repeats, clock=clock)
    operations = {
        "generate": generation_operations(plan.environment, plan.settings),
        "train": training_operations(plan.environment, agent.settings, partner_sizes),
    }
    return [
        {
            "env": environment,
            "preset": preset,
            "stage": stage,
            "parallel_seeds": settings.parallel_seeds,
            "steps_per_second": chunks.steps / median(seconds[stage]),
            "operations_per_step": round(operations[stage]),
            "peak_operations_per_second": PEAK_OPERATIONS / median(seconds["peak"]),
            "share_of_peak": share_of_peak(operations[stage] * chunks.steps, seconds[stage], seconds["peak"]),
        }
        for stage, chunks, settings in (
            ("generate", generation, plan.settings),
            ("train", training, agent.settings),
        )
    ]


def share_of_peak(operations: float, seconds: list[float], peak_seconds: list[float]) -> float:
    """Arithmetic efficiency: operations a second over those of the large product that ran just before."""
    return operations / PEAK_OPERATIONS * median_ratio(peak_seconds, seconds)
