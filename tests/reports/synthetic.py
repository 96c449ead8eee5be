"""Synthetic studies: run directories as the commands write them, with any number of seeds and methods."""

import json
from pathlib import Path
from typing import Any

import numpy as np

MEMBERS = tuple(f"order {name}" for name in ("ABC", "ACB", "BAC", "BCA", "CAB", "CBA"))
VERSIONS = {"python": "3.11.0", "coverset": "0.1.0"}
STEPS = (1000, 2000, 3000)


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_run(path: Path, *, env: str, method: str, seed: int, size: int, level: float) -> None:
    """Write a finished generation run; `level` shifts all its returns."""
    rng = np.random.default_rng(seed)
    returns = (level + rng.uniform(size=(size, size))).round(4).tolist()
    covers = [MEMBERS[i if method == "lbrdiv" else i // 2] for i in range(size)]
    config = {"command": "generate", "env": env, "env_parameters": {}, "env_version": 1, "method": method}
    settings = {"population_size": size, "total_steps": STEPS[-1], "max_multiplier": "inf"}
    write(path / "config.json", {**config, "preset": "fast", "seed": seed, "settings": settings, "versions": VERSIONS})
    gaps = [[None if i == j else 0.1 * i - 0.05 * j for j in range(size)] for i in range(size)]
    constraints = {"other_best_response": gaps, "other_teammate": gaps}
    rows = [
        {
            "env_steps": step,
            "self_play_return": None if step == STEPS[0] else level,
            "cross_play_return": 0.0,
            "coverage_found": 1,
            "gaps": constraints,
            "method": {"multipliers": constraints} if method == "lbrdiv" else {},
        }
        for step in STEPS
    ]
    write_rows(path / "metrics.jsonl", rows)
    summary = {
        "env": env,
        "method": method,
        "preset": "fast",
        "seed": seed,
        "population_size": size,
        "env_steps": STEPS[-1],
        "train_seconds": 12.5,
        "cross_play": returns,
        "cross_play_standard_error": np.zeros((size, size)).tolist(),
        "conventions": [f"{name} 97%, no convention 3%" for name in covers],
        "best_response_conventions": [f"{name} 100%" for name in covers],
        "covers": covers,
        "coverage_found": len(set(covers)),
        "coverage_size": 6,
        "constraints_violated": 0 if method == "lbrdiv" else 3,
        "margin": 0.1,
    }
    write(path / "summary.json", summary)


def write_agent(path: Path, *, learner: str, seed: int, level: float, partners: int = 3) -> None:
    """Write a finished and evaluated agent of a run."""
    rng = np.random.default_rng(seed)
    config = {"command": "train", "learner": learner, "preset": "fast", "seed": seed, "seat": 0}
    settings = {"total_steps": STEPS[-1]}
    write(path / "config.json", {**config, "partners": ["teammates"], "settings": settings, "versions": VERSIONS})
    held_out = [None, *(float(level + rng.normal(scale=0.1)) for _ in STEPS[1:])]
    write_rows(
        path / "metrics.jsonl", [{"env_steps": s, "held_out_return": v} for s, v in zip(STEPS, held_out, strict=True)]
    )
    write(path / "summary.json", {"env_steps": STEPS[-1], "train_seconds": 3.0})
    means = (level + rng.normal(scale=0.1, size=partners)).tolist()
    known = {"oracle": level + 1, "oracle_exact": False, "full_information": level + 2}
    evaluation = {
        "seat": 0,
        "trials": 8,
        "episodes": 5,
        "mean_return": float(np.mean(means)),
        "oracle_fraction": float(np.mean(means)) / (level + 1),
        "oracle_partners": partners,
        "oracle_exact": False,
        "curve": [level - 1 / episode for episode in range(1, 6)],
        "partners": {
            f"H{n + 1}": {"mean_return": mean, "oracle_fraction": mean / (level + 1), **known}
            for n, mean in enumerate(means)
        },
    }
    write(path / "evaluation.json", evaluation)


def write_study(
    root: Path,
    *,
    seeds: int = 2,
    methods: tuple[str, ...] = ("lbrdiv", "brdiv", "lipo"),
    learners: tuple[str, ...] = ("rl2",),
    env: str = "my_games:kitchen",
    size: int = 6,
) -> Path:
    """Write all seeds of all methods, each with its agents; earlier methods earn more."""
    for place, method in enumerate(methods):
        for seed in range(seeds):
            path = root / f"{env.replace(':', '-')}-{method}-fast" / f"seed-{seed}"
            level = 5.0 - place
            write_run(path, env=env, method=method, seed=seed, size=size, level=level)
            for learner in learners:
                write_agent(path / learner, learner=learner, seed=seed, level=level)
    return root
