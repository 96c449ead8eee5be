"""Ad hoc agent training as a whole: from a directory of generated teammates to trained agents, resumable.

The numerical part is `adhoc.trainer`; this file finds the partners, and owns the files and the order of things. The
agent trained with the teammates of `DIR/seed-N` lives in `DIR/seed-N/NAME`; its name is that of the learner by default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Wrapped

from coverset.adhoc.learner import AgentSpec, AgentWorld, FittedLearner, Learner, OnPolicyLearner, agent_spec
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.registry import agent_folder, allow_learner, check_agent_name, learner_name, learner_settings
from coverset.adhoc.saved import save_agent
from coverset.adhoc.trainer import AgentMetrics, AgentState, AgentTrainer
from coverset.envs.base import Environment
from coverset.envs.registry import parameters_of
from coverset.envs.seats import check_ego_seat, describe_seats, partner_seat
from coverset.evaluation.cross_play import cross_play, limit_episodes, limit_trials
from coverset.loggers.base import find_loggers
from coverset.partners import AGENT_FILE, GenerationRun, find_partners, read_run, seed_directories
from coverset.pipeline.clock import Clock, describe_cost
from coverset.pipeline.loop import (
    CHECKPOINT_SECONDS,
    RUNS_LONG,
    RUNS_ONCE,
    Job,
    Reporter,
    Stopped,
    claim,
    train_seeds,
    trouble,
)
from coverset.pipeline.progress import show_progress
from coverset.pipeline.results import AgentResult, TrainedAgents
from coverset.pipeline.served import served_partners
from coverset.policies.population import Population
from coverset.policies.stacked import group_alike, stack
from coverset.policies.third_party import checked_heuristics
from coverset.policy import Policy
from coverset.presets import resolve_training
from coverset.runs.directory import AgentDirectory, RunDirectory, count_threads, versions
from coverset.runs.game_names import game_title
from coverset.runs.storage import check_fields, round_floats, write_json
from coverset.runs.trust import sign_record
from coverset.settings import TrainSettings
from coverset.types import PRNGKey, PyTree

AGENT_STREAM = 2
"""Folded into the seed's key, so that training an agent draws what generating its teammates never drew."""
HELD_OUT_TRIALS = 16
SHARED_LOSSES = ("entropy", "critic_loss")
"""What every learner with a policy and a critic logs; all else is the learner's own."""
ROW_FIELDS = {
    "chunk": int,
    "update": int,
    "env_steps": int,
    "mean_return": float | None,
    "returns_by_partner": tuple[float | None, ...],
    "returns_by_episode": tuple[float | None, ...],
    "late_returns_by_partner": tuple[float | None, ...],
    "held_out": Any,  # by partner, or null
    "held_out_return": float | None,
    "learner": dict,
}
"""Fields of every row, and their types; the losses of `SHARED_LOSSES` may stand beside them."""


@dataclass(frozen=True)
class AgentPlan:
    """One agent to train: everything but the partners themselves."""

    environment_name: str
    environment: Environment
    learner: Learner
    preset: str
    settings: TrainSettings
    seat: int = 0
    partners: tuple[str, ...] = ("teammates",)
    name: str | None = None
    """Of the agent; by default that of the learner."""

    @property
    def learner_name(self) -> str:
        """The learner by name."""
        return learner_name(self.learner)

    @property
    def agent_name(self) -> str:
        """The agent's name, which is that of its directory."""
        return agent_folder(self.learner_name) if self.name is None else check_agent_name(self.name)

    def spec(self, population: Population | None = None, num_partners: int = 1) -> AgentSpec:
        """What the agent is built from; some learners need the population for it."""
        sizes = {"num_partners": num_partners}
        return agent_spec(self.learner, self.environment, self.settings, self.seat, population, **sizes)

    def config(self, seed: int, generated: dict[str, Any]) -> dict[str, Any]:
        """The content of the agent's `config.json`, but for the seeds that train in one program with this one."""
        return sign_record(
            {
                "command": "train",
                "env": self.environment_name,
                "env_parameters": generated["env_parameters"],
                "env_version": self.environment.version,
                "method": generated["method"],
                "learner": self.learner_name,
                "learner_settings": learner_settings(self.learner),
                "preset": self.preset,
                "seed": seed,
                "seat": self.seat,
                "partners": list(self.partners),
                "settings": asdict(self.settings),
                "versions": {**versions(), "threads": count_threads()},
            }
        )


def train(
    directory: str | Path,
    *,
    learner: str | Learner = "rl2",
    name: str | None = None,
    preset: str = "fast",
    settings: TrainSettings | None = None,
    seeds: Sequence[int] | None = None,
    partners: Sequence[str] = ("teammates",),
    seat: int = 0,
    resume: bool = False,
    reporter: Reporter | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    logs: Sequence[str] = (),
    progress: bool = True,
    **overrides: Any,
) -> TrainedAgents:
    """Train an ad hoc agent with the teammates of every seed of a generation run.

    Args:
      directory: what `generate` has written.
      learner: `rl2`, `feedforward` (no memory), `plastic` and `planner` (best responses and a belief; no training),
        `module:Class`, or a `Learner` itself.
      name: name of the agents, so that several of one learner can stand side by side; the learner's if not given.
      preset: `fast` or `paper`, where the settings come from.
      settings: all settings that learners share, instead of the preset's.
      seeds: which seeds of the run; all of them if not given.
      partners: the pool: `teammates`, `best-responses`, `other-seeds`, `heuristics`, a heuristic's name, paths of runs
        and agents, or `module:function`; see `partners.find_partner`.
      seat: where the agent sits; partners take all other seats.
      resume: go on with agents whose training was stopped or killed, and skip those that are done.
      reporter: how to follow the training, instead of `progress`.
      checkpoint_seconds: time between two checkpoints.
      logs: further logs beside `metrics.jsonl`: `tensorboard`, `wandb`; no influence on the result either.
      progress: whether to show progress in a terminal or notebook.
      **overrides: fields of `TrainSettings`, or of the learner, that replace those of the preset, of `settings` or of
        `learner`.
    Returns:
      The content of the agents' `summary.json`, in the order of the seeds, as a list that can be shown.
    """
    loggers = find_loggers(logs)
    runs = {seed: read_run(path) for seed, path in seed_directories(Path(directory), seeds).items()}
    first = next(iter(runs.values()))
    check_ego_seat(first.environment, seat)
    env = first.config["env"]
    shared, chosen = resolve_training(env, learner, preset, settings, **overrides)
    allow_learner(chosen)
    plan = AgentPlan(env, first.environment, chosen, preset, shared, seat, tuple(partners), name)
    agents: dict[int, RunDirectory] = {seed: AgentDirectory(run.path / plan.agent_name) for seed, run in runs.items()}
    pools = {
        seed: find_partners(run, tuple(partners), seat=partner_seat(first.environment, seat))
        for seed, run in runs.items()
    }
    specs = {seed: plan.spec(run.population, len(pools[seed])) for seed, run in runs.items()}
    _check_alike(runs, pools, specs)
    together = 1 if isinstance(chosen, FittedLearner) else shared.parallel_seeds
    worlds = {
        seed: AgentWorld(run.environment, run.population, pools[seed], seat, specs[seed]) for seed, run in runs.items()
    }
    if isinstance(chosen, FittedLearner):
        for world in worlds.values():
            chosen.check(world)
    with show_progress(reporter, progress=progress) as shown:
        claim(agents, lambda seed: plan.config(seed, runs[seed].config), shown, resume=resume, together=together)
        if isinstance(chosen, FittedLearner):
            _fit_agents(plan, chosen, worlds, agents, shown)
        else:
            train_seeds(
                lambda group: AgentJob(plan, group, [pools[seed] for seed in group], specs[group[0]], runs),
                agents,
                shown,
                together=together,
                checkpoint_seconds=checkpoint_seconds,
                logs=loggers,
            )
    return TrainedAgents(AgentResult(agents[seed].summary() or {}, path=agents[seed].path) for seed in runs)


def _check_alike(runs: dict[int, GenerationRun], pools: dict[int, PartnerPool], specs: dict[int, AgentSpec]) -> None:
    """Raise unless all seeds are of one game, with partners of one shape: their agents train in one program."""
    first, *others = runs
    for seed in others:
        for name in ("env", "env_parameters", "env_version"):
            one, other = (runs[n].config.get(name) for n in (first, seed))
            if one != other:
                raise ValueError(
                    f"All seeds must be of one game, but {name} is {one} in seed {first}, {other} in {seed}."
                )
        shapes = [jax.tree.map(jnp.shape, pools[n]) for n in (first, seed)]
        if shapes[0] != shapes[1] or specs[seed] != specs[first]:
            raise ValueError(
                f"Partners of all seeds must be of one number and size, but those of seeds {first} and {seed} differ."
            )


def _fit_agents(
    plan: AgentPlan,
    learner: FittedLearner,
    worlds: dict[int, AgentWorld],
    agents: dict[int, RunDirectory],
    reporter: Reporter,
) -> None:
    """Compute the agents of a learner without gradients, seed after seed."""
    for seed, agent in agents.items():
        if agent.is_done():
            continue
        if reporter.should_stop():
            raise Stopped(f"Stopped before seed {seed}; the run can be resumed.")
        with agent.hold_lock():
            reporter.work(f"{plan.agent_name} seed {seed}: fitting")
            clock = Clock([agent.path / "timing.json"], 0.0, reporter.warn)
            key = jax.random.fold_in(jax.random.key(seed), AGENT_STREAM)
            policy = jax.block_until_ready(learner.fit(key, worlds[seed]))
            if not clock.noted:  # an agent that was lost and is made again took as long as it did at first
                clock.save()
            _finish(plan, seed, agent, policy, worlds[seed].spec, env_steps=0, seconds=clock.noted)


@lru_cache(maxsize=8)
def _programs(trainer: AgentTrainer) -> tuple[Wrapped, Wrapped]:
    """Start and chunk over stacked seeds, traced once for all groups of seeds that share a trainer."""
    start = jax.jit(jax.vmap(trainer.init), compiler_options=RUNS_ONCE)
    return start, jax.jit(jax.vmap(trainer.train_chunk), donate_argnums=0, compiler_options=RUNS_LONG)


class AgentJob(Job):
    """Training of the agents of some seeds, as the shared loop sees it."""

    row_fields = ROW_FIELDS

    def __init__(
        self,
        plan: AgentPlan,
        seeds: tuple[int, ...],
        pools: list[PartnerPool],
        spec: AgentSpec | None = None,
        runs: Mapping[int, GenerationRun] = {},
    ) -> None:
        if not isinstance(plan.learner, OnPolicyLearner):
            raise TypeError(f"learner must be an OnPolicyLearner or a FittedLearner, got {plan.learner_name}.")
        self.plan = plan
        self.runs = runs
        self.seeds = seeds
        spec = spec or plan.spec(num_partners=len(pools[0]))
        self.trainer = AgentTrainer(plan.environment, plan.settings, plan.learner, spec, plan.seat)
        schedule = self.trainer.schedule(pools[0])
        self.pools = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pools)
        self.title = f"{game_title(plan.environment_name, parameters_of(plan.environment))} {plan.agent_name}"
        self.num_chunks = schedule.num_chunks
        self.steps_per_chunk = schedule.steps_per_chunk
        self.updates_per_chunk = schedule.updates_per_chunk
        self.held_out = checked_heuristics(plan.environment)
        self.start, self.train_chunk = _programs(self.trainer)

    def init(self) -> AgentState:
        keys = [jax.random.fold_in(jax.random.key(seed), AGENT_STREAM) for seed in self.seeds]
        return self.start(jnp.stack(keys), self.pools)

    def advance(self, chunk: int, state: AgentState) -> tuple[AgentState, tuple[AgentMetrics, PyTree]]:
        state, metrics = self.train_chunk(state, self.pools)
        measured = self._held_out_returns(chunk, state) if self._measuring(chunk) else np.zeros((len(self.seeds), 0))
        return state, (metrics, measured)

    def _measuring(self, chunk: int) -> bool:
        """Whether this chunk is one of those, evenly spread and the last among them, after which we measure."""
        times, n = self.plan.settings.evaluations, self.num_chunks
        return bool(self.held_out) and times > 0 and (chunk + 1) * times // n > chunk * times // n

    def _held_out_returns(self, chunk: int, state: AgentState) -> np.ndarray:
        """Mean return of every agent with every held-out heuristic, [seeds, heuristics]."""
        agents = self.trainer.policy(state.networks)
        key = jax.random.fold_in(jax.random.key(AGENT_STREAM), chunk)
        measured = {}
        for names in group_alike(self.held_out):
            partners = stack([self.held_out[name] for name in names])
            measured |= dict(zip(names, self._mean_returns(key, agents, partners), strict=True))
        return np.stack([measured[name] for name in self.held_out], axis=1)

    def _mean_returns(self, key: PRNGKey, agents: Policy, partners: Policy) -> np.ndarray:
        """Mean returns by partner and agent."""
        environment, seat = self.plan.environment, self.plan.seat
        swapped = environment.num_seats == 2 and seat == 1
        sides = (partners, agents) if swapped else (agents, partners)
        settings, horizon = self.plan.settings, environment.horizon
        episodes = limit_episodes(settings.episodes_per_trial, horizon)
        played_in_all = len(self.seeds) * len(self.held_out) * settings.evaluations
        trials = limit_trials(HELD_OUT_TRIALS, episodes * horizon, pairs=played_in_all)
        played = cross_play(key, environment, *sides, trials=trials, episodes=episodes, ego=seat)
        means = np.asarray(played.returns).mean(axis=(2, 3))
        return means if swapped else means.T

    def row(self, chunk: int, report: tuple[AgentMetrics, PyTree]) -> dict[str, Any]:
        metrics, measured = report
        with np.errstate(invalid="ignore", divide="ignore"):
            by_partner = metrics.returns.sum(axis=1) / metrics.episodes.sum(axis=1)
            late = metrics.episodes.shape[1] // 2
            late_by_partner = metrics.returns[:, late:].sum(axis=1) / metrics.episodes[:, late:].sum(axis=1)
            curve = metrics.returns.sum(axis=0) / metrics.episodes.sum(axis=0)
        held_out = dict(zip(self.held_out, round_floats(measured), strict=True)) if len(measured) else None
        return {
            "chunk": chunk + 1,
            "update": (chunk + 1) * self.updates_per_chunk,
            "env_steps": (chunk + 1) * self.steps_per_chunk,
            "mean_return": round_floats(metrics.returns.sum() / max(1.0, metrics.episodes.sum())),
            "returns_by_partner": round_floats(by_partner),
            "returns_by_episode": round_floats(curve),
            "late_returns_by_partner": round_floats(late_by_partner),
            "held_out": held_out,
            "held_out_return": round_floats(measured.mean()) if len(measured) else None,
            **{name: round_floats(metrics.losses[name]) for name in SHARED_LOSSES if name in metrics.losses},
            "learner": {name: round_floats(x) for name, x in metrics.losses.items() if name not in SHARED_LOSSES},
        }

    def check_row(self, number: int, row: dict[str, Any]) -> None:
        super().check_row(number, row)
        optional = dict.fromkeys(SHARED_LOSSES, float) | {"held_out": dict}
        check_fields("The row", row, **{name: kind for name, kind in optional.items() if row.get(name) is not None})

    def trouble(self, report: tuple[AgentMetrics, PyTree]) -> str | None:
        metrics, _ = report
        rates = "learning_rate or critic_learning_rate"
        paid = bool(np.isfinite(metrics.returns).all())
        return trouble(paid, bool(metrics.finite), rates, self.plan.environment)

    def status(self, rows: list[dict[str, Any]]) -> str:
        """For example: return 7.31  held-out 6.90."""
        words = f"return {np.mean([row['mean_return'] for row in rows]):.2f}"
        if rows[0]["held_out_return"] is not None:
            self.last_held_out = f"  held-out {np.mean([row['held_out_return'] for row in rows]):.2f}"
        return words + getattr(self, "last_held_out", "")

    def finish(self, seed: int, directory: RunDirectory, state: AgentState, seconds: float) -> None:
        """Write the agent and its summary."""
        policy, env_steps = self.trainer.policy(state.networks), self.num_chunks * self.steps_per_chunk
        served = self._served(seed, directory)
        _finish(self.plan, seed, directory, policy, self.trainer.spec, served, env_steps=env_steps, seconds=seconds)

    def _served(self, seed: int, directory: RunDirectory) -> dict[str, Any]:
        """How well the agent serves its training partners, as its last row says; nothing if it never met them."""
        plan, rows = self.plan, directory.rows()
        if seed not in self.runs or not rows or not self.trainer.learner.meets_partners:
            return {}
        late = rows[-1]["late_returns_by_partner"]
        return served_partners(self.runs[seed], plan.partners, plan.seat, late)


def _finish(
    plan: AgentPlan,
    seed: int,
    directory: RunDirectory,
    policy: Policy,
    spec: AgentSpec,
    served: dict[str, Any] | None = None,
    *,
    env_steps: int,
    seconds: float,
) -> None:
    """Write the agent, then its summary, which marks it as done."""
    parameters = directory.config()["env_parameters"]
    about = {"env": plan.environment_name, "env_parameters": parameters, "seat": plan.seat, "seed": seed}
    about |= describe_seats(plan.environment)
    save_agent(directory.path / AGENT_FILE, policy, plan.learner, spec, about)
    summary = {
        "env": plan.environment_name,
        "game": game_title(plan.environment_name, parameters),
        "name": plan.agent_name,
        "learner": plan.learner_name,
        "preset": plan.preset,
        "seed": seed,
        "seat": plan.seat,
        "partners": list(plan.partners),
        "served": served or {},
        **describe_cost(directory, env_steps, seconds),
    }
    write_json(directory.summary_path, summary)
