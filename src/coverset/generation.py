"""Teammate generation as a whole: from a name and a method to run directories, resumable at any moment.

The numerical part is `teammates.trainer`; this file owns the clock, the files and the order of things.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import at_least
from coverset.config import GenerateSettings
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.evaluation.population import measure_population
from coverset.policies.networks import NetworkPolicy
from coverset.policies.population import Population, save_population
from coverset.presets import generate_settings
from coverset.reports.figures import draw_run
from coverset.runs import RunDirectory, to_tensors, versions
from coverset.storage import read_json, write_json
from coverset.teammates.methods import make_rule
from coverset.teammates.metrics import metrics_row
from coverset.teammates.trainer import Metrics, Trainer, TrainState
from coverset.types import PyTree

CHECKPOINT_SECONDS = 5.0
"""Time between two checkpoints, unless the caller says otherwise."""
LARGEST_SEED = 2**32 - 1
"""Beyond it, different seeds would start the same stream of random numbers."""
EVALUATION_STREAM = 1
"""Folded into the seed's key, so that evaluation draws what training never draws."""


class TrainingDiverged(ValueError):
    """Training produced a number that is not finite."""


class Stopped(Exception):
    """The run was asked to stop; it has a checkpoint and can be resumed."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides the outcome of a run, but for its seed."""

    environment_name: str
    environment: Environment
    method: str
    preset: str
    settings: GenerateSettings

    @property
    def trainer(self) -> Trainer:
        return Trainer(self.environment, make_rule(self.method, self.settings), self.settings)

    def config(self, seed: int) -> dict[str, Any]:
        """The content of `config.json`."""
        return {
            "command": "generate",
            "env": self.environment_name,
            "env_parameters": registry.parameters_of(self.environment),
            "env_version": self.environment.version,
            "method": self.method,
            "preset": self.preset,
            "seed": seed,
            "settings": asdict(self.settings),
            "versions": versions(),
        }


@dataclass(frozen=True)
class Progress:
    """What is known between two chunks, one entry per seed that trains now."""

    seeds: tuple[int, ...]
    env_steps: int
    total_steps: int
    self_play_return: list[float]
    cross_play_return: list[float]
    coverage_found: list[int]
    coverage_size: int


class Reporter:
    """How a run talks to whoever started it. This one is silent and never asks it to stop."""

    def start(self, plan: Plan, seeds: tuple[int, ...], steps_done: int) -> None:
        """Training of `seeds` begins, or goes on after `steps_done` steps."""

    def chunk(self, progress: Progress) -> None:
        """Another chunk of updates is done."""

    def warn(self, sentence: str) -> None:
        """Something is amiss but can be dealt with."""

    def should_stop(self) -> bool:
        """Whether to save a checkpoint and stop."""
        return False


def make_plan(
    environment: str | Environment,
    *,
    method: str = "lbrdiv",
    preset: str = "fast",
    env_parameters: dict[str, Any] | None = None,
    **overrides: Any,
) -> Plan:
    """Check every choice and put them together; raises ValueError with one sentence on the first bad one."""
    if isinstance(environment, str):
        name, environment = environment, registry.make(environment, **(env_parameters or {}))
    else:
        name = f"{type(environment).__module__}:{type(environment).__qualname__}"
    settings = generate_settings(name, method, preset, **overrides)
    make_rule(method, settings)
    return Plan(name, environment, method, preset, settings)


def generate(
    environment: str | Environment,
    *,
    method: str = "lbrdiv",
    preset: str = "fast",
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    resume: bool = False,
    env_parameters: dict[str, Any] | None = None,
    reporter: Reporter | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    **overrides: Any,
) -> list[dict[str, Any]]:
    """Train K pairs of best responses and teammates for every seed.

    Args:
      environment: a name that `coverset.make` knows, or an environment.
      method: `lbrdiv`, `brdiv`, `lipo` or `independent`.
      preset: `fast` or `paper`.
      seeds: one run each, in `out/seed-N`.
      out: where the runs go; `runs/ENV-METHOD-PRESET` if not given.
      resume: go on with runs that were stopped or killed, and skip those that are done.
      env_parameters: parameters of the environment, where it is given by name.
      reporter: how to follow the run.
      checkpoint_seconds: training time between two checkpoints; has no influence on the result.
      **overrides: fields of `GenerateSettings` that replace the preset's.
    Returns:
      The content of `summary.json` of every seed, in the order of `seeds`.
    """
    plan = make_plan(environment, method=method, preset=preset, env_parameters=env_parameters, **overrides)
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise ValueError(f"seeds must be different whole numbers from 0 to {LARGEST_SEED}, got {list(seeds)}.")
    at_least("checkpoint_seconds", checkpoint_seconds, 0)
    root = Path(out) if out is not None else default_directory(plan)
    if root.exists() and not root.is_dir():
        raise ValueError(f"out must be a directory, but {root} is a file.")
    directories = {seed: RunDirectory(root / f"seed-{seed}") for seed in seeds}
    for seed, directory in directories.items():
        directory.check_claim(plan.config(seed), resume=resume)
    for seed, directory in directories.items():
        directory.claim(plan.config(seed))
    waiting = [seed for seed in seeds if directories[seed].summary() is None]
    for group in _groups(waiting, plan.settings.seeds_together):
        clock = _Clock(directories[group[0]].path / "timing.json", checkpoint_seconds)
        _train_group(plan, {seed: directories[seed] for seed in group}, reporter or Reporter(), clock)
    return [directories[seed].summary() or {} for seed in seeds]


def default_directory(plan: Plan) -> Path:
    """Where runs go if nobody says."""
    return Path("runs") / f"{plan.environment_name.replace(':', '-')}-{plan.method}-{plan.preset}"


def _groups(seeds: Sequence[int], size: int) -> Iterable[tuple[int, ...]]:
    return (tuple(seeds[start : start + size]) for start in range(0, len(seeds), size))


def _train_group(plan: Plan, directories: dict[int, RunDirectory], reporter: Reporter, clock: "_Clock") -> None:
    """Train several seeds as one compiled program, from their newest common checkpoint to their summaries."""
    seeds, trainer, settings = tuple(directories), plan.trainer, plan.settings
    done, state = _restore(trainer, directories, reporter)
    reporter.start(plan, seeds, done * settings.steps_per_chunk)
    clock.start()
    train_chunk = jax.jit(jax.vmap(trainer.train_chunk), donate_argnums=0)
    for chunk in range(done, settings.num_chunks):
        state, metrics = train_chunk(state)
        reports = unstack(jax.device_get((metrics, state.rule)), len(seeds))
        rows = [metrics_row(plan.environment, plan.settings, chunk, *report) for report in reports]
        _check_finite(metrics, seeds, rows)
        for directory, row in zip(directories.values(), rows, strict=True):
            directory.append_metrics(row)
        reporter.chunk(_progress(plan, seeds, rows))
        stopping = reporter.should_stop()
        if stopping or clock.checkpoint_due() or chunk + 1 == settings.num_chunks:
            _save(directories, chunk + 1, state)
            clock.save()
        if stopping and chunk + 1 < settings.num_chunks:
            raise Stopped(f"Stopped after {rows[0]['env_steps']:,} steps; the run can be resumed.")
    seconds = clock.seconds() / len(seeds)
    for (seed, directory), networks in zip(
        directories.items(), unstack(jax.device_get(state.learner.networks), len(seeds)), strict=True
    ):
        population = Population(NetworkPolicy(networks.best_responses), NetworkPolicy(networks.teammates))
        _finish(plan, seed, directory, population, seconds)


def unstack(tree: PyTree, count: int) -> list[PyTree]:
    """Take a tree of arrays on the host apart along their leading axis."""
    return [jax.tree.map(lambda x, i=index: np.asarray(x[i]), tree) for index in range(count)]


def _restore(trainer: Trainer, directories: dict[int, RunDirectory], reporter: Reporter) -> tuple[int, TrainState]:
    """The newest state that all seeds of the group have whole, or fresh ones; logs are cut back to it."""
    keys = jnp.stack([jax.random.key(seed) for seed in directories])
    fresh = jax.jit(jax.vmap(trainer.init))(keys)
    like = jax.eval_shape(trainer.init, jax.random.key(0))
    found = {seed: directory.whole_checkpoints(like, reporter.warn) for seed, directory in directories.items()}
    common = set.intersection(*(set(states) for states in found.values()))
    chunk = max(common, default=0)
    for directory in directories.values():
        directory.rewind(chunk)
    if not common:
        return 0, fresh
    return chunk, jax.tree.map(lambda *leaves: jnp.stack(leaves), *(states[chunk] for states in found.values()))


def _save(directories: dict[int, RunDirectory], chunk: int, state: TrainState) -> None:
    for directory, tensors in zip(directories.values(), unstack(to_tensors(state), len(directories)), strict=True):
        directory.save_checkpoint(chunk, tensors)


class _Clock:
    """Training time over all sessions of a group, kept in a file of its own: the log must not depend on it."""

    def __init__(self, path: Path, checkpoint_seconds: float) -> None:
        self.path = path
        self.checkpoint_seconds = checkpoint_seconds
        self.before = read_json(path)["train_seconds"] if path.is_file() else 0.0
        self.start()

    def start(self) -> None:
        self.started = self.saved = time.monotonic()

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def checkpoint_due(self) -> bool:
        return time.monotonic() - self.saved > self.checkpoint_seconds

    def save(self) -> None:
        self.saved = time.monotonic()
        write_json(self.path, {"train_seconds": self.seconds()})


def _check_finite(metrics: Metrics, seeds: tuple[int, ...], rows: list[dict[str, Any]]) -> None:
    for seed, finite, row in zip(seeds, np.asarray(metrics.finite), rows, strict=True):
        if not finite:
            raise TrainingDiverged(
                f"Training of seed {seed} diverged before step {row['env_steps']:,}: a value is not finite. "
                "Lower learning_rate, critic_learning_rate or multiplier_rate."
            )


def _progress(plan: Plan, seeds: tuple[int, ...], rows: list[dict[str, Any]]) -> Progress:
    return Progress(
        seeds=seeds,
        env_steps=rows[0]["env_steps"],
        total_steps=plan.settings.trained_steps,
        self_play_return=[row["self_play_return"] for row in rows],
        cross_play_return=[row["cross_play_return"] for row in rows],
        coverage_found=[row["coverage_found"] for row in rows],
        coverage_size=len(plan.environment.conventions),
    )


def _finish(plan: Plan, seed: int, directory: RunDirectory, population: Population, seconds: float) -> None:
    """Write the policies, the summary and the figures of one seed; the summary last: it marks the run as done."""
    about = {"env": plan.environment_name, "env_parameters": registry.parameters_of(plan.environment), "seed": seed}
    save_population(directory.policies_path, population, about)
    key = jax.random.fold_in(jax.random.key(seed), EVALUATION_STREAM)
    env_steps = plan.settings.trained_steps
    summary = {
        "env": plan.environment_name,
        "method": plan.method,
        "preset": plan.preset,
        "seed": seed,
        "population_size": plan.settings.population_size,
        "env_steps": env_steps,
        "train_seconds": round(seconds, 3),
        "steps_per_second": round(env_steps / seconds),
        **measure_population(
            key, plan.environment, population, margin=plan.settings.margin, discount=plan.settings.discount
        ),
    }
    draw_run(directory.path, summary)
    write_json(directory.summary_path, summary)
