"""Learners without a population: copies of the agent, perturbed (E3T), and chosen by learnability (UPD)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.learner import EpisodeTally
from coverset.adhoc.learners.e3t import E3T
from coverset.adhoc.learners.upd import UPD, least_learnable, return_variances
from coverset.adhoc.perturbed import PerturbedPolicy, Traits, perturb
from coverset.adhoc.pool import PartnerPool
from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.types import Percept
from saved_agents import make_spec

SPEC = make_spec(2, 3)


def tally(returns: list[list[float]]) -> EpisodeTally:
    """What some episodes of every candidate add up to, [C]."""
    sums = [[sum(r**power for r in row) for row in returns] for power in range(3)]
    return EpisodeTally(*map(jnp.array, sums))


def test_perturbed_probabilities_mix_agent_and_habit() -> None:
    traits = Traits(jnp.float32(0.25), jnp.array([0.5, 0.5, 0.0]))
    mixed = perturb(jnp.array([0.0, 0.2, 0.8]), traits)
    np.testing.assert_allclose(mixed, [0.125, 0.275, 0.6], rtol=1e-6)
    legal = perturb(jnp.array([0.0, 0.2, 0.8]), traits, jnp.array([False, True, True]))
    np.testing.assert_allclose(legal, [0.0, 0.4, 0.6], atol=1e-6)


def test_the_partners_of_e3t_are_the_agent_as_it_is_now() -> None:
    learner = E3T(partner_noise=0.5)
    others = PartnerPool((dense_policy(MLP((jnp.zeros((2, 2, 3)),), (jnp.zeros((2, 3)),))),))
    networks = learner.init(jax.random.key(0), SPEC)
    networks = networks._replace(actor=jax.tree.map(lambda x: x + 0.2, networks.actor))
    (partners,) = learner.partners(networks, (), others, SPEC).kinds
    partner, agent = jax.tree.map(lambda x: x[1], partners), learner.policy(networks, SPEC)
    percept = Percept(jnp.array([0.3, -0.6]), jnp.float32(1.0), jnp.bool_(True))
    memory = partner.initial_memory()
    draws = jax.jit(jax.vmap(lambda key: partner.act(key, percept, memory)[0]))(
        jax.random.split(jax.random.key(1), 4000)
    )
    seen = np.bincount(np.asarray(draws), minlength=3) / 4000
    own = agent.action_probabilities(percept, agent.initial_memory())
    np.testing.assert_allclose(seen, 0.5 * own + 0.5 / 3, atol=0.03)


def test_a_partner_keeps_its_traits_for_a_trial() -> None:
    learner = E3T()
    agent = learner.policy(learner.init(jax.random.key(0), SPEC), SPEC)
    always = [Traits(jnp.float32(1.0), jnp.eye(3)[action]) for action in (0, 2)]
    percept = Percept(jnp.zeros(2), jnp.float32(0.0), jnp.bool_(True))
    before, after = (PerturbedPolicy(agent, traits) for traits in always)
    action, memory = before.act(jax.random.key(0), percept, before.initial_memory())
    later, _ = after.act(jax.random.key(1), percept, memory)
    fresh, _ = after.act(jax.random.key(1), percept, after.initial_memory())
    assert (int(action), int(later), int(fresh)) == (0, 0, 2)
    assert int(memory.agent.last_action) == 0


def test_learnability_is_the_variance_of_returns() -> None:
    returns = [[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 6.0, 3.0]]
    np.testing.assert_allclose(return_variances(tally(returns)), [np.var(row) for row in returns], rtol=1e-5)
    np.testing.assert_array_equal(least_learnable(tally(returns), 2), [True, True, False])
    assert np.isinf(return_variances(EpisodeTally(*[jnp.zeros(1)] * 3))).all()


def test_candidates_that_vary_least_are_drawn_anew_when_it_is_time() -> None:
    learner = UPD(candidates=3, candidate_updates=2, replaced_share=1 / 3)
    state = learner.init_state(jax.random.key(0), SPEC)
    seen = jax.tree.map(lambda x: x[:, None], tally([[0.0, 2.0], [1.0, 1.0], [0.0, 5.0]]))
    early = learner.update_state(jax.random.key(1), state, seen, SPEC)
    np.testing.assert_array_equal(early.traits.noise, state.traits.noise)
    late = learner.update_state(jax.random.key(2), early, seen, SPEC)
    np.testing.assert_array_equal(late.traits.noise == state.traits.noise, [True, False, True])
    assert float(late.tally.episodes.sum()) == 0.0
    np.testing.assert_allclose(late.traits.bias.sum(axis=-1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("learner", [E3T(), UPD()], ids=repr)
def test_seats_of_different_shapes_are_refused(learner) -> None:
    name = type(learner).__name__.lower()
    with pytest.raises(ValueError, match=f"{name} trains with copies of its agent, .* got 2 and 3 .*, 2 and 4 for its"):
        learner.init(jax.random.key(0), make_spec(2, 3, partner_num_actions=4))
