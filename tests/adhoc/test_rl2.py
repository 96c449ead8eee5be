"""What RL^2 adds to PPO: imitation of best responses, a guess of the partner, a privileged critic, mixtures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from coverset.adhoc.learner import AgentBatch, AgentPace, PartnerView
from coverset.adhoc.learners.rl2 import RL2, imitation_loss
from coverset.adhoc.mixtures import MixturePolicy, add_mixtures
from coverset.adhoc.pool import PartnerPool
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.types import Percept
from saved_agents import make_spec

SPEC = make_spec(2, 3, num_partners=2)


def constant(*actions: int) -> ActorPolicy:
    """Policies that always choose one action, stacked."""
    return dense_policy(MLP((jnp.zeros((len(actions), 2, 3)),), (50.0 * jnp.eye(3)[jnp.array(actions)],)))


def make_batch(answers: Array, learner: RL2) -> tuple:
    """Networks and a rollout for them, compiled: operation by operation takes seconds."""
    return jax.jit(lambda: draw_batch(answers, learner))()


def draw_batch(answers: Array, learner: RL2) -> tuple:
    """Networks and random inputs for them."""
    networks = learner.init(jax.random.key(0), SPEC)
    shape = answers.shape[:2]
    zeros, none = jnp.zeros(shape), jnp.zeros(shape, bool)
    actions = jnp.zeros(shape, jnp.int32)
    inputs = jax.random.normal(jax.random.key(1), (*shape, 7))
    memory = learner.initial_memory(networks, shape[1])
    partner = jnp.zeros((*shape, 2))
    known = {"row": actions, "answers": answers, "hidden": learner.hidden(PartnerView(actions, partner), SPEC)}
    batch = AgentBatch(inputs, none, none, actions, zeros, zeros, zeros, partner, actions, memory, **known)
    return networks, batch


def test_the_loss_of_imitation_is_the_cross_entropy_where_a_best_response_is_known() -> None:
    logits = jax.random.normal(jax.random.key(0), (4, 2, 3))
    answers = jax.nn.softmax(jax.random.normal(jax.random.key(1), (4, 2, 3))).at[1, 1].set(0.0)
    _, batch = make_batch(answers, RL2())
    expected, scores, wanted = 0.0, np.asarray(logits), np.asarray(answers)
    for t, n in np.ndindex(4, 2):
        p = np.exp(scores[t, n]) / np.exp(scores[t, n]).sum()
        expected -= sum(wanted[t, n, a] * np.log(p[a]) for a in range(3)) / 8
    np.testing.assert_allclose(imitation_loss(logits, batch), expected, rtol=1e-5)


def test_imitation_fades_out() -> None:
    answers = jnp.broadcast_to(jnp.eye(3)[1], (4, 2, 3))
    learner = RL2(imitation_weight=2.0, imitation_share=0.4)
    networks, batch = make_batch(answers, learner)
    losses = jax.jit(lambda p: learner.losses(networks, batch, AgentPace(p, jnp.float32(0.0), 0.2), SPEC))
    plain, logged = losses(jnp.float32(1.0))
    for progress, weight in [(0.0, 2.0), (0.2, 1.0), (0.4, 0.0), (0.9, 0.0)]:
        added = losses(jnp.float32(progress))[0] - plain
        np.testing.assert_allclose(added, weight * logged["imitation_loss"], rtol=1e-4, atol=1e-6)


def test_a_privileged_critic_reads_who_the_partner_is_and_the_actor_does_not() -> None:
    learner = RL2(privileged_critic=True, identity_weight=0.5)
    networks, batch = make_batch(jnp.zeros((4, 2, 3)), learner)
    row = batch.row.at[2].set(1)
    other = batch._replace(row=row, hidden=learner.hidden(PartnerView(row, batch.partner_observations), SPEC))
    unroll = jax.jit(learner.unroll)
    (outputs, values), (same, changed) = unroll(networks, batch), unroll(networks, other)
    assert outputs.shape[-1] == 3 + 2
    np.testing.assert_array_equal(outputs, same)
    np.testing.assert_array_equal(values[:2], changed[:2])
    assert not np.allclose(values[2], changed[2])
    decision = learner.step(networks, batch.inputs[0], batch.memory, SPEC, hidden=batch.hidden[0])
    np.testing.assert_allclose(decision.values, values[0], rtol=1e-5)


def test_the_guess_of_a_partner_costs_its_surprise() -> None:
    """Untrained guesses are near uniform over the two partners."""
    learner = RL2(imitation_weight=0.0, identity_weight=0.5)
    networks, batch = make_batch(jnp.zeros((4, 2, 3)), learner)
    pace = AgentPace(jnp.float32(0.0), jnp.float32(0.0), 0.2)
    loss, logged = learner.losses(networks, batch, pace, SPEC)
    assert float(logged["identity_loss"]) == pytest.approx(np.log(2), abs=0.01)
    assert float(loss) == pytest.approx(float(logged["critic_loss"]) + 0.5 * np.log(2), abs=0.02)


def test_best_responses_answer_in_their_own_rows() -> None:
    pool = PartnerPool((constant(0, 1), constant(2)), (constant(1, 2), None))
    percepts = Percept(jnp.zeros((3, 4, 2)), jnp.zeros((3, 4)), jnp.ones((3, 4), bool))
    probabilities, memories = pool.answer(percepts, pool.answer_memories(4), 3)
    np.testing.assert_allclose(probabilities[:, 0], [[0, 1, 0], [0, 0, 1], [0, 0, 0]], atol=1e-6)
    assert memories == ((), ())


def play(policy: MixturePolicy, trials: int, episodes: int) -> np.ndarray:
    """The actions of a mixture, [trials, episodes, 2 steps]."""

    def trial(key):
        def step(memory, now):
            index, step_key = now
            percept = Percept(jnp.zeros(2), jnp.float32(0.0), index % 2 == 0)
            action, memory = policy.act(step_key, percept, memory)
            return memory, action

        steps = 2 * episodes
        return jax.lax.scan(step, policy.initial_memory(), (jnp.arange(steps), jax.random.split(key, steps)))[1]

    return np.asarray(jax.jit(jax.vmap(trial))(jax.random.split(jax.random.key(0), trials))).reshape(trials, -1, 2)


def test_a_mixture_is_one_member_for_an_episode_and_has_weights_of_its_own_for_a_trial() -> None:
    pool = add_mixtures(PartnerPool((constant(0, 2),)), 1, 1.0)
    assert len(pool) == 3
    mixture = jax.tree.map(lambda x: x[0], pool.kinds[1])
    played = play(mixture, trials=400, episodes=20)
    np.testing.assert_array_equal(played[..., 0], played[..., 1])
    assert set(np.unique(played)) == {0, 2}
    shares = (played[..., 0] == 2).mean(axis=1)
    assert shares.mean() == pytest.approx(0.5, abs=0.06)
    # weights uniform on the simplex: E[w(1 - w)] = 1/6, so that two episodes of a trial agree with probability 2/3
    assert (played[:, 0, 0] == played[:, 1, 0]).mean() == pytest.approx(2 / 3, abs=0.08)
