"""A study so small that each of its units takes a second or less once compiled, and the same as words."""

import json
from pathlib import Path
from typing import Any

GENERATION: dict[str, Any] = {
    "population_size": 2,
    "hidden_sizes": [4],
    "envs_per_pair": 2,
    "rollout_length": 2,
    "epochs": 1,
    "chunk_steps": 80,
    "total_steps": 480,
    "parallel_seeds": 1,
}
TRAINING: dict[str, Any] = {
    "total_steps": 400,
    "hidden_sizes": [4],
    "memory_size": 4,
    "envs_per_partner": 4,
    "rollout_length": 5,
    "chunk_steps": 80,
    "evaluations": 0,
    "parallel_seeds": 1,
}
CHOICE: dict[str, Any] = {"methods": ("lbrdiv",), "seeds": (0,), "generation": GENERATION, "training": TRAINING}


def words(generation: dict[str, Any] | None = None, training: dict[str, Any] | None = None) -> list[str]:
    """The settings, with some replaced, as options of the command line."""
    options = []
    stages = (("--generation", GENERATION | (generation or {})), ("--training", TRAINING | (training or {})))
    for name, settings in stages:
        options += [name, *(f"{key}={json.dumps(value)}" for key, value in settings.items())]
    return options


def results(out: Path) -> dict[str, Any]:
    """What a study has found: the bytes of policies, logs and measurements, and summaries but for their clocks."""
    found: dict[str, Any] = {}
    for pattern in ("*.safetensors", "metrics.jsonl", "certificate.json", "evaluation.json"):
        paths = (path for path in out.rglob(pattern) if "checkpoints" not in path.parts)
        found |= {str(path.relative_to(out)): path.read_bytes() for path in paths}
    for path in out.rglob("summary.json"):
        summary = json.loads(path.read_text())
        del summary["train_seconds"], summary["steps_per_second"]
        found[str(path.relative_to(out))] = summary
    return found
