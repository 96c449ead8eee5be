"""Measure the start-up of a run from within a fresh process: `python -m coverset.bench.startup_probe`.

Prints one JSON object: seconds of importing, tracing and compiling until a trainer is ready, and the process's peak
memory after two chunks of training.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

KIBIBYTE = 1024


def main(arguments: list[str]) -> int:
    """Arguments: environment, preset, directory of the compilation cache, settings as JSON."""
    name, preset, cache, words = arguments
    # Settings must be hashable, which lists are not.
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(words).items()}
    print(json.dumps(measure_start(name, preset, cache, settings)))
    return 0


def measure_start(name: str, preset: str, cache: str, settings: dict[str, Any]) -> dict[str, float]:
    """Start a generation run as the command does, and stop after two chunks."""
    stopwatch = Stopwatch()
    import jax

    from coverset.pipeline.generate import GenerationJob, make_plan

    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    stopwatch.lap("import_seconds")
    plan = make_plan(name, preset=preset, **settings)
    job = GenerationJob(plan, tuple(range(plan.settings.parallel_seeds)))
    state = jax.block_until_ready(job.init())
    stopwatch.lap("init_seconds")
    lowered = job.train_chunk.lower(state)
    stopwatch.lap("trace_seconds")
    train_chunk = lowered.compile()
    stopwatch.lap("compile_seconds")
    for _ in range(2):
        state, _ = jax.block_until_ready(train_chunk(state))
    return {**stopwatch.seconds, "peak_bytes": peak_bytes()}


class Stopwatch:
    """Records the seconds between consecutive laps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the current lap under this name, and start the next."""
        now = time.perf_counter()
        self.seconds[name], self.last = now - self.last, now


def peak_bytes() -> int:
    """Peak resident memory of this process.

    On Linux it is read from /proc, because `ru_maxrss` includes the memory of the parent process.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * KIBIBYTE
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * KIBIBYTE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
