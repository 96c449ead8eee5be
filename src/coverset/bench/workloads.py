"""Training as a timeable workload: each call trains one chunk and keeps the state for the next."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from coverset.adhoc.pool import PartnerPool
from coverset.pipeline.generate import GenerationJob, Plan
from coverset.pipeline.train import AgentJob, AgentPlan
from coverset.policies.actor import ActorPolicy
from coverset.policies.networks.dense import MLP
from coverset.presets import resolve_training
from coverset.teammates.trainer import ON_THE_GRID, Arithmetic
from coverset.types import PyTree


class Workload:
    """Training in progress. Each call trains one more chunk, in one dispatch."""

    def __init__(self, state: PyTree, advance: Callable[[PyTree], tuple[PyTree, PyTree]], steps: int) -> None:
        self.state = state
        self.advance = advance
        self.steps = steps
        """Environment steps of a chunk, over all seeds."""

    def __call__(self) -> PyTree:
        self.state, report = self.advance(self.state)
        return self.state, report


def make_generation_workload(plan: Plan) -> Workload:
    """Teammate generation as the command runs it, with `parallel_seeds` seeds in parallel."""
    seeds = tuple(range(plan.settings.parallel_seeds))
    job = GenerationJob(plan, seeds)
    return Workload(job.init(), job.train_chunk, job.steps_per_chunk * len(seeds))


def make_training_workload(plan: Plan, settings: dict[str, Any]) -> tuple[Workload, AgentPlan, Sequence[int]]:
    """Training of RL^2 agents with K untrained teammates; also returns its plan and a teammate's layer widths."""
    chosen, learner = resolve_training(plan.environment_name, "rl2", plan.preset, **settings)
    agent = AgentPlan(plan.environment_name, plan.environment, learner, plan.preset, chosen)
    seeds = tuple(range(chosen.parallel_seeds))
    pools = [_untrained_teammates(plan, seed) for seed in seeds]
    job = AgentJob(agent, seeds, pools)
    workload = Workload(job.init(), lambda state: job.train_chunk(state, job.pools), job.steps_per_chunk * len(seeds))
    teammate = pools[0].kinds[0]
    assert isinstance(teammate, ActorPolicy)
    assert isinstance(teammate.network, MLP)
    return workload, agent, teammate.network.sizes


def _untrained_teammates(plan: Plan, seed: int) -> PartnerPool:
    trainer = plan.trainer
    return PartnerPool((trainer.population(jax.jit(trainer.init)(jax.random.key(seed))).teammates,))


def make_update_workload(plan: Plan, arithmetic: Arithmetic = ON_THE_GRID) -> Workload:
    """Teammate generation of one seed, on the pair grid or with other arithmetic."""
    trainer = replace(plan.trainer, arithmetic=arithmetic)
    state = jax.jit(trainer.init)(jnp.asarray(jax.random.key(0)))
    return Workload(state, jax.jit(trainer.train_chunk, donate_argnums=0), trainer.schedule.steps_per_chunk)
