"""Breakdown of an update's time. Each part is compiled on its own, and timed interleaved with the whole update.

Some programs contain others: collecting contains the environment, gradients contain the forward pass. Their parts are
differences. The compiler may fuse in the whole what is separate here, so the shares need not sum to 1.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from coverset.bench.settings import BenchSettings
from coverset.bench.timing import time_interleaved
from coverset.bench.workloads import make_update_workload
from coverset.pipeline.generate import make_plan
from coverset.teammates.batches import Batch, estimate, minibatch_order, take_part
from coverset.teammates.collect import Memories, Sides, Steps, collect
from coverset.teammates.method import Seen, as_pair_weights
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.ppo import grid_loss, improve
from coverset.teammates.trainer import Trainer, TrainState
from coverset.types import PairMatrix, PRNGKey, PyTree, Scalar

PARTS = (
    "dispatch",
    "environment",
    "acting",
    "valuing",
    "moving_data",
    "forward",
    "backward",
    "optimiser",
    "multipliers",
)


def measure_parts(environment: str, preset: str, settings: BenchSettings, clock: Callable[[], float]) -> dict[str, Any]:
    """A row for one environment and preset: seconds of an update of one seed, and the share of each part."""
    plan = make_plan(environment, preset=preset, **settings.with_chunk_steps(settings.generation))
    updates = plan.trainer.schedule.updates_per_chunk
    # Each piece runs as many times as the chunk has updates: one call of the fastest is too short to time.
    repeated = {name: _repeat(piece, updates) for name, piece in compile_pieces(plan.trainer).items()}
    work = {"chunk": make_update_workload(plan), **repeated}
    series = time_interleaved(work, repeats=settings.repeats, clock=clock)
    seconds = {name: median(turns) / updates for name, turns in series.items()}
    whole = seconds["chunk"]
    parts = {"dispatch": seconds["dispatch"] / updates, **_differences(seconds)}
    return {
        "env": environment,
        "preset": preset,
        "num_envs": plan.trainer.grid.num_envs,
        "updates_per_dispatch": updates,
        "update_seconds": whole,
        **{name: part / whole for name, part in parts.items()},
    }


def _differences(seconds: dict[str, float]) -> dict[str, float]:
    """Time of each part alone. Every separate piece includes a dispatch, of which a whole chunk needs only one."""
    return {
        "environment": seconds["environment"] - seconds["dispatch"],
        "acting": seconds["collect"] - seconds["environment"],
        "valuing": seconds["estimate"] - seconds["dispatch"],
        "moving_data": seconds["batch"] - seconds["estimate"],
        "forward": seconds["losses"] - seconds["dispatch"],
        "backward": seconds["gradients"] - seconds["losses"],
        "optimiser": seconds["improve"] - seconds["gradients"],
        "multipliers": seconds["multipliers"] - seconds["dispatch"],
    }


def _repeat(piece: Callable[[], PyTree], times: int) -> Callable[[], PyTree]:
    return lambda: [piece() for _ in range(times)][-1]


def compile_pieces(trainer: Trainer) -> dict[str, partial[PyTree]]:
    """Compiled programs for the pieces of `Trainer.update`, with the first rollout of a run as their arguments."""
    grid, s, key = trainer.grid, trainer.settings, jax.random.key(1)
    state: TrainState = jax.jit(trainer.init)(jax.random.key(0))
    weights, pace = as_pair_weights(trainer.method.weights(state.method)), trainer.pace(state)

    def play(state: TrainState, act: Callable[..., tuple[Sides, Memories]]) -> PyTree:
        playing, length = state.playing, s.rollout_length
        return collect(key, trainer.environment, grid, state.optimised.networks, playing, length=length, act=act)

    def weigh(state: TrainState, steps: Steps) -> tuple[PyTree, PairMatrix]:
        values, _ = trainer.team_values(key, state.optimised.networks.critic, steps)
        nobody = jnp.zeros_like(state.stuck, bool)
        seen = Seen(trainer.world, state.update, jnp.float32(0), values, steps, state.optimised.networks, nobody)
        return trainer.method.update(state.method, seen), values

    steps: Steps = jax.jit(lambda state: play(state, trainer.arithmetic.act))(state)[0]
    batch: Batch = jax.jit(trainer.batch)(state, steps, weights)[0]
    programs: dict[str, tuple[Callable[..., PyTree], tuple[PyTree, ...]]] = {
        "dispatch": (lambda state: state.update + 1, (state,)),
        "environment": (lambda state: play(state, _uniform_logits(trainer)), (state,)),
        "collect": (lambda state: play(state, trainer.arithmetic.act), (state,)),
        "estimate": (
            lambda state, steps: estimate(grid, state.optimised.networks.critic, steps, (), s),
            (state, steps),
        ),
        "batch": (trainer.batch, (state, steps, weights)),
        "losses": (lambda state, batch: _over_epochs(trainer, key, state, batch, _losses), (state, batch)),
        "gradients": (lambda state, batch: _over_epochs(trainer, key, state, batch, _gradients), (state, batch)),
        "improve": (lambda state, batch: improve(key, grid, state.optimised, batch, weights, pace, s), (state, batch)),
        "multipliers": (weigh, (state, steps)),
    }
    return {name: partial(jax.jit(program), *arguments) for name, (program, arguments) in programs.items()}


def _uniform_logits(trainer: Trainer) -> Callable[..., tuple[Sides, Memories]]:
    """Uniform policies, which cost no arithmetic."""

    def act(networks: Networks, grid: PairGrid, observations: Sides, memories: Memories) -> tuple[Sides, Memories]:
        first, second = (
            jnp.zeros((*observations[0].shape[:2], actions)) for actions in trainer.environment.num_actions
        )
        return (first, second), memories

    return act


Step = Callable[[Callable[[Networks], Scalar], Networks], Networks]


def _losses(loss: Callable[[Networks], Scalar], networks: Networks) -> Networks:
    nothing = 0.0 * loss(networks)
    return jax.tree.map(lambda x: x + nothing, networks)


def _gradients(loss: Callable[[Networks], Scalar], networks: Networks) -> Networks:
    return jax.tree.map(lambda x, slope: x + 0.0 * slope, networks, jax.grad(loss)(networks))


def _over_epochs(trainer: Trainer, key: PRNGKey, state: TrainState, batch: Batch, step: Step) -> Networks:
    """All epochs over a rollout with constant networks, written so that the compiler cannot tell they are constant."""
    s = trainer.settings
    bonuses = (jnp.full(trainer.grid.rows, s.entropy), jnp.full(trainer.grid.columns, s.entropy))

    def optimise(networks: Networks, times: Array) -> tuple[Networks, None]:
        part = take_part(batch, times, s, recurrent=False)
        return step(lambda networks: grid_loss(networks, trainer.grid, part, bonuses, s.clip)[0], networks), None

    return jax.lax.scan(optimise, state.optimised.networks, minibatch_order(key, s.rollout_length, s))[0]
