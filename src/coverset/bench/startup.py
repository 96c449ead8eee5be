"""What a user waits for before training starts, and the memory of a run: each measured in a fresh process."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from coverset.bench.effort import Effort

STAGES = ("init_seconds", "trace_seconds", "compile_seconds")
"""From an imported package to a compiled trainer."""


def measure_startup(environment: str, preset: str, effort: Effort) -> list[dict[str, Any]]:
    """Two rows: the first start with an empty compilation cache, the second with what the first has left there."""
    with tempfile.TemporaryDirectory(prefix="coverset-bench-") as cache:
        rows = [_start(environment, preset, cache, effort) for _ in range(2)]
    return [
        {"env": environment, "preset": preset, "cache": kind, "ready_seconds": sum(row[s] for s in STAGES), **row}
        for kind, row in zip(("cold", "warm"), rows, strict=True)
    ]


def _start(environment: str, preset: str, cache: str, effort: Effort) -> dict[str, Any]:
    words: Sequence[str] = (environment, preset, cache, json.dumps(dict(effort.generation)))
    command = [sys.executable, "-m", "coverset.bench.probe", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"A fresh process could not start {environment}: {last}")
    return json.loads(done.stdout)
