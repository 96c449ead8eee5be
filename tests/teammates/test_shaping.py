"""Shaped rewards: added to what is learned from, with a weight that falls to 0, and never to returns."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.learning.optimiser import shaping_weight
from coverset.settings import GenerateSettings
from coverset.teammates.collect import collect
from coverset.teammates.method import as_pair_weights
from coverset.teammates.methods.independent import Independent
from coverset.teammates.trainer import Trainer


@dataclass(frozen=True)
class ShapedGame(MatrixGame):
    """Pays by the table, and shapes the first action of seat 0."""

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(shaping=100.0 * (actions[0] == 0).astype(jnp.float32))


def make_trainer(share: float, updates: int = 4) -> Trainer:
    settings = GenerateSettings(
        population_size=2,
        total_steps=updates * 2 * 2 * 4 * 2,
        chunk_steps=2 * 2 * 4 * 2,
        hidden_sizes=(4,),
        envs_per_pair=4,
        rollout_length=2,
        epochs=1,
        discount=0.0,
        gae_lambda=0.0,
        shaping_share=share,
    )
    return Trainer(ShapedGame(), Independent(), settings)


def test_the_weight_falls_linearly_to_zero() -> None:
    weights = [float(shaping_weight(0.5, jnp.float32(progress))) for progress in (0.0, 0.25, 0.5, 1.0)]
    assert weights == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(("share", "update", "weight"), [(0.5, 0, 1.0), (0.5, 1, 0.5), (0.5, 2, 0.0), (1.0, 3, 0.25)])
def test_targets_hold_the_shaped_reward_and_returns_do_not(share: float, update: int, weight: float) -> None:
    """Without a future, the target of the critic is what is learned from: r + w F."""
    trainer = make_trainer(share)
    assert trainer.schedule.num_updates == 4
    state = trainer.init(jax.random.key(0))._replace(update=jnp.int32(update))
    steps, tally, _ = collect(
        jax.random.key(1), trainer.environment, trainer.grid, state.optimised.networks, state.playing, length=2
    )
    batch, *_ = trainer.batch(state, steps, as_pair_weights(trainer.method.weights(state.method)))
    shaped = 100.0 * (np.asarray(steps.actions)[..., 0] == 0)
    assert 0 < shaped.mean() < 100
    target = np.swapaxes(batch.critic.target, 0, 1)
    np.testing.assert_allclose(target, steps.reward + weight * shaped, atol=1e-3)
    assert float(tally.returns.sum()) == pytest.approx(float(steps.reward.sum())), "of the table alone"


def test_a_share_of_zero_ignores_shaping() -> None:
    """The same run as in the game without shaping, to the last bit."""
    shaped = make_trainer(0.0)
    plain = Trainer(MatrixGame(), Independent(), shaped.settings)
    one, other = (jax.jit(t.update)(t.init(jax.random.key(0)))[0] for t in (shaped, plain))
    jax.tree.map(np.testing.assert_array_equal, one.optimised, other.optimised)
