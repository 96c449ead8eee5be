"""Many games of one shape trained side by side in one compiled program, each as one run of a method.

The games are trees of arrays (`random_games`), stacked on a leading axis that `vmap` takes apart, as it does with the
seeds of a run.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from coverset.envs.base import Environment
from coverset.pipeline.loop import RUNS_LONG, unstack_state
from coverset.policies.actor import ActorPolicy
from coverset.settings import GenerateSettings
from coverset.teammates.method import Method
from coverset.teammates.trainer import Trainer, TrainState


class TrainedGame(NamedTuple):
    """One run in one game."""

    best_responses: ActorPolicy
    margin: float
    env_steps: int


def train_batch(
    games: Sequence[Environment], seeds: Sequence[int], method: Method, settings: GenerateSettings
) -> list[TrainedGame]:
    """Train a method in every game, each with its own seed, until it ends or its steps are used up.

    Args:
      games: trees of arrays of one shape.
      seeds: one for each game.
      method: with its own settings.
      settings: shared ones.
    """
    trainers = [Trainer(game, method, settings) for game in games]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *games)
    start = jax.jit(jax.vmap(lambda game, key: Trainer(game, method, settings).init(key)))
    advance = jax.jit(
        jax.vmap(lambda game, state: Trainer(game, method, settings).train_chunk(state)[0]), compiler_options=RUNS_LONG
    )
    states = start(stacked, jnp.stack([jax.random.key(seed) for seed in seeds]))
    for _ in range(trainers[0].schedule.num_chunks):
        states = _next_stages(trainers, advance(stacked, states))
        if (np.asarray(jax.vmap(trainers[0].progress)(states)) >= 1.0).all():
            break
    return [_read(*each) for each in zip(trainers, unstack_state(states, len(games)), strict=True)]


def _next_stages(trainers: Sequence[Trainer], states: TrainState) -> TrainState:
    """Begin the next stage of the games whose method has finished one."""
    if not trainers[0].has_stages:
        return states
    stage = jax.vmap(trainers[0].method.stage)(states.method)
    if stage is None or not np.asarray(stage.is_over & ~stage.is_last).any():
        return states
    apart = unstack_state(states, len(trainers))
    following = [trainer.next_stage(state) for trainer, state in zip(trainers, apart, strict=True)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *following)


def _read(trainer: Trainer, state: TrainState) -> TrainedGame:
    steps = int(state.update) * trainer.schedule.steps_per_update
    return TrainedGame(trainer.population(state).best_responses, trainer.margin(state), steps)


def read_mixes(policies: ActorPolicy) -> Float[np.ndarray, "k a"]:
    """Action probabilities of policies that observe the constant 1."""
    from coverset.types import Percept

    seen = Percept(jnp.ones(1), jnp.float32(0.0), jnp.bool_(True))
    return np.asarray(jax.vmap(lambda policy: policy.action_probabilities(seen, policy.initial_memory()))(policies))
