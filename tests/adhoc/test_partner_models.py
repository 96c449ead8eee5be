"""The losses of learners that model their partners, against slow loops and closed forms: LIAM, GPL, ODITS, MeLIBA."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.gaussian import Gaussian, read_gaussian, standard_gaussian
from coverset.adhoc.learner import AgentBatch, AgentNetworks, AgentPace, OnPolicyLearner, PartnerView
from coverset.adhoc.learners.gpl import GPL, Graph
from coverset.adhoc.learners.liam import LIAM
from coverset.adhoc.learners.meliba import MeLIBA, belief_divergence, same_stretch_after
from coverset.adhoc.learners.odits import ODITS
from coverset.adhoc.partner_losses import action_loss, observation_loss
from coverset.types import Percept
from saved_agents import make_spec

STEPS, ENVS = 5, 2


def make_batch(learner: OnPolicyLearner, spec) -> tuple[AgentNetworks, AgentBatch]:
    """A rollout of random numbers with partners in every seat, compiled: operation by operation takes seconds."""
    return jax.jit(lambda: draw_batch(learner, spec))()


def draw_batch(learner: OnPolicyLearner, spec) -> tuple[AgentNetworks, AgentBatch]:
    """Networks and random numbers for them."""
    networks = learner.init(jax.random.key(0), spec)
    keys = jax.random.split(jax.random.key(1), 6)
    shape, seats = (STEPS, ENVS), () if spec.partner_seats == 1 else (spec.partner_seats,)
    fresh = jnp.zeros(shape, bool).at[3, 0].set(True)
    first = fresh | jax.random.bernoulli(keys[0], 0.3, shape)
    observed = jax.random.uniform(keys[1], (*shape, spec.observation_size))
    actions = jax.random.randint(keys[2], shape, 0, spec.num_actions)
    seen = jax.random.uniform(keys[3], (*shape, *seats, spec.partner_observation_size))
    done = jax.random.randint(keys[4], (*shape, *seats), 0, spec.partner_num_actions)
    row, zeros = jnp.zeros(shape, jnp.int32), jnp.zeros(shape)
    batch = AgentBatch(
        inputs=learner.inputs(Percept(observed, zeros, first), actions, spec),
        fresh=fresh,
        first=first,
        actions=actions,
        log_p=zeros - 1.0,
        advantage=jax.random.normal(keys[5], shape),
        target=zeros + 0.5,
        partner_observations=seen,
        partner_actions=done,
        memory=learner.initial_memory(networks, ENVS),
        row=row,
        hidden=learner.hidden(PartnerView(row, seen), spec),
    )
    return networks, batch


@pytest.mark.parametrize("seats", [1, 2])
def test_reconstruction_losses_equal_slow_loops(seats: int) -> None:
    learner, spec = LIAM(), make_spec(2, 3, partner_seats=seats)
    _, batch = make_batch(learner, spec)
    predicted = jax.random.normal(jax.random.key(2), (STEPS, ENVS, 2 * seats))
    logits = jax.random.normal(jax.random.key(3), (STEPS, ENVS, 3 * seats))
    squared, crossed, surprise = [], [], []
    seen, done = np.asarray(batch.partner_observations), np.asarray(batch.partner_actions)
    guesses, scored = np.asarray(predicted), np.asarray(logits)
    for t, n, s in np.ndindex(STEPS, ENVS, seats):
        at = (t, n) if seats == 1 else (t, n, s)
        o, p = seen[at], guesses[t, n, 2 * s : 2 * s + 2]
        squared.append(((p - o) ** 2).sum())
        sure = 1 / (1 + np.exp(-p))
        crossed.append(-(o * np.log(sure) + (1 - o) * np.log(1 - sure)).sum())
        scores = scored[t, n, 3 * s : 3 * s + 3]
        surprise.append(np.log(np.exp(scores).sum()) - scores[done[at]])
    assert float(observation_loss(predicted, batch, spec, "squared")) == pytest.approx(np.mean(squared), rel=1e-4)
    assert float(observation_loss(predicted, batch, spec, "cross-entropy")) == pytest.approx(np.mean(crossed), rel=1e-4)
    assert float(action_loss(logits, batch, spec)) == pytest.approx(np.mean(surprise), rel=1e-4)


def gradient_norm(tree) -> float:
    return float(sum(jnp.abs(x).sum() for x in jax.tree.leaves(tree)))


@pytest.mark.parametrize("learner", [LIAM(reconstruction_weight=0.0), MeLIBA(prediction_weight=0.0)], ids=repr)
def test_rewards_teach_the_encoder_nothing(learner) -> None:
    spec = make_spec(2, 3)
    networks, batch = make_batch(learner, spec)
    pace = AgentPace(jnp.float32(0.0), jnp.float32(0.1), 0.2, jax.random.key(4))
    gradients = jax.jit(jax.grad(lambda n: learner.losses(n, batch, pace, spec)[0]))(networks)
    assert gradient_norm(gradients.actor.encoder) == 0.0
    assert gradient_norm(gradients.actor.policy) > 0.0
    assert gradient_norm(gradients.critic) > 0.0


@pytest.mark.parametrize("seats", [1, 3])
def test_the_graph_expects_the_mean_of_its_joint_values(seats: int) -> None:
    """Qbar by enumeration of all joint actions of the teammates."""
    learner, spec = GPL(rank=2), make_spec(2, 3, partner_seats=seats, partner_num_actions=2)
    networks, batch = make_batch(learner, spec)
    embedding = jax.random.normal(jax.random.key(5), (STEPS, ENVS, seats * learner.latent_size))
    graph = jax.jit(lambda: networks.actor.graph(batch.inputs, embedding))()
    probabilities, expected = np.asarray(jax.nn.softmax(graph.action_logits)), np.zeros((STEPS, ENVS, 3))
    joint = jax.jit(Graph.joint)
    for own, team in itertools.product(range(3), itertools.product(range(2), repeat=seats)):
        chance = np.prod([probabilities[..., s, action] for s, action in enumerate(team)], axis=0)
        others = jnp.broadcast_to(jnp.array(team), (STEPS, ENVS, seats))
        value = joint(graph, jnp.full((STEPS, ENVS), own), others)
        expected[..., own] += chance * np.asarray(value)
    np.testing.assert_allclose(graph.expected(), expected, rtol=1e-4, atol=1e-5)


def test_a_joint_value_is_the_sum_of_its_terms() -> None:
    learner, spec = GPL(rank=2), make_spec(2, 3, partner_seats=2)
    networks, batch = make_batch(learner, spec)
    graph = networks.actor.graph(batch.inputs[0, 0], jnp.ones(2 * learner.latent_size))
    a, b, c = 2, 0, 1
    terms = [graph.own[a], graph.others[0, b], graph.others[1, c]]
    terms += [graph.own_factors[s, a] @ graph.other_factors[s, x] for s, x in enumerate((b, c))]
    terms += [graph.team_factors[0, b] @ graph.team_factors[1, c]]
    np.testing.assert_allclose(graph.joint(jnp.int32(a), jnp.array([b, c])), sum(terms), rtol=1e-4)


def test_divergence_of_gaussians_has_its_closed_form() -> None:
    one = Gaussian(jnp.array([1.0, 0.0]), jnp.log(jnp.array([2.0, 1.0])))
    expected = -np.log(2) + (4 + 1) / 2 - 0.5
    assert float(one.divergence(standard_gaussian(one))) == pytest.approx(expected, rel=1e-5)
    assert float(one.divergence(one)) == pytest.approx(0.0, abs=1e-6)
    draws = jax.vmap(one.sample)(jax.random.split(jax.random.key(0), 20_000))
    np.testing.assert_allclose(draws.mean(axis=0), [1.0, 0.0], atol=0.05)
    np.testing.assert_allclose(draws.std(axis=0), [2.0, 1.0], atol=0.05)


def test_beliefs_are_compared_with_those_before_them() -> None:
    begins = jnp.zeros((STEPS, ENVS), bool).at[0, 0].set(True).at[2, 1].set(True)
    beliefs = read_gaussian(jax.random.normal(jax.random.key(0), (STEPS, ENVS, 4)))
    divergences, starts, divergence = [], np.asarray(begins), jax.jit(Gaussian.divergence)
    for t, n in np.ndindex(STEPS, ENVS):
        now, before = (jax.tree.map(lambda x, at=(k, n): np.asarray(x)[at], beliefs) for k in (t, t - 1))
        if starts[t, n]:
            divergences.append(divergence(now, jax.tree.map(np.zeros_like, now)))
        elif t:
            divergences.append(divergence(now, before))
    assert len(divergences) == STEPS * ENVS - 1
    np.testing.assert_allclose(belief_divergence(beliefs, begins), np.mean(divergences), rtol=1e-4)


def test_predictions_count_from_a_start_to_the_end_of_the_stretch() -> None:
    begins = jnp.zeros((STEPS, 1), bool).at[0].set(True).at[3].set(True)
    counted = same_stretch_after(jnp.array([1, 4]), begins)[..., 0]
    np.testing.assert_array_equal(counted, [[False, True, True, False, False], [False, False, False, False, True]])


def test_the_proxy_of_odits_learns_what_the_critic_is_told() -> None:
    """The policy reads nothing hidden; the proxy's loss teaches the actor's encoder, and values teach the critic's."""
    learner, spec = ODITS(information_weight=0.0), make_spec(2, 3)
    networks, batch = make_batch(learner, spec)
    pace = AgentPace(jnp.float32(0.0), jnp.float32(0.1), 0.2, jax.random.key(4))

    def losses(networks, hidden):
        return learner.losses(networks, batch._replace(hidden=hidden), pace, spec)[1]

    grads = {
        name: jax.jit(jax.grad(lambda n, name=name: losses(n, batch.hidden)[name]))(networks)
        for name in ("proxy_loss", "critic_loss")
    }
    assert gradient_norm(grads["proxy_loss"].actor.encoder) > 0.0
    assert gradient_norm(grads["proxy_loss"].critic) == 0.0
    assert gradient_norm(grads["critic_loss"].critic.encoder) > 0.0
    assert gradient_norm(grads["critic_loss"].actor) == 0.0
    assert float(losses(networks, batch.hidden + 1.0)["critic_loss"]) != float(
        losses(networks, batch.hidden)["critic_loss"]
    )
