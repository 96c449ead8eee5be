"""Throughput of teammate generation and of agent training, and their share of the matrix-product peak."""

from collections.abc import Callable
from statistics import median
from typing import Any

from coverset.bench.arithmetic import (
    PEAK_OPERATIONS,
    generation_operations,
    peak_product,
    training_operations,
)
from coverset.bench.settings import BenchSettings
from coverset.bench.timing import median_ratio, time_interleaved
from coverset.bench.workloads import make_generation_workload, make_training_workload
from coverset.pipeline.generate import make_plan


def measure_throughput(
    environment: str, preset: str, settings: BenchSettings, clock: Callable[[], float]
) -> list[dict[str, Any]]:
    """A row for teammate generation and one for agent training."""
    plan = make_plan(environment, preset=preset, **settings.with_chunk_steps(settings.generation))
    generation = make_generation_workload(plan)
    training, agent, partner_sizes = make_training_workload(plan, settings.with_chunk_steps(settings.training))
    work = {"peak": peak_product(), "generate": generation, "train": training}
    seconds = time_interleaved(work, repeats=settings.repeats, clock=clock)
    operations = {
        "generate": generation_operations(plan.environment, plan.settings),
        "train": training_operations(plan.environment, agent.settings, partner_sizes),
    }
    return [
        {
            "env": environment,
            "preset": preset,
            "stage": stage,
            "parallel_seeds": parallel_seeds,
            "steps_per_second": workload.steps / median(seconds[stage]),
            "operations_per_step": round(operations[stage]),
            "peak_operations_per_second": PEAK_OPERATIONS / median(seconds["peak"]),
            "share_of_peak": share_of_peak(operations[stage] * workload.steps, seconds[stage], seconds["peak"]),
        }
        for stage, workload, parallel_seeds in (
            ("generate", generation, plan.settings.parallel_seeds),
            ("train", training, agent.settings.parallel_seeds),
        )
    ]


def share_of_peak(operations: float, seconds: list[float], peak_seconds: list[float]) -> float:
    """Operations per second divided by those of the matrix product timed in the same repeat."""
    return operations / PEAK_OPERATIONS * median_ratio(peak_seconds, seconds)
