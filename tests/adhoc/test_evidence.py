"""Steps as evidence: the table against counts by hand, hashes, and what agents make of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.evidence import CERTAIN, fit_table, hash_context, hash_step, look_up, tabulate
from coverset.adhoc.learner import AgentWorld, agent_spec
from coverset.adhoc.learners.planner import Planner, draw_mixtures
from coverset.adhoc.learners.plastic import Plastic
from coverset.adhoc.pool import PartnerPool
from coverset.envs.matrix import MatrixGame
from coverset.learning.rollout import play_trial
from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population
from coverset.policies.stacked import take_member
from coverset.settings import TrainSettings
from coverset.types import Percept


def pairs() -> Population:
    """Three teammates who always choose one action, and best responses that do the same."""
    always = dense_policy(MLP((jnp.zeros((3, 1, 3)),), (50.0 * jnp.eye(3),)))
    return Population(always, always)


def make_world(learner) -> AgentWorld:
    environment, population = MatrixGame(), pairs()
    spec = agent_spec(learner, environment, TrainSettings(total_steps=1), 0, population)
    return AgentWorld(environment, population, PartnerPool((population.teammates,)), 0, spec)


def percept(observation, reward: float = 0.0, *, first: bool = False) -> Percept:
    return Percept(jnp.asarray(observation, jnp.float32), jnp.float32(reward), jnp.bool_(first))


def test_a_table_has_the_likelihoods_that_counting_gives() -> None:
    first = (np.array([1, 1, 1, 2]), np.array([5, 5, 6, 7]))
    second = (np.array([1, 1]), np.array([6, 6]))
    table = tabulate([first, second], 10, pseudo_count=0.5)
    assert table[5] == pytest.approx(np.log([(2 + 0.5 * 0.4) / 3.5, 0.5 * 0.4 / 2.5]), rel=1e-5)
    assert table[6] == pytest.approx(np.log([(1 + 0.5 * 0.6) / 3.5, (2 + 0.5 * 0.6) / 2.5]), rel=1e-5)
    assert table[7] == pytest.approx([CERTAIN, CERTAIN]), "with the second, context 2 never came: no evidence"
    np.testing.assert_array_equal(np.delete(table, [5, 6, 7], axis=0), 0.0)


def test_steps_that_differ_have_different_numbers() -> None:
    contexts = {int(hash_context(jnp.eye(25)[cell], jnp.int32(action))) for cell in range(25) for action in range(5)}
    assert len(contexts) == 125
    one = hash_context(jnp.zeros(2), jnp.int32(0))
    seen = [percept([0.0, 0.0]), percept([0.0, 1.0]), percept([0.0, 0.0], 6.0), percept([0.0, 0.0], 6.0, first=True)]
    assert len({int(hash_step(one, each)) for each in seen}) == 4
    again = percept([1.0, 1.0], 6.0, first=True)
    assert hash_step(one, again) == hash_step(one, seen[3]), "where the next episode starts is no evidence"


def test_simulated_steps_tell_pure_teammates_apart() -> None:
    table = jnp.asarray(fit_table(jax.random.key(0), MatrixGame(), pairs(), episodes=64, entries=512, pseudo_count=1.0))
    context = hash_context(jnp.ones(1), jnp.int32(0))
    met = look_up(table, hash_step(context, percept([1.0], 10.0, first=True)))
    assert (float(met.known), int(jnp.argmax(met.log_likelihood))) == (1.0, 0)
    assert float(met.log_likelihood[0]) > -0.1 > -2.0 > float(met.log_likelihood[1:].max())
    never = look_up(table, hash_step(context, percept([1.0], 7.0, first=True)))
    assert (float(never.known), float(jnp.abs(never.log_likelihood).max())) == (0.0, 0.0)


@pytest.mark.parametrize("learner", [Plastic(), Plastic(update="bayes"), Planner()], ids=["poly", "bayes", "planner"])
def test_an_agent_finds_its_teammate_within_three_episodes(learner) -> None:
    world = make_world(learner)
    agent = learner.fit(jax.random.key(0), world)
    for number, best in enumerate((10.0, 6.0, 6.0)):
        teammate = take_member(world.population.teammates, number)
        played = play_trial(jax.random.key(1), world.environment, (agent, teammate), episodes=8)
        np.testing.assert_allclose(played.returns[3:], best)


def test_polynomial_weights_and_bayes_change_a_belief_as_their_equations_say() -> None:
    for update, factor in (("bayes", lambda p: p), ("polynomial", lambda p: 1 - 0.5 * (1 - p))):
        learner = Plastic(update=update, forgetting=0.0)
        agent = learner.fit(jax.random.key(0), make_world(learner))
        action, memory = agent.act(jax.random.key(1), percept([1.0], first=True), agent.initial_memory())
        seen = percept([1.0], float((10.0, 6.0, 6.0)[int(action)]), first=True)
        likelihood = np.exp(look_up(agent.steps, hash_step(memory.context, seen)).log_likelihood)
        _, memory = agent.act(jax.random.key(2), seen, memory)
        wanted = factor(likelihood) / factor(likelihood).sum()
        np.testing.assert_allclose(agent.belief(memory), wanted, rtol=1e-4)


def test_the_planner_s_prior_has_single_teammates_and_mixtures() -> None:
    particles, prior = draw_mixtures(jax.random.key(0), 4, 192, 2.0)
    np.testing.assert_allclose(particles.sum(axis=1), 1.0, rtol=1e-5)
    assert float(prior[:4].sum()) == pytest.approx(0.25)
    np.testing.assert_allclose(prior @ particles, 0.25, atol=0.03)
    assert float(prior.sum()) == pytest.approx(1.0, abs=1e-5)
    alone, certain = draw_mixtures(jax.random.key(0), 1, 0, 2.0)
    assert (alone.tolist(), certain.tolist()) == ([[1.0]], [1.0])


def test_the_planner_learns_a_mixture_that_no_teammate_is() -> None:
    """A partner who draws the first two actions evenly: the belief's mean is close to that."""
    from coverset.envs.matrix.heuristics import MixedAction
    from coverset.learning.rollout import play_episode

    learner = Planner()
    world = make_world(learner)
    agent = learner.fit(jax.random.key(0), world)
    policies = (agent, MixedAction(jnp.array([0.5, 0.5, 0.0])))
    memories, rewards = tuple(policy.initial_memory() for policy in policies), jnp.zeros(2)
    for key in jax.random.split(jax.random.key(3), 25):
        _, memories, rewards = play_episode(key, world.environment, policies, memories, rewards)
    mixture = np.asarray(jax.nn.softmax(memories[0].log_weights) @ agent.particles)
    assert np.abs(mixture - [0.5, 0.5, 0.0]).max() < 0.2
