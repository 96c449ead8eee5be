"""The agent's network: memory, its clearing, and that acting step by step equals unrolling a rollout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.agent import AdHocPolicy, AgentMemory, MemoryNetwork, create_actor, features
from coverset.types import Percept


def network(recurrent: bool) -> MemoryNetwork:
    return MemoryNetwork.create(jax.random.key(0), 5, (7,), 6, 3, recurrent=recurrent)


@pytest.mark.parametrize("recurrent", [True, False])
def test_unroll_equals_steps_with_memory_cleared_where_trials_start(recurrent):
    net = network(recurrent)
    inputs = jax.random.normal(jax.random.key(1), (9, 2, 5))
    fresh = jnp.zeros((9, 2), bool).at[4, 0].set(True).at[7, 1].set(True)
    start = jax.tree.map(lambda m: m + 0.3, net.initial_memory(2))
    unrolled = net.unroll(inputs, start, fresh)
    memory, outputs = start, []
    for t in range(9):
        memory = jax.tree.map(lambda m, t=t: jnp.where(fresh[t][:, None], 0.0, m), memory)
        output, memory = net.step(inputs[t], memory)
        outputs.append(output)
    np.testing.assert_allclose(unrolled, jnp.stack(outputs), rtol=1e-5, atol=1e-6)


def test_memory_before_a_fresh_step_has_no_say_after_it():
    net = network(True)
    inputs = jax.random.normal(jax.random.key(1), (6, 1, 5))
    fresh = jnp.zeros((6, 1), bool).at[3, 0].set(True)
    first = net.unroll(inputs, net.initial_memory(1), fresh)
    other = net.unroll(inputs.at[:3].add(1.0), net.initial_memory(1), fresh)
    np.testing.assert_array_equal(first[3:], other[3:])
    assert not np.allclose(first[:3], other[:3])


def test_without_memory_only_the_present_input_counts():
    net = network(False)
    inputs = jax.random.normal(jax.random.key(1), (4, 1, 5))
    changed = net.unroll(inputs.at[:3].add(1.0), net.initial_memory(1), jnp.zeros((4, 1), bool))
    same = net.unroll(inputs, net.initial_memory(1), jnp.zeros((4, 1), bool))
    np.testing.assert_array_equal(changed[3], same[3])


def test_features_hold_observation_last_action_reward_and_start():
    percept = Percept(jnp.array([0.5, -1.0]), jnp.float32(4.0), jnp.bool_(True))
    read = features(percept, jnp.int32(1), 3, recurrent=True)
    np.testing.assert_array_equal(read, [0.5, -1.0, 0.0, 1.0, 0.0, 4.0, 1.0])
    none = features(percept, jnp.int32(-1), 3, recurrent=True)
    np.testing.assert_array_equal(none[2:5], 0.0)
    np.testing.assert_array_equal(features(percept, jnp.int32(1), 3, recurrent=False), percept.observation)


def test_policy_scales_the_reward_it_reads_and_remembers_its_action():
    actor = create_actor(jax.random.key(0), 2, 3, (4,), 5, recurrent=True)
    memory = AgentMemory(actor.initial_memory(), jnp.int32(2))
    percept = Percept(jnp.ones(2), jnp.float32(10.0), jnp.bool_(False))
    scaled, _ = AdHocPolicy(actor, 3, 0.1).logits(percept, memory)
    plain, _ = AdHocPolicy(actor, 3, 1.0).logits(percept._replace(reward=jnp.float32(1.0)), memory)
    np.testing.assert_allclose(scaled, plain, rtol=1e-6)
    action, after = AdHocPolicy(actor, 3, 0.1).act(jax.random.key(3), percept, memory)
    assert after.last_action == action
