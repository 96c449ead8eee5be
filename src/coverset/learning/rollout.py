"""Episodes and trials of any policies. Written for one team in one environment; `vmap` adds the rest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.envs.base import Environment
from coverset.envs.seats import followed_conventions, perceive, rewards_by_seat
from coverset.policy import Policy
from coverset.types import Flag, PRNGKey, PyTree, Scalar


class Episode(NamedTuple):
    """What is left of an episode once it is over."""

    returns: Float[Array, "*b"]
    """The ego's."""
    discounted_returns: Float[Array, "*b"]
    length: Int[Array, "*b"]
    conventions: Int[Array, "*b 2"]
    """Index of the convention that seat 0 and its team followed; see `Environment.convention`."""
    seat_returns: Float[Array, "*b seats"]
    """Every seat's; all the same in a game with a common reward."""


class _Playing(NamedTuple):
    key: PRNGKey
    state: PyTree
    memories: tuple[PyTree, ...]
    rewards: Float[Array, "seats"]
    returns: Float[Array, "seats"]
    discounted_returns: Scalar
    length: Int[Array, ""]
    over: Flag


def seat_policies(environment: Environment, policies: tuple[Policy, ...], ego: int = 0) -> tuple[Policy, ...]:
    """One policy for every seat: a second policy of two plays all seats but the ego's, counted from there."""
    seats = environment.num_seats
    if seats == 2 or len(policies) == seats:
        ordered = policies
    elif len(policies) == 2:
        ordered = (policies[0], *policies[1:] * (seats - 1))
    else:
        raise ValueError(
            f"a game of {seats} players needs an ego and a team, or {seats} policies, got {len(policies)}."
        )
    return ordered if seats == 2 else tuple(ordered[(seat - ego) % seats] for seat in range(seats))


def play_episode(
    key: PRNGKey,
    environment: Environment,
    policies: tuple[Policy, ...],
    memories: tuple[PyTree, ...],
    last_rewards: Float[Array, "seats"],
    *,
    discount: float = 1.0,
    ego: int = 0,
) -> tuple[Episode, tuple[PyTree, ...], Float[Array, "seats"]]:
    """Play until the episode ends. Returns it, all memories, and the rewards that closed it.

    Args:
      key: of the random numbers.
      environment: the game.
      policies: of every seat.
      memories: of every seat's policy.
      last_rewards: the rewards that closed the episode before.
      discount: for `discounted_returns`.
      ego: the seat whose returns count.
    """
    reset_key, key = jax.random.split(key)
    seats = range(environment.num_seats)

    def step(at: _Playing) -> _Playing:
        key, *act_keys, step_key = jax.random.split(at.key, environment.num_seats + 2)
        percepts = perceive(environment, at.state, at.rewards, at.length == 0, ego=ego)
        moves = [policies[s].act(act_keys[s], percepts[s], at.memories[s]) for s in seats]
        outcome = environment.step(step_key, at.state, jnp.stack([action for action, _ in moves]))
        rewards = rewards_by_seat(environment, outcome.reward)
        weight = discount ** at.length.astype(jnp.float32)
        return _Playing(
            key=key,
            state=outcome.state,
            memories=tuple(memory for _, memory in moves),
            rewards=rewards,
            returns=at.returns + rewards,
            discounted_returns=at.discounted_returns + weight * rewards[ego],
            length=at.length + 1,
            over=outcome.terminated | outcome.truncated,
        )

    start = _Playing(
        key=key,
        state=environment.reset(reset_key),
        memories=memories,
        rewards=last_rewards,
        returns=jnp.zeros(environment.num_seats),
        discounted_returns=jnp.float32(0.0),
        length=jnp.int32(0),
        over=jnp.bool_(False),
    )
    end = jax.lax.while_loop(lambda at: ~at.over, step, start)
    conventions = followed_conventions(environment, end.state)
    episode = Episode(end.returns[ego], end.discounted_returns, end.length, conventions, end.returns)
    return episode, end.memories, end.rewards


def play_trial(
    key: PRNGKey,
    environment: Environment,
    policies: tuple[Policy, ...],
    *,
    episodes: int,
    discount: float = 1.0,
    ego: int = 0,
) -> Episode:
    """A series of episodes of the same policies, memories handed on from one to the next; fields [episodes].

    Args:
      key: of the random numbers.
      environment: the game.
      policies: in a game of two players, of seat 0 and seat 1; in one of more, the ego's and its team's, or one for
        every seat counted from the ego's.
      episodes: of the trial.
      discount: for `discounted_returns`.
      ego: the seat whose returns count.
    """
    seated = seat_policies(environment, policies, ego)

    def next_episode(carry, key):
        episode, *carry = play_episode(key, environment, seated, *carry, discount=discount, ego=ego)
        return tuple(carry), episode

    memories = tuple(policy.initial_memory() for policy in seated)
    rewards = jnp.zeros(environment.num_seats)
    _, played = jax.lax.scan(next_episode, (memories, rewards), jax.random.split(key, episodes))
    return played
