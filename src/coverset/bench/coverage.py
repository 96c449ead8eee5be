"""Time to full coverage: train until every member of the known coverage set is played, or until the preset ends."""

import time
from typing import Any

import jax

from coverset.bench.effort import Effort
from coverset.evaluation.conventions import coverage_set
from coverset.pipeline.generate import GenerationJob, make_plan
from coverset.pipeline.loop import unstack


def measure_coverage(environment: str, preset: str, effort: Effort, *, seed: int = 0) -> dict[str, Any] | None:
    """One seed's way to full coverage in self-play; None where the coverage set is not known.

    Compilation is measured apart: `seconds` starts when training does.
    """
    plan = make_plan(environment, preset=preset, **{**effort.generation, "parallel_seeds": 1})
    size = len(coverage_set(plan.environment))
    if not size:
        return None
    job, started = GenerationJob(plan, (seed,)), time.perf_counter()
    state = jax.block_until_ready(job.init())
    train_chunk = job.train_chunk.lower(state).compile()
    compiled = time.perf_counter()
    row: dict[str, Any] = {}
    for chunk in range(job.num_chunks):
        state, metrics = train_chunk(state)
        report = unstack(jax.device_get((metrics, state.rule)), 1)[0]
        row = job.row(chunk, report)
        if row["coverage_found"] == size:
            break
    return {
        "env": environment,
        "preset": preset,
        "seed": seed,
        "coverage_found": row["coverage_found"],
        "coverage_size": size,
        "env_steps": row["env_steps"],
        "compile_seconds": compiled - started,
        "seconds": time.perf_counter() - compiled,
    }
