"""Saved agents act as they did, and PLASTIC-Policy finds out whom it plays with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.agent import AdHocPolicy, create_actor
from coverset.adhoc.plastic import make_plastic
from coverset.adhoc.saved import Agent, load_agent, load_agent_policy, save_agent
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.robustness import evaluate_agent
from coverset.policies.networks import MLP, NetworkPolicy
from coverset.policies.population import Population
from coverset.storage import DamagedFile
from coverset.types import Percept

ABOUT = {"env": "matrix", "env_parameters": {}, "seat": 0}


def always(*actions: int) -> NetworkPolicy:
    """Policies that always choose one of three actions."""
    logits = 50.0 * jnp.eye(3)[jnp.array(actions)]
    return NetworkPolicy(MLP((jnp.zeros((len(actions), 1, 3)),), (logits,)))


@pytest.mark.parametrize(("recurrent", "waves"), [(True, 0.0), (False, 0.0), (True, 1.5)])
def test_a_loaded_agent_acts_as_the_saved_one(tmp_path, recurrent, waves):
    policy = AdHocPolicy(create_actor(jax.random.key(0), 4, 3, (5,), 6, recurrent=recurrent, waves=waves), 3, 0.5)
    save_agent(tmp_path / "agent.safetensors", policy, ABOUT)
    loaded, about = load_agent_policy(tmp_path / "agent.safetensors")
    assert about["env"] == "matrix"
    percept = Percept(jnp.arange(4.0), jnp.float32(2.0), jnp.bool_(True))
    for mine, theirs in zip(
        jax.tree.leaves(policy.logits(percept, policy.initial_memory())),
        jax.tree.leaves(loaded.logits(percept, loaded.initial_memory())),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_the_outside_agent_remembers_until_reset(tmp_path):
    policy = AdHocPolicy(create_actor(jax.random.key(0), 1, 3, (5,), 6, recurrent=True), 3, 0.1)
    save_agent(tmp_path / "agent.safetensors", policy, ABOUT)
    agent = load_agent(tmp_path)
    assert isinstance(agent, Agent)
    first = agent.act(np.ones(1))
    assert first in (0, 1, 2)
    agent.act(np.ones(1), reward=4.0, done=True)
    remembered = jax.tree.leaves(agent._memory)
    assert any(np.any(leaf != 0) for leaf in remembered)
    agent.reset()
    assert all(np.all(np.asarray(leaf) <= 0) for leaf in jax.tree.leaves(agent._memory))


def test_a_population_is_not_an_agent(tmp_path):
    from coverset.policies.population import save_population

    save_population(tmp_path / "agent.safetensors", Population(always(0, 1, 2), always(0, 1, 2)), ABOUT)
    with pytest.raises(DamagedFile, match="expected"):
        load_agent(tmp_path)


def test_plastic_finds_the_best_response_after_one_episode(tmp_path):
    env = MatrixGame()
    plastic = make_plastic(jax.random.key(0), env, Population(always(0, 1, 2), always(0, 1, 2)))
    save_agent(tmp_path / "agent.safetensors", plastic, ABOUT)
    loaded, _ = load_agent_policy(tmp_path / "agent.safetensors")
    record = evaluate_agent(jax.random.key(1), env, loaded, trials=64, episodes=6)
    for partner, best in (("H1", 10.0), ("H2", 6.0), ("H3", 6.0)):
        # Playing action 3 earns 4 with teammates 1 and 2 alike, so two episodes may be needed.
        np.testing.assert_allclose(record.curve(partner)[2:], best)
