"""Episodes that one pair of policies begins and another goes on with, by simulation, for games of two players."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.base import Environment
from coverset.envs.seats import perceive, rewards_by_seat
from coverset.policy import Policy
from coverset.types import Flag, PRNGKey, PyTree, Scalar


class SwitchedEpisode(NamedTuple):
    """What is left of an episode."""

    returns: Float[Array, "*b"]
    """The ego's."""
    earned_before: Float[Array, "*b"]
    """What the first pair earned of it."""
    reached: Bool[Array, "*b"]
    """Whether the second pair played at all."""
    length: Int[Array, "*b"]


class SwitchedPlay(NamedTuple):
    """Which pairs play: indices into the policies of both seats, [P], or [P, trials]."""

    before: tuple[Int[Array, "P"], Int[Array, "P"]]
    after: tuple[Int[Array, "P"], Int[Array, "P"]]
    switch: Int[Array, "P trials"]
    """The step from which on the second pair plays."""
    limit: Int[Array, "P trials"]
    """Steps after the switch at which the episode is cut off."""


class _Underway(NamedTuple):
    key: PRNGKey
    state: PyTree
    memories: tuple[PyTree, ...]
    """Of all four policies: every policy sees the whole episode from its seat, whoever acts."""
    rewards: Float[Array, "seats"]
    returns: Scalar
    earned_before: Scalar
    length: Int[Array, ""]
    over: Flag


@eqx.filter_jit
def play_switched(
    key: PRNGKey, environment: Environment, first: Policy, second: Policy, play: SwitchedPlay
) -> SwitchedEpisode:
    """Play one episode for every entry of `play.switch`; fields [P, trials].

    Args:
      key: of the random numbers.
      environment: a game of two players.
      first: stacked policies of seat 0.
      second: stacked policies of seat 1.
      play: who plays, when, and for how long.
    """
    keys = jax.random.split(key, play.switch.shape)

    def of_pair(keys: Array, before: tuple, after: tuple, switch: Array, limit: Array) -> SwitchedEpisode:
        chosen = [
            _take(policies, index)
            for pair in (before, after)
            for policies, index in zip((first, second), pair, strict=True)
        ]
        return jax.vmap(lambda *at: _play_episode(environment, tuple(chosen), *at))(keys, switch, limit)

    return jax.vmap(of_pair)(keys, play.before, play.after, play.switch, play.limit)


def _take(policies: Policy, index: Int[Array, ""]) -> Policy:
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, policies)


def _play_episode(
    environment: Environment, policies: tuple[Policy, ...], key: PRNGKey, switch: Array, limit: Array
) -> SwitchedEpisode:
    """One episode of the pair of the first two policies and then of that of the last two."""
    reset_key, key = jax.random.split(key)

    def step(at: _Underway) -> _Underway:
        key, step_key, *act_keys = jax.random.split(at.key, 2 + len(policies))
        percepts = perceive(environment, at.state, at.rewards, at.length == 0)
        moves = [
            policy.act(act_key, percepts[place % 2], memory)
            for place, (policy, act_key, memory) in enumerate(zip(policies, act_keys, at.memories, strict=True))
        ]
        actions = jnp.stack([action for action, _ in moves])
        outcome = environment.step(step_key, at.state, jnp.where(at.length < switch, actions[:2], actions[2:]))
        rewards, length = rewards_by_seat(environment, outcome.reward), at.length + 1
        over = outcome.terminated | outcome.truncated | (length >= switch + limit)
        return _Underway(
            key=key,
            state=outcome.state,
            memories=tuple(memory for _, memory in moves),
            rewards=rewards,
            returns=at.returns + rewards[0],
            earned_before=at.earned_before + jnp.where(at.length < switch, rewards[0], 0.0),
            length=length,
            over=over,
        )

    start = _Underway(
        key=key,
        state=environment.reset(reset_key),
        memories=tuple(policy.initial_memory() for policy in policies),
        rewards=jnp.zeros(environment.num_seats),
        returns=jnp.float32(0.0),
        earned_before=jnp.float32(0.0),
        length=jnp.int32(0),
        over=jnp.bool_(False),
    )
    end = jax.lax.while_loop(lambda at: ~at.over, step, start)
    return SwitchedEpisode(end.returns, end.earned_before, end.length > switch, end.length)
