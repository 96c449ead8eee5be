"""Episodes and draws of heuristics, shared by the tests of the games."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coverset.envs.extensions import heuristics
from coverset.types import Percept


class Played(NamedTuple):
    """An episode's states before each step, joint actions, return and length."""

    states: object
    actions: jax.Array
    total: jax.Array
    steps: jax.Array
    final: object


def play(environment, start, key, policies) -> Played:
    """One episode of a policy in every seat from `start`; after its end everything stands still."""

    def body(carry, key):
        state, memories, first, ended = carry
        observations = environment.observe(state)
        keys = jax.random.split(key, len(policies) + 1)
        moves = [
            policy.act(keys[seat], Percept(observations[seat], jnp.float32(0), first), memories[seat])
            for seat, policy in enumerate(policies)
        ]
        actions, memories = jnp.stack([move[0] for move in moves]), tuple(move[1] for move in moves)
        outcome = environment.step(keys[-1], state, actions)
        after = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, outcome.state)
        carry = (after, memories, jnp.array(False), ended | outcome.terminated | outcome.truncated)
        return carry, (state, actions, jnp.where(ended, 0.0, outcome.reward), ~ended)

    memories = tuple(policy.initial_memory() for policy in policies)
    carry = (start, memories, jnp.array(True), jnp.array(False))
    (final, *_), (states, actions, rewards, running) = jax.lax.scan(
        body, carry, jax.random.split(key, environment.horizon)
    )
    return Played(states, actions, rewards.sum(), running.sum(dtype=jnp.int32), final)


def stacked_heuristics(environment):
    """All heuristics of an environment on a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *heuristics(environment).values())


@partial(jax.jit, static_argnames="number")
def draw(policies, percept, number: int):
    """Actions of all stacked policies at the start of `number` trials, [policies, number], and their memories."""

    def one(policy, key):
        return policy.act(key, percept, policy.initial_memory())

    keys = jax.random.split(jax.random.key(0), number)
    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(policies, keys)


def frequencies(values, number: int) -> np.ndarray:
    return np.stack([np.bincount(row, minlength=number) / len(row) for row in np.asarray(values)])
