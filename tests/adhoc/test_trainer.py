"""Training over trials: alignment of memory with trials, what an update learns from, and that it learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.trainer import AgentTrainer
from coverset.envs.extensions import heuristics
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.policies.stacked import stack
from coverset.settings import TrainSettings

SETTINGS = TrainSettings(
    total_steps=2_000, hidden_sizes=(8,), memory_size=6, envs_per_partner=4, rollout_length=7, episodes_per_trial=3
)


def pool(environment, *names):
    known = heuristics(environment)
    return PartnerPool((stack([known[name] for name in names]),))


@pytest.fixture(scope="module")
def collected():
    env = MatrixGame()
    trainer = AgentTrainer(env, SETTINGS, recurrent=True)
    partners = pool(env, "H1", "H3")
    state = trainer.init(jax.random.key(0), partners)
    steps, trials, tally = eqx.filter_jit(trainer.collect)(jax.random.key(1), state, partners)
    return trainer, state, steps, trials, tally


def test_a_trial_is_three_episodes_and_the_next_step_is_fresh(collected):
    _, state, steps, trials, _ = collected
    place = np.asarray(state.trials.episode)
    for t in range(SETTINGS.rollout_length):
        over = place == SETTINGS.episodes_per_trial - 1
        np.testing.assert_array_equal(steps.trial_over[t], over)
        following = steps.fresh[t + 1] if t + 1 < SETTINGS.rollout_length else trials.fresh
        np.testing.assert_array_equal(following, over)
        place = np.where(over, 0, place + 1)


def test_percepts_of_a_fresh_step_hold_nothing_of_the_trial_before(collected):
    _, _, steps, _, _ = collected
    fresh = np.asarray(steps.fresh)
    read = np.asarray(steps.features)  # observation, last action one-hot, reward, start flag
    assert fresh.any()
    assert not fresh.all()
    np.testing.assert_array_equal(read[fresh][:, 1:5], 0.0)
    # Within a trial the last action and reward are those of the step before.
    t, p, n = next((t, p, n) for t, p, n in np.argwhere(~fresh) if t > 0)
    action, reward = int(steps.actions[t - 1, p, n]), float(steps.reward[t - 1, p, n])
    np.testing.assert_array_equal(read[t, p, n, 1:4], np.eye(3)[action])
    assert read[t, p, n, 4] == reward


def test_memory_carried_over_rollouts_gives_the_same_log_probabilities(collected):
    """The loss starts from the memory before the rollout: at the first epoch every ratio must be one."""
    trainer, state, steps, _, _ = collected
    flat = jax.tree.map(lambda x: x.reshape(x.shape[0], -1, *x.shape[3:]), (steps.features, steps.fresh, steps.actions))
    memory = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), state.trials.actor_memory)
    logits = state.networks.actor.unroll(flat[0], memory, flat[1])
    log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), flat[2][..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(log_p, steps.log_p.reshape(log_p.shape), rtol=1e-4, atol=1e-5)
    assert trainer.num_actions == 3


def test_partners_act_in_their_own_rows(collected):
    _, _, steps, _, _ = collected
    payoffs = np.asarray(MatrixGame().payoffs)
    actions = np.asarray(steps.actions)
    np.testing.assert_array_equal(steps.reward[:, 0], payoffs[actions[:, 0], 0])
    np.testing.assert_array_equal(steps.reward[:, 1], payoffs[actions[:, 1], 2])


def test_tally_counts_every_episode_by_its_place(collected):
    _, state, steps, _, (episodes, returns) = collected
    assert episodes.sum() == steps.reward.size
    np.testing.assert_allclose(returns.sum(), steps.reward.sum(), rtol=1e-5)
    np.testing.assert_array_equal(episodes[0], episodes[1])
    assert state.trials.episode.max() == 2


def test_pool_of_two_kinds_and_seat_one():
    env = Reaching(size=3, horizon=4)
    known = heuristics(env)
    mixed = PartnerPool((stack([known["H8"], known["H9"]]), stack([known["H10"]])))
    trainer = AgentTrainer(env, SETTINGS, recurrent=True, seat=1)
    state = trainer.init(jax.random.key(0), mixed)
    steps, trials, _ = eqx.filter_jit(trainer.collect)(jax.random.key(1), state, mixed)
    assert steps.actions.shape == (7, 3, 4)
    assert len(mixed) == 3
    # After two or more steps of an episode the partners of seat 0 stand on A, B and C; the agent sits in seat 1.
    standing = np.asarray(trials.env_states.positions)[:, :, 0]
    late = np.asarray(trials.env_states.time) >= 2
    corners = np.asarray(env.corners())[:3, None]
    assert late.any()
    assert np.all((standing == corners).all(axis=-1)[late])


def test_memory_pays_and_its_absence_shows():
    """With partners that always play one action, the agent with memory improves within a trial; the other cannot."""
    env = MatrixGame()
    partners = pool(env, "H1", "H2", "H3")
    settings = TrainSettings(
        total_steps=120_000, hidden_sizes=(16,), memory_size=16, reward_scale=0.1, entropy=0.02, entropy_final=0.002
    )
    curves = {}
    for recurrent in (True, False):
        trainer = AgentTrainer(env, settings, recurrent=recurrent)
        advance = eqx.filter_jit(trainer.train_chunk)
        state = eqx.filter_jit(trainer.init)(jax.random.key(0), partners)
        for _ in range(settings.num_chunks(3)):
            state, metrics = advance(state, partners)
        curves[recurrent] = np.asarray(metrics.returns.sum(axis=0) / metrics.episodes.sum(axis=0))
    assert curves[True][5:].mean() > curves[True][0] + 1.0
    assert abs(curves[False][5:].mean() - curves[False][0]) < 0.5
    assert curves[True][5:].mean() > curves[False][5:].mean() + 1.0
