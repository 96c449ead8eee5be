"""Start-up time and peak memory of a generation run, measured in fresh processes."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from coverset.bench.settings import BenchSettings

STAGES = ("init_seconds", "trace_seconds", "compile_seconds")
"""The stages from an imported package to a compiled trainer."""


def measure_startup(environment: str, preset: str, settings: BenchSettings) -> list[dict[str, Any]]:
    """Two rows: a start with an empty compilation cache, and one with the cache that the first has filled."""
    with tempfile.TemporaryDirectory(prefix="coverset-bench-") as cache:
        rows = [_start(environment, preset, cache, settings) for _ in range(2)]
    return [
        {"env": environment, "preset": preset, "cache": kind, "ready_seconds": sum(row[s] for s in STAGES), **row}
        for kind, row in zip(("cold", "warm"), rows, strict=True)
    ]


def _start(environment: str, preset: str, cache: str, settings: BenchSettings) -> dict[str, Any]:
    words: Sequence[str] = (environment, preset, cache, json.dumps(dict(settings.generation)))
    command = [sys.executable, "-m", "coverset.bench.startup_probe", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise RuntimeError(f"A fresh process could not start {environment}: {last}")
    return json.loads(done.stdout)
