"""Saved agents act as they did, and PLASTIC-Policy finds out whom it plays with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.learner import AgentWorld, FittedLearner, OnPolicyLearner, agent_spec
from coverset.adhoc.learners.feedforward import Feedforward
from coverset.adhoc.learners.plastic import Plastic
from coverset.adhoc.learners.rl2 import RL2
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.saved import Agent, load_agent, load_agent_policy, save_agent
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.robustness import evaluate_agent
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population, save_population
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile, load_tensors, save_tensors
from coverset.settings import TrainSettings
from coverset.types import Percept
from saved_agents import make_spec, untrained_policy, write_untrained

ABOUT = {"env": "matrix", "env_parameters": {}, "seat": 0}


def always(*actions: int) -> ActorPolicy:
    """Policies that always choose one of three actions."""
    logits = 50.0 * jnp.eye(3)[jnp.array(actions)]
    return dense_policy(MLP((jnp.zeros((len(actions), 1, 3)),), (logits,)))


def fit_plastic(learner: Plastic, key: int = 0) -> tuple[AgentWorld, Policy]:
    """PLASTIC-Policy for three teammates who always choose the same."""
    env, population = MatrixGame(), Population(always(0, 1, 2), always(0, 1, 2))
    spec = agent_spec(learner, env, TrainSettings(total_steps=1), 0, population)
    world = AgentWorld(env, population, PartnerPool((population.teammates,)), 0, spec)
    return world, learner.fit(jax.random.key(key), world)


LEARNERS = [RL2(), RL2(network="gru"), Feedforward(), Feedforward(network="conv"), Plastic(bins=7)]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("bandwidth", [0.0, 1.5])
def test_a_loaded_agent_acts_as_the_saved_one(tmp_path, learner, bandwidth):
    if isinstance(learner, OnPolicyLearner):
        shape = (2, 1, 2) if learner == Feedforward(network="conv") else (4,)
        spec = make_spec(4, 3, observation_shape=shape, fourier_bandwidth=bandwidth, reward_scale=0.5)
        policy = untrained_policy(spec, learner)
    else:
        world, policy = fit_plastic(learner)
        spec = world.spec
    save_agent(tmp_path / "agent.safetensors", policy, learner, spec, ABOUT)
    loaded, about = load_agent_policy(tmp_path / "agent.safetensors")
    assert about["env"] == "matrix"
    assert jax.tree.structure(loaded) == jax.tree.structure(policy)
    for mine, theirs in zip(jax.tree.leaves(policy), jax.tree.leaves(loaded), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    percept = Percept(jnp.arange(float(policy.observation_size)), jnp.float32(2.0), jnp.bool_(True))
    drawn = [one.act(jax.random.key(1), percept, one.initial_memory()) for one in (policy, loaded)]
    jax.tree.map(np.testing.assert_array_equal, *drawn)


def test_the_outside_agent_remembers_until_reset(tmp_path):
    write_untrained(tmp_path / "agent.safetensors", ABOUT, make_spec(reward_scale=0.1))
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
    save_population(tmp_path / "agent.safetensors", Population(always(0, 1, 2), always(0, 1, 2)), ABOUT)
    with pytest.raises(DamagedFile, match="expected"):
        load_agent(tmp_path)


def test_plastic_finds_the_best_response_after_one_episode(tmp_path):
    world, plastic = fit_plastic(Plastic())
    save_agent(tmp_path / "agent.safetensors", plastic, Plastic(), world.spec, ABOUT)
    loaded, _ = load_agent_policy(tmp_path / "agent.safetensors")
    record = evaluate_agent(jax.random.key(1), world.environment, loaded, trials=64, episodes=6)
    for partner, best in (("H1", 10.0), ("H2", 6.0), ("H3", 6.0)):
        # Playing action 3 earns 4 with teammates 1 and 2 alike, so two episodes may be needed.
        np.testing.assert_allclose(record.curve(partner)[2:], best)


def test_plastic_refuses_populations_and_seats_that_it_cannot_use():
    learner = Plastic()
    assert isinstance(learner, FittedLearner)
    world, _ = fit_plastic(learner)
    fewer = Population(always(0, 1), always(0, 1, 2))
    spec = agent_spec(learner, world.environment, TrainSettings(total_steps=1), 0, fewer)
    with pytest.raises(ValueError, match="got 2 best responses and 3 teammates"):
        learner.fit(jax.random.key(0), world._replace(population=fewer, spec=spec))
    one_sided = MatrixGame(payoffs=((3.0, 0.0, 1.0), (1.0, 2.0, 0.0), (0.0, 0.0, 1.0)))
    with pytest.raises(ValueError, match="belong in seat 0"):
        learner.fit(jax.random.key(0), world._replace(environment=one_sided, seat=1))


def spoil_agent(path, change) -> None:
    """Change what an agent's file holds, and write it again with a checksum that is right."""
    tensors, about = load_tensors(path)
    change(tensors, about)
    save_tensors(path, tensors, about)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def in_spec(**changes):
    return lambda t, a: a["spec"].update(changes)


WEIGHT = "policy.actor.encoder.weights.0"
NETWORK_SPOILS = {
    "lacks the tensor 'policy.actor.recurrent_weight'": lambda t, a: t.pop("policy.actor.recurrent_weight"),
    "lacks the tensor 'policy.actor.head.biases.0'": lambda t, a: t.pop("policy.actor.head.biases.0"),
    "holds policy.actor.encoder.weights.1 as float32": lambda t, a: t.update(
        {"policy.actor.encoder.weights.1": zeros(7, 24)}
    ),
    "holds policy.actor.encoder.weights.0 as float64": lambda t, a: t.update({WEIGHT: t[WEIGHT].astype(np.float64)}),
    "not finite in policy.actor.encoder.weights.0": lambda t, a: t[WEIGHT].fill(np.inf),
    "'policy.extra', for which its agent has no place": lambda t, a: t.update({"policy.extra": zeros(2)}),
    "'other.weight', which belongs to nothing": lambda t, a: t.update({"other.weight": zeros(2)}),
    "num_actions must be a whole number, got 3.0": in_spec(num_actions=3.0),
    "num_actions must be a whole number, got True": in_spec(num_actions=True),
    "describes an agent of sizes .*'num_actions': -3": in_spec(num_actions=-3),
    "describes an agent of sizes .*16777217": in_spec(memory_size=2**24 + 1),
    "describes an agent of sizes": in_spec(hidden_sizes=[4] * 100),
    "hidden_sizes must be a list of items, each a whole number": in_spec(hidden_sizes=["4"]),
    "where .* was expected": in_spec(hidden_sizes=[5]),
    "does not hold num_actions": lambda t, a: a["spec"].pop("num_actions"),
    "reward_scale must be a number, got 'nan'": in_spec(reward_scale=float("nan")),
    "reward_scale must be a finite number above 0": in_spec(reward_scale=-1.0),
    "seat must lie between 0 and 1, got 2": lambda t, a: a.update(seat=2),
    "seat must lie between 0 and 2, got 3": lambda t, a: a.update(seat=3, num_seats=3),
    "seat must be a whole number, got True": lambda t, a: a.update(seat=True),
    "num_seats must be at least 2, got 1": lambda t, a: a.update(num_seats=1),
    "masked must be true or false, got 1": lambda t, a: a.update(masked=1),
    "does not hold seat": lambda t, a: a.pop("seat"),
    "does not hold learner": lambda t, a: a.pop("learner"),
    "learner must be text": lambda t, a: a.update(learner=["rl2"]),
    "spec must be a JSON object": lambda t, a: a.update(spec=[]),
    "learner_settings must be a JSON object": lambda t, a: a.update(learner_settings=[]),
    "rl2 needs a recurrent network": lambda t, a: a.update(learner_settings={"network": "dense"}),
    "a setting of RL2 must be one of .*network, .*got 'bins'": lambda t, a: a.update(learner_settings={"bins": 3}),
    "network must be text, got 3": lambda t, a: a.update(learner_settings={"network": 3}),
    "does not describe the population": lambda t, a: a.update(learner="plastic", learner_settings={}),
    "does not hold env_parameters": lambda t, a: a.pop("env_parameters"),
    "was written by another version of coverset": lambda t, a: a.update(format="coverset agent 1"),
}


@pytest.mark.parametrize("sentence", NETWORK_SPOILS)
def test_agents_that_could_not_act_are_refused(tmp_path, sentence):
    write_untrained(tmp_path / "agent.safetensors", ABOUT, make_spec(reward_scale=0.5))
    spoil_agent(tmp_path / "agent.safetensors", NETWORK_SPOILS[sentence])
    with pytest.raises(DamagedFile, match=sentence):
        load_agent(tmp_path)


FOREIGN = {
    "odd_learners:Greedy": lambda t, a: a.update(learner="odd_learners:Greedy"),
    "elman:Elman": lambda t, a: a.update(learner_settings={"network": "elman:Elman"}),
    "os:system": lambda t, a: a["spec"].update(best_responses={"kind": "os:system"}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_code_that_a_file_names_is_not_imported_unless_it_is_trusted(tmp_path, name):
    write_untrained(tmp_path / "agent.safetensors", ABOUT, make_spec())
    spoil_agent(tmp_path / "agent.safetensors", FOREIGN[name])
    with pytest.raises(ValueError, match=f"would import '{name}'.*--trust {name}"):
        load_agent(tmp_path)


def test_whole_numbers_pass_for_numbers(tmp_path):
    write_untrained(tmp_path / "agent.safetensors", ABOUT, make_spec(fourier_bandwidth=0, reward_scale=1))
    load_agent(tmp_path)


def test_an_unknown_learner_of_a_file_is_told_with_the_known_ones(tmp_path):
    write_untrained(tmp_path / "agent.safetensors", ABOUT, make_spec())
    spoil_agent(tmp_path / "agent.safetensors", lambda t, a: a.update(learner="rl3"))
    with pytest.raises(ValueError, match=r"agent.safetensors: learner must be rl2.*Did you mean 'rl2'"):
        load_agent(tmp_path)


def halves(**changes):
    return lambda t, a: [a["spec"][half].update(changes) for half in ("best_responses", "teammates")]


PLASTIC_SPOILS = {
    "holds policy.edges as float32": lambda t, a: t.update({"policy.edges": zeros(5)}),
    "holds policy.log_likelihood as float32": lambda t, a: t.update({"policy.log_likelihood": zeros(3, 3, 5)}),
    "holds policy.library.network.weights.0": halves(size=2),
    "describes best_responses of 0 members": halves(size=0),
    "size must be a whole number": halves(size=2.5),
    "does not hold size": lambda t, a: a["spec"]["best_responses"].pop("size"),
    "where .* was expected": lambda t, a: a.update(learner_settings={"bins": 10**12}),
    "describes a network of sizes": halves(num_outputs=10**9),
    "must be described by an object": lambda t, a: a["spec"].update(best_responses=[]),
}


@pytest.mark.parametrize("sentence", PLASTIC_SPOILS)
def test_libraries_that_do_not_fit_their_beliefs_are_refused(tmp_path, sentence):
    world, plastic = fit_plastic(Plastic())
    save_agent(tmp_path / "agent.safetensors", plastic, Plastic(), world.spec, ABOUT)
    load_agent_policy(tmp_path / "agent.safetensors")
    spoil_agent(tmp_path / "agent.safetensors", PLASTIC_SPOILS[sentence])
    with pytest.raises(DamagedFile, match=sentence):
        load_agent_policy(tmp_path / "agent.safetensors")


def test_an_agent_of_a_game_with_illegal_actions_must_be_told_the_legal_ones(tmp_path):
    about = {**ABOUT, "seat": 2, "num_seats": 3, "masked": True}
    write_untrained(tmp_path / "agent.safetensors", about, make_spec(1, 3, reward_scale=0.5))
    agent = load_agent(tmp_path)
    with pytest.raises(ValueError, match="legal must be given"):
        agent.act([1.0])
    assert {agent.act([1.0], legal=[False, True, False]) for _ in range(20)} == {1}
