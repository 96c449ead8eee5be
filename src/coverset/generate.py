"""Teammate generation as a whole: from a name and a method to run directories, resumable at any moment.

The numerical part is `teammates.trainer`; this file owns the clock, the files and the order of things.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from coverset.config import GenerateSettings
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.evaluation.conventions import convention_shares, describe, members_found
from coverset.evaluation.cross_play import constraint_gaps, cross_play
from coverset.policies.networks import NetworkPolicy
from coverset.policies.population import Population, save_population
from coverset.presets import generate_settings
from coverset.reports.figures import draw_run
from coverset.runs import RunDirectory, versions
from coverset.storage import read_json, write_json
from coverset.teammates.methods import make_rule
from coverset.teammates.trainer import Metrics, Trainer, TrainState

CHECKPOINT_SECONDS = 5.0
EVALUATION_TRIALS = 512
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
      **overrides: fields of `GenerateSettings` that replace the preset's.
    Returns:
      The content of `summary.json` of every seed, in the order of `seeds`.
    """
    plan = make_plan(environment, method=method, preset=preset, env_parameters=env_parameters, **overrides)
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise ValueError(f"seeds must be different whole numbers from 0 on, got {list(seeds)}.")
    root = Path(out) if out is not None else default_directory(plan)
    directories = {seed: RunDirectory(root / f"seed-{seed}") for seed in seeds}
    for seed, directory in directories.items():
        directory.check_claim(plan.config(seed), resume=resume)
    for seed, directory in directories.items():
        directory.claim(plan.config(seed))
    waiting = [seed for seed in seeds if directories[seed].summary() is None]
    for group in _groups(waiting, plan.settings.seeds_together):
        _train_group(plan, {seed: directories[seed] for seed in group}, reporter or Reporter())
    return [directories[seed].summary() or {} for seed in seeds]


def default_directory(plan: Plan) -> Path:
    """Where runs go if nobody says."""
    return Path("runs") / f"{plan.environment_name.replace(':', '-')}-{plan.method}-{plan.preset}"


def _groups(seeds: Sequence[int], size: int) -> Iterable[tuple[int, ...]]:
    return (tuple(seeds[start : start + size]) for start in range(0, len(seeds), size))


def _train_group(plan: Plan, directories: dict[int, RunDirectory], reporter: Reporter) -> None:
    """Train several seeds as one compiled program, from their newest common checkpoint to their summaries."""
    seeds, trainer, settings = tuple(directories), plan.trainer, plan.settings
    done, state = _restore(trainer, directories, reporter)
    reporter.start(plan, seeds, done * _chunk_steps(settings))
    clock = _Clock(directories)
    train_chunk = jax.jit(jax.vmap(trainer.train_chunk), donate_argnums=0)
    for chunk in range(done, settings.num_chunks):
        state, metrics = train_chunk(state)
        rows = [metrics_row(plan, chunk, state, metrics, index) for index in range(len(seeds))]
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
    for index, (seed, directory) in enumerate(directories.items()):
        _finish(plan, seed, directory, jax.tree.map(lambda x, i=index: x[i], state), clock.seconds() / len(seeds))


def _chunk_steps(settings: GenerateSettings) -> int:
    return settings.updates_per_chunk * settings.steps_per_update


def _restore(trainer: Trainer, directories: dict[int, RunDirectory], reporter: Reporter) -> tuple[int, TrainState]:
    """The newest state that all seeds of the group have whole, or fresh ones; logs are cut back to it."""
    keys = jnp.stack([jax.random.key(seed) for seed in directories])
    fresh = jax.jit(jax.vmap(trainer.init))(keys)
    like = jax.eval_shape(trainer.init, jax.random.key(0))
    found = {seed: directory.whole_checkpoints(like, reporter.warn) for seed, directory in directories.items()}
    common = set.intersection(*(set(states) for states in found.values()))
    chunk = max(common, default=0)
    for directory in directories.values():
        directory.truncate_metrics(chunk)
    if not common:
        return 0, fresh
    return chunk, jax.tree.map(lambda *leaves: jnp.stack(leaves), *(states[chunk] for states in found.values()))


def _save(directories: dict[int, RunDirectory], chunk: int, state: TrainState) -> None:
    for index, directory in enumerate(directories.values()):
        directory.save_checkpoint(chunk, jax.tree.map(lambda x, i=index: x[i], state))


class _Clock:
    """Training time over all sessions of a group, kept in a file of its own: the log must not depend on it."""

    def __init__(self, directories: dict[int, RunDirectory]) -> None:
        self.path = next(iter(directories.values())).path / "timing.json"
        self.before = read_json(self.path)["train_seconds"] if self.path.is_file() else 0.0
        self.started = self.saved = time.monotonic()

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def checkpoint_due(self) -> bool:
        return time.monotonic() - self.saved > CHECKPOINT_SECONDS

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


def metrics_row(plan: Plan, chunk: int, state: TrainState, metrics: Metrics, index: int) -> dict[str, Any]:
    """One row of `metrics.jsonl`, for the seed at `index` of the group. Depends on nothing but the training."""
    one = jax.tree.map(lambda x: np.asarray(x[index]), metrics)
    with np.errstate(invalid="ignore", divide="ignore"):
        pair_returns = one.tally.returns / one.tally.episodes
        shares = one.tally.conventions / one.tally.conventions.sum(axis=-1, keepdims=True)
    cross = ~np.eye(len(pair_returns), dtype=bool)
    gaps = constraint_gaps(one.pair_values, plan.settings.margin)
    rule_state = jax.tree.map(lambda x: np.asarray(x[index]), state.rule)
    members = members_found(plan.environment, *np.nan_to_num(shares)) if plan.environment.conventions else []
    return {
        "chunk": chunk + 1,
        "update": (chunk + 1) * plan.settings.updates_per_chunk,
        "env_steps": (chunk + 1) * _chunk_steps(plan.settings),
        "self_play_return": _number(_mean(np.diagonal(pair_returns))),
        "cross_play_return": _number(_mean(pair_returns[cross])),
        "coverage_found": len(set(members) - {None}),
        "covers": [None if member is None else plan.environment.conventions[member] for member in members],
        "pair_returns": _numbers(pair_returns),
        "pair_values": _numbers(one.pair_values),
        "gaps": {"other_best_response": _numbers(gaps[0]), "other_teammate": _numbers(gaps[1])},
        "multipliers": {k: _numbers(v) for k, v in rule_state._asdict().items()} if _named(rule_state) else None,
        "entropy": {"best_responses": _numbers(one.entropy[0]), "teammates": _numbers(one.entropy[1])},
        "critic_loss": _number(float(one.critic_loss)),
    }


def _named(rule_state: Any) -> bool:
    """Whether a rule keeps multipliers, which have names, rather than a constant matrix."""
    return hasattr(rule_state, "_asdict")


def _mean(values: Float[np.ndarray, "n"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _number(value: float) -> float | None:
    """Six digits are more than any of our estimates is good for; what is not known is null."""
    return None if np.isnan(value) else float(f"{value:.6g}")


def _numbers(values: np.ndarray) -> list:
    if values.ndim == 0:
        return _number(float(values))  # pyright: ignore[reportReturnType]
    return [_numbers(value) for value in values]


def _progress(plan: Plan, seeds: tuple[int, ...], rows: list[dict[str, Any]]) -> Progress:
    return Progress(
        seeds=seeds,
        env_steps=rows[0]["env_steps"],
        total_steps=plan.settings.num_chunks * _chunk_steps(plan.settings),
        self_play_return=[row["self_play_return"] for row in rows],
        cross_play_return=[row["cross_play_return"] for row in rows],
        coverage_found=[row["coverage_found"] for row in rows],
        coverage_size=len(plan.environment.conventions),
    )


def _finish(plan: Plan, seed: int, directory: RunDirectory, state: TrainState, seconds: float) -> None:
    """Write the policies, the summary and the figures of one seed; the summary last: it marks the run as done."""
    population = Population(
        NetworkPolicy(state.learner.networks.best_responses), NetworkPolicy(state.learner.networks.teammates)
    )
    save_population(
        directory.policies_path,
        population,
        {"env": plan.environment_name, "env_parameters": registry.parameters_of(plan.environment), "seed": seed},
    )
    summary = summarise(plan, seed, population, seconds)
    draw_run(directory.path, summary)
    write_json(directory.summary_path, summary)


def summarise(plan: Plan, seed: int, population: Population, seconds: float) -> dict[str, Any]:
    """Measure a finished population: every pair in both seats, what it does, what it covers."""
    env, settings = plan.environment, plan.settings
    key, swapped_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), EVALUATION_STREAM))
    played = cross_play(key, env, *population, trials=EVALUATION_TRIALS, discount=settings.discount)
    returns = np.asarray(played.returns)[..., 0]
    pair_returns = np.asarray(played.discounted_returns)[..., 0].mean(axis=-1)
    in_self_play = np.asarray(played.conventions)[range(len(pair_returns)), range(len(pair_returns)), :, 0]
    shares = [convention_shares(in_self_play[..., seat], len(env.conventions)) for seat in (0, 1)]
    gaps = constraint_gaps(pair_returns, settings.margin)
    env_steps = settings.num_chunks * _chunk_steps(settings)
    return {
        "env": plan.environment_name,
        "method": plan.method,
        "preset": plan.preset,
        "seed": seed,
        "population_size": settings.population_size,
        "env_steps": env_steps,
        "train_seconds": round(seconds, 3),
        "steps_per_second": round(env_steps / seconds) if seconds else None,
        **describe(env, *shares),
        "cross_play": _numbers(returns.mean(axis=-1)),
        "cross_play_standard_error": _numbers(returns.std(axis=-1, ddof=1) / EVALUATION_TRIALS**0.5),
        "cross_play_seats_swapped": _swapped_seats(swapped_key, env, population),
        "discounted_cross_play": _numbers(pair_returns),
        "margin": settings.margin,
        "gaps": {"other_best_response": _numbers(gaps[0]), "other_teammate": _numbers(gaps[1])},
        "constraints_satisfied": bool(np.nanmin(gaps) >= 0),
        "constraints_violated": int(np.sum(gaps < 0)),
    }


def _swapped_seats(key: jax.Array, environment: Environment, population: Population) -> list | None:
    """The same matrix with teammates in seat 0, rows best responses still; None where seats are not alike."""
    if not environment.seats_alike:
        return None
    played = cross_play(key, environment, population.teammates, population.best_responses, trials=EVALUATION_TRIALS)
    return _numbers(np.asarray(played.returns)[..., 0].mean(axis=-1).T)
