"""Training over trials: alignment of memory with trials, what an update learns from, and that it learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.learners.feedforward import Feedforward
from coverset.adhoc.learners.rl2 import RL2
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.trainer import AgentTrainer, training_schedule
from coverset.envs.extensions import heuristics
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.policies.stacked import stack
from coverset.settings import TrainSettings

SETTINGS = TrainSettings(
    total_steps=2_000, hidden_sizes=(8,), memory_size=6, envs_per_partner=4, rollout_length=7, episodes_per_trial=3
)


class Headed(RL2):
    """One more parameter, which is drawn towards zero."""

    def init(self, key, spec):
        return super().init(key, spec)._replace(heads=jnp.float32(1.0))

    def losses(self, networks, batch, pace, spec):
        loss, logged = super().losses(networks, batch, pace, spec)
        distance = jnp.square(networks.heads)
        return loss + distance, logged | {"distance": distance}


def pool(environment, *names):
    known = heuristics(environment)
    return PartnerPool((stack([known[name] for name in names]),))


@pytest.fixture(scope="module")
def collected():
    env = MatrixGame()
    trainer = AgentTrainer.create(env, SETTINGS, RL2())
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
    read = np.asarray(steps.inputs)  # observation, last action one-hot, reward, start flag
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
    trainer, state, steps, trials, _ = collected
    batch = trainer.make_batch(state, steps, trials).flatten()
    assert batch.fresh[1:].any()
    logits, values = trainer.learner.unroll(state.networks, batch)
    log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), batch.actions[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(log_p, batch.log_p, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values, steps.values.reshape(values.shape), rtol=1e-4, atol=1e-5)


def test_shaped_rewards_are_learned_from_with_a_weight_that_falls(collected):
    trainer, _, steps, _, _ = collected
    assert steps.shaping is None
    assert trainer.add_shaping(steps, jnp.float32(0.0)) is steps, "a game without shaping"
    shaped = steps._replace(shaping=jnp.full_like(steps.reward, 8.0))
    for progress, added in ((0.0, 8.0), (0.25, 4.0), (0.5, 0.0), (1.0, 0.0)):
        found = trainer.add_shaping(shaped, jnp.float32(progress)).reward
        np.testing.assert_allclose(found, steps.reward + added)


def test_partners_act_in_their_own_rows(collected):
    _, _, steps, _, _ = collected
    payoffs = np.asarray(MatrixGame().payoffs)
    actions = np.asarray(steps.actions)
    np.testing.assert_array_equal(steps.reward[:, 0], payoffs[actions[:, 0], 0])
    np.testing.assert_array_equal(steps.reward[:, 1], payoffs[actions[:, 1], 2])


def test_batches_hold_what_the_partner_saw_and_did_at_the_same_step(collected):
    trainer, state, steps, trials, _ = collected
    payoffs = np.asarray(MatrixGame().payoffs)
    batch = trainer.make_batch(state, steps, trials)
    paid = payoffs[np.asarray(batch.actions), np.asarray(batch.partner_actions)]
    np.testing.assert_array_equal(paid, steps.reward)
    np.testing.assert_array_equal(batch.partner_actions[:, 0], 0)
    np.testing.assert_array_equal(batch.partner_actions[:, 1], 2)
    assert batch.flatten().partner_observations.shape == (7, 8, 1)


def test_partners_observations_are_those_of_their_own_seat():
    env = Reaching(size=3, horizon=4)
    partners = pool(env, "H8", "H10")
    trainer = AgentTrainer.create(env, SETTINGS, RL2())
    state = trainer.init(jax.random.key(0), partners)
    steps, trials, _ = eqx.filter_jit(trainer.collect)(jax.random.key(1), state, partners)
    seen = jax.vmap(jax.vmap(env.observe))(state.trials.env_states)
    np.testing.assert_array_equal(steps.partner_observations[0], seen[:, :, 1])
    np.testing.assert_array_equal(steps.inputs[0][..., : env.observation_size], seen[:, :, 0])
    np.testing.assert_array_equal(steps.first[1:], jnp.concatenate([steps.first, trials.first[None]])[1:-1])


def test_extra_heads_learn_and_are_logged():
    env, learner = MatrixGame(), Headed()
    trainer = AgentTrainer.create(env, SETTINGS, learner)
    partners = pool(env, "H1", "H3")
    state = trainer.init(jax.random.key(0), partners)
    after, metrics = eqx.filter_jit(trainer.update)(state, partners)
    assert set(metrics.losses) == {"entropy", "critic_loss", "imitation_loss", "distance"}
    assert bool(metrics.finite)
    assert after.networks.heads < state.networks.heads


def test_tally_counts_every_episode_by_its_place(collected):
    _, state, steps, _, (episodes, returns, _) = collected
    assert episodes.sum() == steps.reward.size
    np.testing.assert_allclose(returns.sum(), steps.reward.sum(), rtol=1e-5)
    np.testing.assert_array_equal(episodes[0], episodes[1])
    assert state.trials.episode.max() == 2


def test_pool_of_two_kinds_and_seat_one():
    env = Reaching(size=3, horizon=4)
    known = heuristics(env)
    mixed = PartnerPool((stack([known["H8"], known["H9"]]), stack([known["H10"]])))
    trainer = AgentTrainer.create(env, SETTINGS, RL2(), seat=1)
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
    for recurrent, learner in ((True, RL2()), (False, Feedforward())):
        trainer = AgentTrainer.create(env, settings, learner)
        advance = eqx.filter_jit(trainer.train_chunk)
        state = eqx.filter_jit(trainer.init)(jax.random.key(0), partners)
        for _ in range(training_schedule(settings, 3).num_chunks):
            state, metrics = advance(state, partners)
        curves[recurrent] = np.asarray(metrics.returns.sum(axis=0) / metrics.episodes.sum(axis=0))
    assert curves[True][5:].mean() > curves[True][0] + 1.0
    assert abs(curves[False][5:].mean() - curves[False][0]) < 0.5
    assert curves[True][5:].mean() > curves[False][5:].mean() + 1.0
