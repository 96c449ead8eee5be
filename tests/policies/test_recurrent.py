"""Recurrent networks: a whole rollout at once equals step after step, and memory is cleared where episodes start."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.policies.actor import ActorPolicy
from coverset.policies.network import (
    Network,
    NetworkSpec,
    clear_memory,
    initial_memories,
    network_class,
)
from coverset.policies.networks.dense import MLP
from coverset.policies.team import build_networks
from coverset.teammates.critic import PairCritic
from coverset.types import Percept

LENGTH, BATCH, FEATURES = 7, 3, 2
SPEC = NetworkSpec((FEATURES,), 4, (5,), memory_size=6)
KINDS = ("gru", "lstm")


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def network(kind: str) -> Network:
    return network_class(kind).build(jax.random.key(0), SPEC)


@pytest.fixture(scope="module")
def rollout() -> tuple[jax.Array, jax.Array]:
    """Observations, and where episodes start: never, twice, and at the first and last step."""
    inputs = jax.random.normal(jax.random.key(1), (LENGTH, BATCH, FEATURES))
    fresh = np.zeros((LENGTH, BATCH), bool)
    fresh[[2, 5], 1] = fresh[[0, LENGTH - 1], 2] = True
    return inputs, jnp.asarray(fresh)


@pytest.fixture(scope="module")
def memory(network: Network):
    """What an earlier rollout has left."""
    before = jax.random.normal(jax.random.key(2), (BATCH, FEATURES))
    return network.step(before, network.initial_memory(BATCH))[1]


def step_by_step(network: Network, inputs, fresh, memory) -> tuple[np.ndarray, list]:
    """One environment after the other, each with a memory of its own."""
    outputs = np.zeros((LENGTH, BATCH, SPEC.num_outputs), np.float32)
    left = []
    for place in range(BATCH):
        own = jax.tree.map(lambda x, p=place: x[p], memory)
        for t in range(LENGTH):
            own = network.initial_memory() if fresh[t, place] else own
            output, own = network.step(inputs[t, place], own)
            outputs[t, place] = output
        left.append(own)
    return outputs, left


def test_a_rollout_at_once_equals_step_after_step(network: Network, rollout, memory) -> None:
    inputs, fresh = rollout
    wanted, _ = step_by_step(network, inputs, fresh, memory)
    np.testing.assert_allclose(network.unroll(inputs, memory, fresh), wanted, rtol=1e-4, atol=1e-5)


def test_what_came_before_an_episode_changes_nothing_in_it_and_all_that_came_since_does(
    network: Network, rollout, memory
) -> None:
    inputs, fresh = rollout
    outputs = network.unroll(inputs, memory, fresh)
    nothing = network.unroll(inputs, network.initial_memory(BATCH), fresh)
    moved = np.any(np.asarray(outputs) != np.asarray(nothing), axis=-1)
    np.testing.assert_array_equal(moved, np.cumsum(np.asarray(fresh), axis=0) == 0)
    for changed in range(LENGTH):
        other = network.unroll(inputs.at[changed].add(1.0), memory, fresh)
        moved = np.any(np.asarray(outputs) != np.asarray(other), axis=-1)
        episode = np.cumsum(np.asarray(fresh), axis=0)
        wanted = (episode == episode[changed]) & (np.arange(LENGTH) >= changed)[:, None]
        np.testing.assert_array_equal(moved, wanted)


def test_a_stack_of_networks_starts_with_the_memory_of_each(kind: str) -> None:
    stacked = build_networks(kind, jax.random.split(jax.random.key(0), 3), SPEC)
    memories = initial_memories(stacked, 3, 2)
    assert all(leaf.shape == (3, 2, SPEC.memory_size) for leaf in jax.tree.leaves(memories))


def test_clearing_chooses_by_environment() -> None:
    memory = {"a": jnp.ones((2, 3)), "b": jnp.ones((2, 3, 4))}
    cleared = clear_memory(memory, jax.tree.map(jnp.zeros_like, memory), jnp.array([[True, False, False]] * 2))
    np.testing.assert_array_equal(cleared["a"], [[0.0, 1.0, 1.0]] * 2)
    np.testing.assert_array_equal(cleared["b"][..., 2], [[0.0, 1.0, 1.0]] * 2)


def test_a_policy_forgets_an_episode_when_the_next_one_starts(kind: str, network: Network) -> None:
    policy = ActorPolicy(network, kind, SPEC)
    seen = [Percept(jnp.full(FEATURES, t + 1.0), jnp.float32(0.0), jnp.bool_(f)) for t, f in enumerate((1, 0, 1, 0))]
    probabilities, memory = [], policy.initial_memory()
    for percept in seen:
        probabilities.append(policy.action_probabilities(percept, memory))
        _, memory = policy.act(jax.random.key(0), percept, memory)
    alone = policy.action_probabilities(seen[2], policy.initial_memory())
    np.testing.assert_array_equal(probabilities[2], alone)
    assert not np.allclose(probabilities[1], policy.action_probabilities(seen[1], policy.initial_memory()), atol=1e-7)


@pytest.fixture(scope="module")
def critic(kind: str) -> PairCritic:
    return PairCritic.create(jax.random.key(3), kind, NetworkSpec((2 * FEATURES,), 1, (5,), memory_size=6), 2, 3)


def test_a_critic_evaluates_as_it_unrolls_and_steps_once_more_from_there(critic: PairCritic, rollout) -> None:
    _, fresh = rollout
    shape = (LENGTH, BATCH, 2, FEATURES)
    seen, final = (jax.random.normal(jax.random.key(seed), shape) for seed in (4, 5))
    identity = critic.identity(jnp.array([0, 1, 1]), jnp.array([2, 0, 1]))
    initial = critic.network.initial_memory(BATCH)
    _, memory = critic.step(final[0], initial, identity)
    values = critic.evaluate(seen, final, memory, fresh, identity)
    np.testing.assert_allclose(values.present, critic.unroll(seen, memory, fresh, identity), rtol=1e-4, atol=1e-5)
    own = memory
    for t in range(LENGTH):
        present, own = critic.step(seen[t], clear_memory(own, initial, fresh[t]), identity)
        np.testing.assert_allclose(values.present[t], present, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(values.following[t], critic.step(final[t], own, identity)[0], rtol=1e-4, atol=1e-5)
    for left, right in zip(jax.tree.leaves(values.memory), jax.tree.leaves(own), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


class Forgetful(MLP):
    """Says that it is recurrent, but not how it unrolls."""

    recurrent: ClassVar[bool] = True


def test_a_recurrent_network_must_say_how_it_unrolls(rollout) -> None:
    network = Forgetful.build(jax.random.key(0), SPEC)
    with pytest.raises(TypeError, match=r"^Forgetful is recurrent and must define unroll\.$"):
        network.unroll(rollout[0], (), rollout[1])
