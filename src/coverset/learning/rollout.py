"""Episodes and trials of any two policies. Written for one pair in one environment; `vmap` adds the rest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.envs.base import Environment
from coverset.policy import Policy
from coverset.types import Flag, Percept, PRNGKey, PyTree, Scalar


class Episode(NamedTuple):
    """What is left of an episode once it is over."""

    returns: Float[Array, "*b"]
    discounted_returns: Float[Array, "*b"]
    length: Int[Array, "*b"]
    conventions: Int[Array, "*b 2"]
    """Index of the convention that each seat followed; see `Environment.convention`."""


class _Playing(NamedTuple):
    key: PRNGKey
    state: PyTree
    memories: tuple[PyTree, PyTree]
    reward: Scalar
    returns: Scalar
    discounted_returns: Scalar
    length: Int[Array, ""]
    over: Flag


def play_episode(
    key: PRNGKey,
    environment: Environment,
    policies: tuple[Policy, Policy],
    memories: tuple[PyTree, PyTree],
    last_reward: Scalar,
    *,
    discount: float = 1.0,
) -> tuple[Episode, tuple[PyTree, PyTree], Scalar]:
    """Play until the episode ends. Returns it, both memories, and the reward that closed it.

    Args:
      key: of the random numbers.
      environment: the game.
      policies: of seat 0 and seat 1.
      memories: of both policies.
      last_reward: the reward that closed the episode before.
      discount: for `discounted_returns`.
    """
    reset_key, key = jax.random.split(key)

    def step(at: _Playing) -> _Playing:
        key, *act_keys, step_key = jax.random.split(at.key, 4)
        observations = environment.observe(at.state)
        percepts = [Percept(observations[seat], at.reward, at.length == 0) for seat in (0, 1)]
        moves = [policies[s].act(act_keys[s], percepts[s], at.memories[s]) for s in (0, 1)]
        outcome = environment.step(step_key, at.state, jnp.stack([action for action, _ in moves]))
        return _Playing(
            key=key,
            state=outcome.state,
            memories=(moves[0][1], moves[1][1]),
            reward=outcome.reward,
            returns=at.returns + outcome.reward,
            discounted_returns=at.discounted_returns + discount ** at.length.astype(jnp.float32) * outcome.reward,
            length=at.length + 1,
            over=outcome.terminated | outcome.truncated,
        )

    zero = jnp.float32(0.0)
    start = _Playing(
        key, environment.reset(reset_key), memories, last_reward, zero, zero, jnp.int32(0), jnp.bool_(False)
    )
    end = jax.lax.while_loop(lambda at: ~at.over, step, start)
    conventions = jnp.stack([environment.convention(end.state, seat) for seat in (0, 1)])
    return Episode(end.returns, end.discounted_returns, end.length, conventions), end.memories, end.reward


def play_trial(
    key: PRNGKey, environment: Environment, policies: tuple[Policy, Policy], *, episodes: int, discount: float = 1.0
) -> Episode:
    """A series of episodes of the same two policies, memories handed on from one to the next; fields [episodes].

    Args:
      key: of the random numbers.
      environment: the game.
      policies: of seat 0 and seat 1.
      episodes: of the trial.
      discount: for `discounted_returns`.
    """

    def next_episode(carry, key):
        episode, *carry = play_episode(key, environment, policies, *carry, discount=discount)
        return tuple(carry), episode

    memories = (policies[0].initial_memory(), policies[1].initial_memory())
    _, played = jax.lax.scan(next_episode, (memories, jnp.float32(0.0)), jax.random.split(key, episodes))
    return played
