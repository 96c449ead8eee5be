"""Saved agents act as they did, and PLASTIC-Policy finds out whom it plays with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.agent import AdHocPolicy, create_actor
from coverset.adhoc.plastic import PlasticPolicy, make_plastic
from coverset.adhoc.saved import Agent, load_agent, load_agent_policy, save_agent
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.robustness import evaluate_agent
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population
from coverset.runs.storage import DamagedFile, load_tensors, save_tensors
from coverset.types import Percept

ABOUT = {"env": "matrix", "env_parameters": {}, "seat": 0}


def always(*actions: int) -> ActorPolicy:
    """Policies that always choose one of three actions."""
    logits = 50.0 * jnp.eye(3)[jnp.array(actions)]
    return dense_policy(MLP((jnp.zeros((len(actions), 1, 3)),), (logits,)))


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


def spoil_agent(path, change) -> None:
    """Change what an agent's file holds, and write it again with a checksum that is right."""
    tensors, about = load_tensors(path)
    change(tensors, about)
    save_tensors(path, tensors, about)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


NETWORK_SPOILS = {
    "lacks the tensor 'recurrent'": lambda t, a: t.pop("recurrent"),
    "lacks the tensor 'head.0.bias'": lambda t, a: t.pop("head.0.bias"),
    "layers of encoder whose shapes do not fit": lambda t, a: t.update({"encoder.1.weight": zeros(7, 24)}),
    "layers of head whose shapes do not fit": lambda t, a: t.update({"head.0.weight": zeros(6)}),
    "encoder, recurrent and head whose shapes": lambda t, a: t.update(recurrent=zeros(6, 6)),
    "does not choose among 4 actions": lambda t, a: a.update(num_actions=4),
    "num_actions must be a whole number, got 3.0": lambda t, a: a.update(num_actions=3.0),
    "num_actions must be a whole number, got True": lambda t, a: a.update(num_actions=True),
    "does not choose among -3 actions": lambda t, a: a.update(num_actions=-3),
    "does not hold num_actions": lambda t, a: a.pop("num_actions"),
    "reward_scale must be a number, got 'nan'": lambda t, a: a.update(reward_scale=float("nan")),
    "seat must be one of 0, 1, got 2": lambda t, a: a.update(seat=2),
    "seat must be one of 0, 1, got True": lambda t, a: a.update(seat=True),
    "does not hold seat": lambda t, a: a.pop("seat"),
    "does not hold kind": lambda t, a: a.pop("kind"),
    "kind must be one of memory, feedforward, plastic": lambda t, a: a.update(kind=["memory"]),
    "does not hold env_parameters": lambda t, a: a.pop("env_parameters"),
    "not finite in encoder.0.weight": lambda t, a: t["encoder.0.weight"].fill(np.inf),
    "'recurrent' as float64": lambda t, a: t.update(recurrent=np.zeros((6, 24))),
}


@pytest.mark.parametrize("sentence", NETWORK_SPOILS)
def test_agents_that_could_not_act_are_refused(tmp_path, sentence):
    policy = AdHocPolicy(create_actor(jax.random.key(0), 1, 3, (5,), 6, recurrent=True), 3, 0.5)
    save_agent(tmp_path / "agent.safetensors", policy, ABOUT)
    spoil_agent(tmp_path / "agent.safetensors", NETWORK_SPOILS[sentence])
    with pytest.raises(DamagedFile, match=sentence):
        load_agent(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda t, a: t.update(edges=zeros(5)),
        lambda t, a: t.update(edges=zeros(3, 1)),
        lambda t, a: t.update(log_likelihood=zeros(3, 3, 5)),
        lambda t, a: t.update({key: value[:2] for key, value in t.items() if key.startswith("library")}),
    ],
)
def test_libraries_that_do_not_fit_their_beliefs_are_refused(tmp_path, change):
    plastic = PlasticPolicy(always(0, 1, 2), jnp.zeros(3), jnp.zeros((3, 3, 4)))
    save_agent(tmp_path / "agent.safetensors", plastic, ABOUT)
    load_agent_policy(tmp_path / "agent.safetensors")
    spoil_agent(tmp_path / "agent.safetensors", change)
    with pytest.raises(DamagedFile, match="edges and log_likelihood whose shapes do not fit"):
        load_agent_policy(tmp_path / "agent.safetensors")
