"""Time to full coverage: train until every member of the known coverage set is played, or training ends."""

import time
from typing import Any

import jax

from coverset.bench.settings import BenchSettings
from coverset.evaluation.conventions import coverage_set
from coverset.pipeline.generate import GenerationJob, make_plan
from coverset.pipeline.loop import unstack


def measure_coverage(environment: str, preset: str, settings: BenchSettings, *, seed: int = 0) -> dict[str, Any] | None:
    """Train one seed until full coverage in self-play; None if the coverage set is unknown.

    `seconds` excludes compilation, which is reported as `compile_seconds`.
    """
    plan = make_plan(environment, preset=preset, **{**settings.generation, "parallel_seeds": 1})
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
        report = unstack(jax.device_get((metrics, jax.vmap(job.trainer.report)(state))), 1)[0]
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
