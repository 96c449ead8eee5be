"""Ad hoc agent training as a whole: from a directory of generated teammates to trained agents, resumable.

The numerical part is `adhoc.trainer`; this file finds the partners, and owns the files and the order of things. The
agent trained with the teammates of `DIR/seed-N` lives in `DIR/seed-N/LEARNER`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Wrapped

from coverset.adapters.logs import find_logs
from coverset.adhoc.plastic import make_plastic
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.saved import save_agent
from coverset.adhoc.trainer import AgentMetrics, AgentState, AgentTrainer
from coverset.checks import one_of
from coverset.config import TrainSettings
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.evaluation.cross_play import affordable_episodes, affordable_trials, cross_play
from coverset.looping import (
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
from coverset.partners import GenerationRun, find_partners, read_run, seed_directories
from coverset.policies.base import Policy
from coverset.policies.stacked import group_alike, stack
from coverset.presets import train_settings
from coverset.runs import AgentDirectory, RunDirectory, threads, versions
from coverset.storage import rounded, write_json
from coverset.trusting import signed
from coverset.types import PRNGKey, PyTree

LEARNERS = ("rl2", "feedforward", "plastic")
AGENT_STREAM = 2
"""Folded into the seed's key, so that training an agent draws what generating its teammates never drew."""
HELD_OUT_TRIALS = 16


@dataclass(frozen=True)
class AgentPlan:
    """One agent to train: everything but the partners themselves."""

    environment_name: str
    environment: Environment
    learner: str
    preset: str
    settings: TrainSettings
    seat: int
    partners: tuple[str, ...]

    def config(self, seed: int, generated: dict[str, Any]) -> dict[str, Any]:
        """The content of the agent's `config.json`, but for the seeds that train in one program with this one."""
        return signed(
            {
                "command": "train",
                "env": self.environment_name,
                "env_parameters": generated["env_parameters"],
                "env_version": self.environment.version,
                "method": generated["method"],
                "learner": self.learner,
                "preset": self.preset,
                "seed": seed,
                "seat": self.seat,
                "partners": list(self.partners),
                "settings": asdict(self.settings),
                "versions": {**versions(), "threads": threads()},
            }
        )


def train(
    directory: str | Path,
    *,
    learner: str = "rl2",
    preset: str = "fast",
    seeds: Sequence[int] | None = None,
    partners: Sequence[str] = ("teammates",),
    seat: int = 0,
    resume: bool = False,
    reporter: Reporter | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    logs: Sequence[str] = (),
    **overrides: Any,
) -> list[dict[str, Any]]:
    """Train an ad hoc agent with the teammates of every seed of a generation run.

    Args:
      directory: what `generate` has written.
      learner: `rl2`, `feedforward` (no memory), or `plastic` (a library of best responses and a belief; no training).
      preset: `fast` or `paper`.
      seeds: which seeds of the run; all of them if not given.
      partners: the pool: `teammates`, `best-responses`, `other-seeds`, `heuristics`, a heuristic's name, paths of runs
        and agents, or `module:function`; see `partners.find_partner`.
      seat: where the agent sits; partners take the other seat.
      resume: go on with agents whose training was stopped or killed, and skip those that are done.
      reporter: how to follow the training.
      checkpoint_seconds: time between two checkpoints.
      logs: further logs beside `metrics.jsonl`: `tensorboard`, `wandb`; no influence on the result either.
      **overrides: fields of `TrainSettings` that replace the preset's.
    Returns:
      The content of the agents' `summary.json`, in the order of the seeds.
    """
    one_of("learner", learner, LEARNERS)
    loggers = find_logs(logs)
    if seat not in (0, 1):
        raise ValueError(f"seat must be 0 or 1, got {seat}.")
    runs = {seed: read_run(path) for seed, path in seed_directories(Path(directory), seeds).items()}
    first = next(iter(runs.values()))
    settings = train_settings(first.config["env"], preset, **overrides)
    plan = AgentPlan(first.config["env"], first.environment, learner, preset, settings, seat, tuple(partners))
    agents: dict[int, RunDirectory] = {seed: AgentDirectory(run.path / learner) for seed, run in runs.items()}
    pools = {seed: find_partners(run, tuple(partners), seat=1 - seat) for seed, run in runs.items()}
    _check_alike(runs, pools)
    reporter = reporter or Reporter()
    together = 1 if learner == "plastic" else settings.seeds_together
    claim(agents, lambda seed: plan.config(seed, runs[seed].config), reporter, resume=resume, together=together)
    if learner == "plastic":
        _make_libraries(plan, runs, agents, reporter)
        return [agents[seed].summary() or {} for seed in runs]
    train_seeds(
        lambda group: AgentJob(plan, group, [pools[seed] for seed in group]),
        agents,
        reporter,
        together=together,
        checkpoint_seconds=checkpoint_seconds,
        logs=loggers,
    )
    return [agents[seed].summary() or {} for seed in runs]


def _check_alike(runs: dict[int, GenerationRun], pools: dict[int, PartnerPool]) -> None:
    """Raise unless all seeds are of one game, with partners of one shape: their agents train in one program."""
    first, *others = runs
    for seed in others:
        for name in ("env", "env_parameters", "env_version"):
            one, other = (runs[n].config.get(name) for n in (first, seed))
            if one != other:
                raise ValueError(
                    f"All seeds must be of one game, but {name} is {one} in seed {first}, {other} in {seed}."
                )
        if jax.tree.map(jnp.shape, pools[seed]) != jax.tree.map(jnp.shape, pools[first]):
            raise ValueError(
                f"Partners of all seeds must be of one number and size, but those of seeds {first} and {seed} differ."
            )


def _make_libraries(
    plan: AgentPlan, runs: dict[int, GenerationRun], agents: dict[int, RunDirectory], reporter: Reporter
) -> None:
    """PLASTIC-Policy needs no training."""
    for seed, agent in agents.items():
        if agent.is_done():
            continue
        if reporter.should_stop():
            raise Stopped(f"Stopped before seed {seed}; the run can be resumed.")
        with agent.held():
            key = jax.random.fold_in(jax.random.key(seed), AGENT_STREAM)
            policy = make_plastic(key, plan.environment, runs[seed].population)
            _finish(plan, seed, agent, policy, env_steps=0, seconds=0.0)


@lru_cache(maxsize=8)
def _programs(trainer: AgentTrainer) -> tuple[Wrapped, Wrapped]:
    """Start and chunk over stacked seeds, traced once for all groups of seeds that share a trainer."""
    start = jax.jit(jax.vmap(trainer.init), compiler_options=RUNS_ONCE)
    return start, jax.jit(jax.vmap(trainer.train_chunk), donate_argnums=0, compiler_options=RUNS_LONG)


class AgentJob(Job):
    """Training of the agents of some seeds, as the shared loop sees it."""

    def __init__(self, plan: AgentPlan, seeds: tuple[int, ...], pools: list[PartnerPool]) -> None:
        s, size = plan.settings, len(pools[0])
        self.plan = plan
        self.seeds = seeds
        self.trainer = AgentTrainer(plan.environment, s, plan.learner == "rl2", plan.seat)
        self.pools = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pools)
        self.title = f"{plan.environment_name} {plan.learner}"
        self.num_chunks = s.num_chunks(size)
        self.steps_per_chunk = s.steps_per_chunk(size)
        self.updates_per_chunk = s.updates_per_chunk(size)
        self.held_out = heuristics(plan.environment)
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
        seats = (agents, partners) if self.plan.seat == 0 else (partners, agents)
        settings, horizon = self.plan.settings, self.plan.environment.horizon
        episodes = affordable_episodes(settings.episodes_per_trial, horizon)
        played_in_all = len(self.seeds) * len(self.held_out) * settings.evaluations
        trials = affordable_trials(HELD_OUT_TRIALS, episodes * horizon, pairs=played_in_all)
        played = cross_play(key, self.plan.environment, *seats, trials=trials, episodes=episodes)
        means = np.asarray(played.returns).mean(axis=(2, 3))
        return means.T if self.plan.seat == 0 else means

    def row(self, chunk: int, report: tuple[AgentMetrics, PyTree]) -> dict[str, Any]:
        metrics, measured = report
        with np.errstate(invalid="ignore", divide="ignore"):
            by_partner = metrics.returns.sum(axis=1) / metrics.episodes.sum(axis=1)
            curve = metrics.returns.sum(axis=0) / metrics.episodes.sum(axis=0)
        held_out = dict(zip(self.held_out, rounded(measured), strict=True)) if len(measured) else None
        return {
            "chunk": chunk + 1,
            "update": (chunk + 1) * self.updates_per_chunk,
            "env_steps": (chunk + 1) * self.steps_per_chunk,
            "mean_return": rounded(metrics.returns.sum() / max(1.0, metrics.episodes.sum())),
            "returns_by_partner": rounded(by_partner),
            "returns_by_episode": rounded(curve),
            "held_out": held_out,
            "held_out_return": rounded(measured.mean()) if len(measured) else None,
            "entropy": rounded(metrics.entropy),
            "critic_loss": rounded(metrics.critic_loss),
        }

    def trouble(self, report: tuple[AgentMetrics, PyTree]) -> str | None:
        metrics, _ = report
        rates = "learning_rate or critic_learning_rate"
        return trouble(np.asarray(metrics.returns), bool(metrics.finite), rates, self.plan.environment)

    def status(self, rows: list[dict[str, Any]]) -> str:
        """For example: return 7.31  held-out 6.90."""
        words = f"return {np.mean([row['mean_return'] for row in rows]):.2f}"
        if rows[0]["held_out_return"] is not None:
            self.last_held_out = f"  held-out {np.mean([row['held_out_return'] for row in rows]):.2f}"
        return words + getattr(self, "last_held_out", "")

    def finish(self, seed: int, directory: RunDirectory, state: AgentState, seconds: float) -> None:
        """Write the agent and its summary."""
        policy = self.trainer.policy(state.networks)
        _finish(self.plan, seed, directory, policy, env_steps=self.num_chunks * self.steps_per_chunk, seconds=seconds)


def _finish(
    plan: AgentPlan, seed: int, directory: RunDirectory, policy: Policy, *, env_steps: int, seconds: float
) -> None:
    """Write the agent, then its summary, which marks it as done."""
    policy = jax.tree.map(lambda x: np.asarray(x) if eqx.is_array(x) else x, policy)
    made_for = {"env": plan.environment_name, "env_parameters": _parameters(directory)}
    about = signed({"learner": plan.learner, **made_for, "seat": plan.seat, "seed": seed})
    save_agent(directory.path / "agent.safetensors", policy, about)  # pyright: ignore
    summary = {
        "env": plan.environment_name,
        "learner": plan.learner,
        "preset": plan.preset,
        "seed": seed,
        "seat": plan.seat,
        "partners": list(plan.partners),
        "env_steps": env_steps,
        "train_seconds": round(seconds, 3),
        "steps_per_second": round(env_steps / seconds) if seconds else None,
    }
    write_json(directory.summary_path, summary)


def _parameters(directory: RunDirectory) -> dict[str, Any]:
    return directory.config()["env_parameters"]
