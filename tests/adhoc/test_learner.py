"""The interface of learners: what they read, that acting equals unrolling, names and settings, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.learner import AgentBatch, AgentMemory, AgentNetworks, Learner, NetworkMemories, OnPolicyLearner
from coverset.adhoc.learners.feedforward import Feedforward
from coverset.adhoc.learners.gpl import GPL
from coverset.adhoc.learners.liam import LIAM
from coverset.adhoc.learners.meliba import MeLIBA
from coverset.adhoc.learners.plastic import Plastic
from coverset.adhoc.learners.rl2 import RL2
from coverset.adhoc.registry import LEARNERS, agent_folder, learner_class, learner_name, make_learner
from coverset.presets import resolve_training
from coverset.settings import TrainSettings
from coverset.types import Percept
from saved_agents import make_spec

SPEC = make_spec(2, 3, memory_size=6, hidden_sizes=(7,), reward_scale=0.1)
ON_POLICY = [RL2(), RL2(network="gru"), Feedforward(), LIAM(), GPL(), MeLIBA()]


def make_batch(learner: OnPolicyLearner, networks: AgentNetworks, steps: int = 9, envs: int = 2) -> AgentBatch:
    """A rollout of random percepts that starts in the middle of a trial; two trials start within it."""
    keys = jax.random.split(jax.random.key(1), 4)
    shape = (steps, envs)
    first = jax.random.bernoulli(keys[0], 0.3, shape)
    fresh = jnp.zeros(shape, bool).at[4, 0].set(True).at[7, 1].set(True)
    percept = Percept(jax.random.normal(keys[1], (*shape, 2)), jax.random.normal(keys[2], shape), first)
    actions = jax.random.randint(keys[3], shape, 0, 3)
    memory = jax.tree.map(lambda m: m + 0.3, learner.initial_memory(networks, envs))
    zeros = jnp.zeros(shape)
    inputs = learner.inputs(percept, actions, SPEC)
    partner = jnp.zeros((*shape, 2))
    return AgentBatch(inputs, fresh, first, actions, zeros, zeros, zeros, partner, actions, memory)


@pytest.mark.parametrize("learner", ON_POLICY, ids=repr)
def test_unroll_equals_steps_with_memory_cleared_where_trials_start(learner):
    networks = learner.init(jax.random.key(0), SPEC)
    batch = make_batch(learner, networks)
    outputs, values = learner.unroll(networks, batch)
    memory, initial = batch.memory, learner.initial_memory(networks, 2)
    for t in range(len(batch.fresh)):
        memory = jax.tree.map(lambda new, old, t=t: jnp.where(batch.fresh[t][:, None], new, old), initial, memory)
        decision = learner.step(networks, batch.inputs[t], memory, SPEC)
        memory = decision.memory
        np.testing.assert_allclose(decision.logits, outputs[t][..., :3], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(decision.values, values[t], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("learner", ON_POLICY, ids=repr)
def test_what_came_before_a_trial_has_no_influence_on_it(learner):
    networks = learner.init(jax.random.key(0), SPEC)
    batch = make_batch(learner, networks)
    outputs, values = learner.unroll(networks, batch)
    changed, other_values = learner.unroll(networks, batch._replace(inputs=batch.inputs.at[:4].add(1.0)))
    np.testing.assert_array_equal(outputs[4:, 0], changed[4:, 0])
    np.testing.assert_array_equal(values[4:, 0], other_values[4:, 0])
    assert not np.allclose(outputs[:4, 0], changed[:4, 0])
    remembers = not isinstance(learner, Feedforward)
    assert np.allclose(outputs[4:7, 1], changed[4:7, 1]) != remembers


@pytest.mark.parametrize("learner", ON_POLICY, ids=repr)
def test_the_policy_acts_as_the_networks_do_in_training(learner):
    networks = learner.init(jax.random.key(0), SPEC)
    networks = networks._replace(actor=jax.tree.map(lambda x: x + 0.1, networks.actor))
    policy = learner.policy(networks, SPEC)
    assert (policy.observation_size, policy.num_actions) == (2, 3)
    memory, trained = policy.initial_memory(), learner.initial_memory(networks)
    for t in range(4):
        percept = Percept(jnp.array([0.5, -t]), jnp.float32(t), jnp.bool_(t == 2))
        decision = learner.step(networks, learner.inputs(percept, memory.last_action, SPEC), trained, SPEC)
        probabilities = policy.action_probabilities(percept, memory)
        np.testing.assert_allclose(probabilities, jax.nn.softmax(decision.logits), rtol=1e-5)
        action, memory = policy.act(jax.random.key(t), percept, memory)
        trained = decision.memory
        assert memory.last_action == action
        assert action == jax.random.categorical(jax.random.key(t), jnp.log(probabilities))


def test_rl2_reads_observation_last_action_scaled_reward_and_start():
    percept = Percept(jnp.array([0.5, -1.0]), jnp.float32(4.0), jnp.bool_(True))
    np.testing.assert_allclose(RL2().inputs(percept, jnp.int32(1), SPEC), [0.5, -1.0, 0.0, 1.0, 0.0, 0.4, 1.0])
    np.testing.assert_array_equal(RL2().inputs(percept, jnp.int32(-1), SPEC)[2:5], 0.0)
    np.testing.assert_array_equal(Feedforward().inputs(percept, jnp.int32(1), SPEC), percept.observation)


def test_rl2_scales_the_reward_that_its_policy_reads():
    actor = RL2().init(jax.random.key(0), SPEC).actor
    policies = [RL2().policy(AgentNetworks(actor, ()), make_spec(2, 3, reward_scale=scale)) for scale in (0.1, 1.0)]
    memory = AgentMemory(actor.initial_memory(), jnp.int32(2))
    percept = Percept(jnp.ones(2), jnp.float32(10.0), jnp.bool_(False))
    scaled, _ = policies[0].logits(percept, memory)
    plain, _ = policies[1].logits(percept._replace(reward=jnp.float32(1.0)), memory)
    np.testing.assert_allclose(scaled, plain, rtol=1e-6)


def test_feedforward_reads_images_with_convolutions():
    learner, spec = Feedforward(network="conv"), make_spec(observation_shape=(3, 4, 2))
    networks = learner.init(jax.random.key(0), spec)
    decision = learner.step(networks, jnp.ones((5, 24)), learner.initial_memory(networks, 5), spec)
    assert decision.logits.shape == (5, 3)
    assert learner.policy(networks, spec).observation_size == 24


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ("rl2", {"network": "conv"}),
            "rl2 needs a recurrent network, .* got 'conv'; .* not possible",
        ),
        (("rl2", {"network": "lstmm"}), "Did you mean 'lstm'"),
        (("feedforward", {"network": "gru"}), "feedforward needs a network without memory"),
        (("plastic", {"bins": 1}), "bins must be at least 2"),
        (("plastic", {"update": "votes"}), "update must be"),
        (("plastic", {"eta": 0.6}), "eta must lie between 0.0 and 0.5"),
        (("planner", {"confidence": 0.9}), "confidence must lie between 0.0 and 0.5"),
        (("plastic", {"bins": 4.5}), "bins must be a whole number, got 4.5"),
        (("plastic", {"pseudo_count": 0.0}), "pseudo_count must be a finite number above 0"),
        (("rl2", {"bins": 3}), "must be one of .*network, .*got 'bins'"),
        (("rl3", {}), "learner must be rl2, feedforward, plastic, .* or module:Class, got 'rl3'. Did you mean 'rl2'"),
        (("rl2", {"imitation_share": 2.0}), "imitation_share must .*1, got 2.0"),
        (("liam", {"network": "dense"}), "liam needs a recurrent network"),
        (("liam", {"observation_loss": "l1"}), "observation_loss must be one of cross-entropy, squared, got 'l1'"),
        (("gpl", {"rank": 0}), "rank must be at least 1"),
        (("meliba", {"latent_size": 1}), "latent_size must be at least 2"),
        (("upd", {"candidates": 0}), "candidates must be at least 1"),
        (("e3t", {"partner_noise": -1.0}), "partner_noise must .*0 .*got -1"),
        (("test_learner:Lost", {}), "cannot be imported"),
        (("saved_agents:make_spec", {}), "must be a class that inherits from coverset.adhoc.learner.Learner"),
        (("odd_learners:Thawed", {}), "'odd_learners:Thawed' must be a frozen dataclass"),
        (("odd_learners:Greedy", {}), "has a setting 'entropy', which all learners share: rename it"),
    ],
)
def test_learners_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_learner(*settings)


@pytest.mark.parametrize("name", LEARNERS)
def test_names_and_classes_belong_together(name):
    learner = make_learner(name, {})
    assert isinstance(learner, Learner)
    assert learner_name(learner) == agent_folder(name) == name
    assert learner_class(name) is type(learner)


def test_a_folder_has_a_name_that_every_system_can_write():
    assert agent_folder("package.module:Class") == "package.module.Class"


def test_settings_come_from_the_preset_and_what_replaces_it():
    settings, learner = resolve_training("matrix", "plastic", "fast", bins=20, total_steps=7)
    assert (settings.total_steps, settings.reward_scale) == (7, 0.3)
    assert learner == Plastic(bins=20)
    given = TrainSettings(total_steps=9, epochs=2)
    settings, learner = resolve_training("matrix", Plastic(bins=10), "fast", given, epochs=3, pseudo_count=2)
    assert settings == TrainSettings(total_steps=9, epochs=3)
    assert learner == Plastic(bins=10, pseudo_count=2)
    with pytest.raises(ValueError, match=r"setting must be one of .*, got 'epoch'\. Did you mean 'epochs'"):
        resolve_training("matrix", "rl2", "fast", epoch=3)


def test_a_batch_is_taken_apart_by_environments():
    learner = RL2()
    networks = learner.init(jax.random.key(0), SPEC)
    batch = make_batch(learner, networks, envs=6)
    taken = batch.take(jnp.array([4, 1]))
    np.testing.assert_array_equal(taken.inputs, batch.inputs[:, jnp.array([4, 1])])
    np.testing.assert_array_equal(taken.memory.actor.cell, batch.memory.actor.cell[jnp.array([4, 1])])
    assert isinstance(taken.memory, NetworkMemories)
    folded = jax.tree.map(lambda x: x.reshape(x.shape[0], 2, 3, *x.shape[2:]), batch._replace(memory=()))
    memory = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), batch.memory)
    for one, other in zip(
        jax.tree.leaves(folded._replace(memory=memory).flatten()), jax.tree.leaves(batch), strict=True
    ):
        np.testing.assert_array_equal(one, other)
