"""Teammate generation as a whole: from a name and a method to run directories, resumable at any moment.

The numerical part is `teammates.trainer`; this file owns the clock, the files and the order of things.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Wrapped

from coverset.checks import check_at_least
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.conformance import check_environment
from coverset.envs.seats import describe_seats
from coverset.evaluation.conventions import coverage_set
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.evaluation.diagnosis import RunNumbers, describe_steps_needed, diagnose, smallest_exact_margin
from coverset.evaluation.summary import measure_population
from coverset.loggers.base import find_loggers
from coverset.pipeline.clock import describe_cost
from coverset.pipeline.loop import (
    CHECKPOINT_SECONDS,
    RUNS_LONG,
    RUNS_ONCE,
    Job,
    Reporter,
    claim,
    train_seeds,
    trouble,
    unstack_state,
)
from coverset.pipeline.progress import show_progress
from coverset.pipeline.results import RunResult, Runs
from coverset.policies.population import save_population
from coverset.policies.stacked import count_members
from coverset.presets import default_method, resolve_generation
from coverset.reports.records import check_run_row, read_run_summary
from coverset.runs.directory import RunDirectory, count_threads, versions
from coverset.runs.game_names import game_title
from coverset.runs.storage import write_json
from coverset.runs.trust import foreign_names, is_unsigned, key_path, note_named, sign_record
from coverset.settings import GenerateSettings
from coverset.teammates.method import Method
from coverset.teammates.metrics import ROW_FIELDS, metrics_row
from coverset.teammates.registry import method_name
from coverset.teammates.trainer import Metrics, Trainer, TrainState
from coverset.types import PRNGKey, PyTree

LARGEST_SEED = 2**32 - 1
"""Beyond it, different seeds would start the same stream of random numbers."""
EVALUATION_STREAM = 1
"""Folded into the seed's key, so that evaluation draws what training never draws."""
UNTRAINED_STREAM = 11
"""Folded into the evaluation's key for the return of untrained policies."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides the outcome of a run, but for its seed."""

    environment_name: str
    environment: Environment
    env_parameters: dict[str, Any]
    """What the name needs to give this environment again."""
    method_settings: Method
    preset: str
    settings: GenerateSettings

    @property
    def method(self) -> str:
        """Name of the method."""
        return method_name(self.method_settings)

    @property
    def title(self) -> str:
        """A short name of the game, for people."""
        return game_title(self.environment_name, self.env_parameters)

    @property
    def trainer(self) -> Trainer:
        return Trainer(self.environment, self.method_settings, self.settings)

    def config(self, seed: int) -> dict[str, Any]:
        """The content of `config.json`, but for the seeds that train in one program with this one."""
        return sign_record(
            {
                "command": "generate",
                "env": self.environment_name,
                "env_parameters": self.env_parameters,
                "env_version": self.environment.version,
                "method": self.method,
                "method_settings": asdict(self.method_settings),  # pyright: ignore[reportArgumentType]
                "preset": self.preset,
                "seed": seed,
                "settings": asdict(self.settings),
                "versions": {**versions(), "threads": count_threads()},
            }
        )


def make_plan(
    environment: str | Environment,
    *,
    method: str | Method | None = None,
    preset: str = "fast",
    env_parameters: dict[str, Any] | None = None,
    settings: GenerateSettings | None = None,
    **overrides: Any,
) -> Plan:
    """Check every choice and put them together; arguments are those of `generate`.

    Raises:
      ValueError: the first bad choice, in one sentence.
    """
    method = default_method(overrides.get("population_size")) if method is None else method
    if isinstance(environment, str):
        name, environment = environment, registry.make(environment, **(env_parameters or {}))
        parameters = registry.parameters_to_record(name, environment, env_parameters or {})
    else:
        name, parameters = registry.class_name(environment), registry.parameters_of(environment)
        note_named(*foreign_names({"env": name, "env_parameters": parameters}))
    resolved, method_settings = resolve_generation(name, method, preset, settings, **overrides)
    note_named(*(kind for kind in (resolved.network, resolved.critic_network) if ":" in kind))
    fitted = resolved.for_horizon(environment.horizon)
    plan = Plan(name, environment, parameters, method_settings, preset, fitted)
    assert plan.trainer.grid.num_envs > 0  # building the trainer checks that everything fits together
    return plan


def generate(
    environment: str | Environment,
    *,
    method: str | Method | None = None,
    preset: str = "fast",
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    resume: bool = False,
    env_parameters: dict[str, Any] | None = None,
    settings: GenerateSettings | None = None,
    reporter: Reporter | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    logs: Sequence[str] = (),
    progress: bool = True,
    **overrides: Any,
) -> Runs:
    """Train K pairs of best responses and teammates for every seed.

    Args:
      environment: a name that `coverset.make` knows, or an environment.
      method: a name of `teammates.registry.METHODS`, an installed one, `module:Class`, or a `Method`; `lbrdiv` if not
        given, or `growing` with `population_size="auto"`, which finds the number of pairs.
      preset: `fast` or `paper`.
      seeds: one run each, in `out/seed-N`.
      out: where the runs go; `runs/ENV-METHOD-PRESET` if not given.
      resume: go on with runs that were stopped or killed, and skip those that are done.
      env_parameters: parameters of the environment, where it is given by name.
      settings: shared settings in place of the preset's.
      reporter: how to follow the run, instead of `progress`.
      checkpoint_seconds: training time between two checkpoints; has no influence on the result.
      logs: further logs beside `metrics.jsonl`: `tensorboard`, `wandb`; no influence on the result either.
      progress: whether to show progress in a terminal or notebook.
      **overrides: single fields of `GenerateSettings` and of the method that replace the preset's.
    Returns:
      The content of `summary.json` of every seed, in the order of `seeds`, as a list that can be shown and drawn.
    """
    plan = make_plan(
        environment, method=method, preset=preset, env_parameters=env_parameters, settings=settings, **overrides
    )
    if not registry.is_built_in(plan.environment):
        check_environment(plan.environment, quick=True)
    check_seeds(seeds)
    loggers = find_loggers(logs)
    check_at_least("checkpoint_seconds", checkpoint_seconds, 0)
    root = Path(out) if out is not None else default_directory(plan)
    _check_root(root, plan)
    directories = {seed: RunDirectory(root / f"seed-{seed}") for seed in seeds}
    with show_progress(reporter, progress=progress) as shown:
        claim(directories, plan.config, shown, resume=resume, together=plan.settings.parallel_seeds)
        if (sentence := describe_needed_steps(plan)) is not None:
            shown.warn(sentence)
        if is_unsigned(plan.config(seeds[0])):
            shown.warn(f"No key can be kept in {key_path().parent}: commands that read these runs will need --trust.")
        train_seeds(
            lambda group: GenerationJob(plan, group),
            directories,
            shown,
            together=plan.settings.parallel_seeds,
            checkpoint_seconds=checkpoint_seconds,
            logs=loggers,
        )
    return Runs(RunResult(read_run_summary(directories[seed]), path=directories[seed].path) for seed in seeds)


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise unless there are seeds, all different, and each starts a stream of random numbers of its own."""
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise ValueError(f"seeds must be different whole numbers from 0 to {LARGEST_SEED}, got {list(seeds)}.")


def _check_root(root: Path, plan: Plan) -> None:
    """Raise unless the runs below `root` are all of this plan: whoever reads it takes them for seeds of one run."""
    if root.exists() and not root.is_dir():
        raise ValueError(f"out must be a directory, but {root} is a file.")
    if RunDirectory(root).config_path.exists():
        raise ValueError(f"out must not be a run itself, but {root} has a config.json: choose another `out`.")
    for path in sorted(root.glob("seed-*")):
        seed, run = path.name.removeprefix("seed-"), RunDirectory(path)
        if seed.isdecimal() and run.config_path.is_file():
            run.check_same_run(plan.config(int(seed)), ignored=("seed",))


def default_directory(plan: Plan) -> Path:
    """Where runs go if nobody says."""
    return Path("runs") / run_name(plan.environment_name, plan.method, plan.preset, plan.env_parameters)


def run_name(environment_name: str, method: str, preset: str, parameters: Mapping[str, Any] | None = None) -> str:
    """Name of the directory of all seeds, such as `overcooked-cramped_room-lbrdiv-fast`."""
    return re.sub("[^A-Za-z0-9_.]+", "-", f"{game_title(environment_name, parameters)}-{method}-{preset}")


def describe_needed_steps(plan: Plan) -> str | None:
    """A sentence if a run has too few steps for its number of pairs, by the standard of the defaults.

    The share of a grid's environments in which one pair plays with itself falls with K; the steps that K pairs need are
    those that leave each the self-play of the default's.
    """
    usual, method = resolve_generation(plan.environment_name, plan.method, plan.preset)
    pairs, columns = plan.method_settings.grid_size(plan.settings)
    if pairs != columns or type(method).default_settings is not None:
        return None
    usual_pairs, _ = method.grid_size(usual)
    grown = _pair_cost(plan.method_settings, plan.settings) / _pair_cost(method, usual)
    return describe_steps_needed(
        pairs, plan.settings.total_steps, 1000 * round(usual.total_steps * grown / 1000), usual_pairs
    )


def _pair_cost(method: Method, settings: GenerateSettings) -> float:
    """Environments of the grid for each in which a given pair plays with itself."""
    return method.grid(settings).num_envs / (settings.envs_per_pair + settings.extra_self_play)


@lru_cache(maxsize=8)
def _programs(trainer: Trainer) -> tuple[Wrapped, Wrapped]:
    """Start and chunk over stacked seeds, traced once for all groups of seeds that share a trainer."""
    start = jax.jit(jax.vmap(trainer.init), compiler_options=RUNS_ONCE)
    return start, jax.jit(jax.vmap(trainer.train_chunk), donate_argnums=0, compiler_options=RUNS_LONG)


class GenerationJob(Job):
    """Training of some seeds of a plan, as the shared loop sees it."""

    row_fields = ROW_FIELDS

    def __init__(self, plan: Plan, seeds: tuple[int, ...]) -> None:
        self.plan = plan
        self.seeds = seeds
        self.title = f"{plan.title} {plan.method}"
        self.trainer = plan.trainer
        self.num_chunks = self.trainer.schedule.num_chunks
        self.steps_per_chunk = self.trainer.schedule.steps_per_chunk
        self.start, self.train_chunk = _programs(self.trainer)

    def init(self) -> TrainState:
        return self.start(jnp.stack([jax.random.key(seed) for seed in self.seeds]))

    def advance(self, chunk: int, state: TrainState) -> tuple[TrainState, tuple[Metrics, PyTree]]:
        state, metrics = self.train_chunk(state)
        state = self._next_stages(state)
        return state, (metrics, jax.vmap(self.trainer.report)(state))

    def _next_stages(self, state: TrainState) -> TrainState:
        """Begin the next stage of the seeds whose method has finished one."""
        if not self.trainer.has_stages:
            return state
        states = [self.trainer.next_stage(each) for each in unstack_state(state, len(self.seeds))]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def over(self, state: TrainState) -> list[bool]:
        return (np.asarray(jax.vmap(self.trainer.progress)(state)) >= 1.0).tolist()

    def rows_written(self, chunk: int, state: TrainState) -> list[int]:
        return (np.asarray(state.update) // self.trainer.schedule.updates_per_chunk).tolist()

    def row(self, chunk: int, report: tuple[Metrics, PyTree]) -> dict[str, Any]:
        return metrics_row(self.trainer, chunk, *report)

    def check_row(self, number: int, row: dict[str, Any]) -> None:
        super().check_row(number, row)
        check_run_row(row, size=self.trainer.grid.columns)

    def trouble(self, report: tuple[Metrics, PyTree]) -> str | None:
        metrics, _ = report
        rates = "learning_rate, critic_learning_rate or the rates of the method"
        paid = bool(metrics.rewards_finite) and bool(np.isfinite(metrics.tally.returns).all())
        return trouble(paid, bool(metrics.finite), rates, self.plan.environment)

    def status(self, rows: list[dict[str, Any]]) -> str:
        """For example: self-play 8.9  cross-play 4.1  found 4 of 4 x3, 3 of 4 x1."""
        words = f"self-play {mean_known(rows, 'self_play_return')}  cross-play {mean_known(rows, 'cross_play_return')}"
        size = len(coverage_set(self.plan.environment))
        if not size:
            return words
        times = np.bincount([row["coverage_found"] for row in rows])
        found = [f"{n} of {size}" + f" x{times[n]}" * (len(rows) > 1) for n in reversed(range(len(times))) if times[n]]
        return f"{words}  found {', '.join(found)}"

    def finish(self, seed: int, directory: RunDirectory, state: TrainState, seconds: float) -> None:
        """Write the policies, the figures and the summary."""
        from coverset.reports.figures import draw_run  # here, so that no training waits for matplotlib

        plan = self.plan
        about = {"env": plan.environment_name, "env_parameters": plan.env_parameters, "seed": seed}
        about |= describe_seats(plan.environment)
        population = self.trainer.population(state)
        save_population(directory.policies_path, population, about)
        key = jax.random.fold_in(jax.random.key(seed), EVALUATION_STREAM)
        env_steps = int(state.update) * self.trainer.schedule.steps_per_update
        summary = {
            "env": plan.environment_name,
            "game": plan.title,
            "method": plan.method,
            "preset": plan.preset,
            "seed": seed,
            "population_size": count_members(population.teammates),
            **describe_cost(directory, env_steps, seconds),
            **measure_population(
                key,
                plan.environment,
                population,
                margin=self.trainer.margin(state),
                discount=plan.settings.discount,
                mixed_teams=self.trainer.has_mixed_teams,
            ),
            **self.trainer.summarise(state),
        }
        draw_run(directory.path, summary, size=self.trainer.grid.columns)  # names a row that is damaged
        write_json(directory.summary_path, summary | self._diagnose(key, directory, summary))

    def _diagnose(self, key: PRNGKey, directory: RunDirectory, summary: dict[str, Any]) -> dict[str, Any]:
        """What came out poorly, and one sentence about the weightiest of it; null for a run that went well."""
        environment, total = self.plan.environment, self.trainer.schedule
        untrained = self.trainer.population(unstack_state(self.init(), len(self.seeds))[0])
        pairs = count_members(untrained.best_responses) * count_members(untrained.teammates)
        # As many trials as of the trained ones, so that one compiled program plays both.
        trials = limit_trials(summary["episodes_per_pair"], environment.horizon, pairs=pairs)
        stream, discount = jax.random.fold_in(key, UNTRAINED_STREAM), self.plan.settings.discount
        played = cross_play(stream, environment, *untrained, trials=trials, discount=discount)
        problems = diagnose(
            RunNumbers(
                returns=np.array(summary["cross_play"]),
                discounted=np.array(summary["discounted_cross_play"]),
                margin=summary["margin"],
                chance=float(np.asarray(played.returns, float).mean()),
                coverage_found=summary["coverage_found"],
                coverage_size=summary["coverage_size"],
                error=float(np.max(summary["cross_play_standard_error"])),
                exact_margin=smallest_exact_margin(environment),
                out_of_steps=summary["env_steps"] >= total.num_chunks * total.steps_per_chunk,
                self_play=tuple(
                    row["self_play_return"] for row in directory.rows() if row["self_play_return"] is not None
                ),
                complete=summary.get("coverage_regret", {}).get("complete"),
            )
        )
        return {
            "problems": [problem.kind for problem in problems],
            "advice": problems[0].sentence if problems else None,
        }


def mean_known(rows: list[dict[str, Any]], name: str) -> str:
    """The mean over seeds of a field that may be unknown."""
    known = [row[name] for row in rows if row[name] is not None]
    return f"{np.mean(known):.2f}" if known else "-"
