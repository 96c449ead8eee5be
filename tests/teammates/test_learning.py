"""What networks are for: memory solves a game that needs it, convolutions learn from images."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from coverset import Environment
from coverset.envs.conformance import check_environment
from coverset.evaluation.cross_play import cross_play
from coverset.pipeline.loop import RUNS_ONCE
from coverset.settings import GenerateSettings
from coverset.teammates.methods.independent import Independent
from coverset.teammates.trainer import Trainer, TrainState
from recall import Recall
from rendezvous import Rendezvous

SMALL = GenerateSettings(
    population_size=2,
    total_steps=40_000,
    chunk_steps=1_000_000,
    hidden_sizes=(16,),
    memory_size=16,
    envs_per_pair=16,
    rollout_length=9,
    learning_rate=0.01,
    critic_learning_rate=0.01,
    entropy=0.05,
    entropy_final=0.0,
    discount=1.0,
)


def train(environment: Environment, **changes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean return of every pair before and after training."""
    trainer = Trainer(environment, Independent(), replace(SMALL, **changes))
    assert trainer.schedule.num_chunks == 1
    start = jax.jit(trainer.init, compiler_options=RUNS_ONCE)(jax.random.key(0))
    state, _ = jax.jit(trainer.train_chunk, compiler_options=RUNS_ONCE)(start)

    def measure(state: TrainState) -> np.ndarray:
        played = cross_play(jax.random.key(1), environment, *trainer.population(state), trials=256)
        return np.asarray(played.returns).mean(axis=(2, 3))

    return measure(start), measure(state)


@pytest.mark.parametrize("environment", [Recall(), Recall(symbols=3, horizon=2), Rendezvous()], ids=str)
def test_the_games_keep_the_contract(environment: Environment) -> None:
    check_environment(environment, quick=True)


def test_a_convention_that_needs_memory_is_learned_by_recurrent_teammates() -> None:
    _, learned = train(Recall(), network="gru", critic_network="gru")
    assert np.diagonal(learned).min() > 0.9


def test_a_convention_that_needs_memory_is_not_learned_by_dense_teammates() -> None:
    """Both symbols are equally likely: without memory no pair earns more than half, and that much is learned."""
    _, learned = train(Recall())
    assert learned.min() > 0.35
    assert learned.max() < 0.65


def test_convolutional_teammates_learn_from_images() -> None:
    """Players that walk at random meet on the goal in few of the games."""
    before, learned = train(
        Rendezvous(), network="conv", critic_network="conv", discount=0.9, rollout_length=12, learning_rate=0.005,
        critic_learning_rate=0.005, total_steps=60_000,
    )  # fmt: skip
    assert before.max() < 0.4
    assert np.diagonal(learned).min() > 0.8
