"""Seats and sides: seat 0 is the ego's side, all other seats form the team's side.

The pair grid and the agents' trials know two sides. An array of a side has an axis of seats only where the side has
several: in games of two players nothing is added to what two players need.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from coverset.envs.base import Environment
from coverset.types import Percept, PyTree, Scalar

PASS_ACTION = 0
"""Played by a seat that has no legal action."""


class Side(NamedTuple):
    """What the policies of one side read, and among how many actions they choose."""

    num_seats: int
    num_actions: int
    """Of the seat that has most."""
    observation_shape: tuple[int, ...]

    @property
    def observation_size(self) -> int:
        """Length of the flat observation."""
        return int(np.prod(self.observation_shape))


def sides(environment: Environment) -> tuple[Side, Side]:
    """The ego's side and the team's."""
    actions, shapes = environment.num_actions, environment.observation_shapes
    return _side(actions[:1], shapes[:1]), _side(actions[1:], shapes[1:])


def _side(actions: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> Side:
    """Seats of different shapes read vectors that are as long as the longest of them."""
    shape = shapes[0] if len(set(shapes)) == 1 else (max(int(np.prod(shape)) for shape in shapes),)
    return Side(len(actions), max(actions), shape)


class Seating(NamedTuple):
    """Who sits where when the ego takes any seat."""

    ego: int
    team: tuple[int, ...]
    """All other seats, counted on from the ego's."""
    ego_side: Side
    team_side: Side

    def split(self, values: Shaped[Array, "*b seats"]) -> tuple[Array, Array]:
        """The ego's entry [*b] and the team's [*b] or [*b, S] of an array whose last axis is seats."""
        return values[..., self.ego], values[..., self.team[0] if len(self.team) == 1 else list(self.team)]

    def join(self, ego: Shaped[Array, "*b"], team: Shaped[Array, "..."]) -> Shaped[Array, "*b seats"]:
        """Inverse of `split`."""
        joined = join_seats(ego, team)
        return joined if self.ego == 0 else jnp.roll(joined, self.ego, axis=-1)

    def for_team(self, values: Shaped[Array, "*b"]) -> Shaped[Array, "..."]:
        """The same entry for every seat of the team, on its axis of seats if it has one."""
        seats = len(self.team)
        return values if seats == 1 else jnp.broadcast_to(values[..., None], (*values.shape, seats))

    def observations(self, observations: Float[Array, "*b seats d"]) -> tuple[Array, Array]:
        """What the ego observes, [*b, d], and what the team does, [*b, d] or [*b, S, d]."""
        ego, team = self._split_rows(observations)
        return ego[..., : self.ego_side.observation_size], team[..., : self.team_side.observation_size]

    def mask(self, mask: Bool[Array, "*b seats a"] | None) -> tuple[Array | None, Array | None]:
        """Legal actions of the ego and of the team."""
        if mask is None:
            return None, None
        ego, team = self._split_rows(mask)
        return ego[..., : self.ego_side.num_actions], team[..., : self.team_side.num_actions]

    def _split_rows(self, rows: Shaped[Array, "*b seats x"]) -> tuple[Array, Array]:
        team = rows[..., self.team[0], :] if len(self.team) == 1 else rows[..., list(self.team), :]
        return rows[..., self.ego, :], team


def seating(environment: Environment, ego: int = 0) -> Seating:
    """Who sits where when the ego takes a seat.

    In a game of two players a policy belongs to a seat. In one of more the seats of a policy are counted from the
    ego's, so that the ego may take another seat only where all are alike.
    """
    both, seats = sides(environment), environment.num_seats
    team = tuple((ego + place) % seats for place in range(1, seats))
    return Seating(ego, team, *(both[::-1] if seats == 2 and ego == 1 else both))


def partner_seat(environment: Environment, ego: int) -> int:
    """The seat for which partners of an ego are looked up: the other one of two, else the team's first."""
    return 1 - ego if environment.num_seats == 2 else 1


def check_ego_seat(environment: Environment, seat: int) -> None:
    """Raise ValueError unless the ego can take this seat."""
    if not (isinstance(seat, int) and 0 <= seat < environment.num_seats):
        *others, last = map(str, range(environment.num_seats))
        raise ValueError(f"seat must be {', '.join(others)} or {last}, got {seat}.")
    if seat and environment.num_seats > 2 and not environment.seats_alike:
        raise ValueError(
            f"seat must be 0 in a game of {environment.num_seats} players whose seats are not alike, got {seat}."
        )


def split_seats(values: Shaped[Array, "*b seats"]) -> tuple[Array, Array]:
    """The ego's entry [*b] and the team's [*b] or [*b, S] of an array whose last axis is seats."""
    return values[..., 0], values[..., 1] if values.shape[-1] == 2 else values[..., 1:]


def join_seats(ego: Shaped[Array, "*b"], team: Shaped[Array, "..."]) -> Shaped[Array, "*b seats"]:
    """Inverse of `split_seats`."""
    if team.ndim == ego.ndim:
        return jnp.stack([ego, team], axis=-1)
    return jnp.concatenate([ego[..., None], team], axis=-1)


def team_axis(environment: Environment) -> tuple[int, ...]:
    """The axis of seats that arrays of the team have: none in games of two players."""
    return () if environment.num_seats == 2 else (environment.num_seats - 1,)


def for_team(environment: Environment, values: Shaped[Array, "*b"]) -> Shaped[Array, "..."]:
    """The same entry for every seat of the team, on its axis of seats if it has one."""
    return seating(environment).for_team(values)


def action_mask(environment: Environment, state: PyTree) -> Bool[Array, "seats a"] | None:
    """Every seat's legal actions, among them the pass where there is no other; None where nothing is masked.

    Seats of the team that have fewer actions than another are masked too: all of them choose among the same number.
    """
    legal, sizes = environment.legal_actions(state), environment.num_actions
    if legal is None and len(set(sizes[1:])) == 1:
        return None
    exists = jnp.arange(max(sizes))[None] < jnp.array(sizes)[:, None]
    if legal is None:
        return exists
    legal = legal & exists
    passes = (jnp.arange(max(sizes)) == PASS_ACTION)[None] & ~legal.any(axis=-1, keepdims=True)
    return legal | passes


def is_masked(environment: Environment) -> bool:
    """Whether some actions may be illegal."""
    key = jax.random.key(0)
    return jax.eval_shape(lambda: action_mask(environment, environment.reset(key))) is not None


def describe_seats(environment: Environment) -> dict[str, Any]:
    """What a file of policies records of the game's seats, so that the policies can be used without the game."""
    return {"num_seats": environment.num_seats, "masked": is_masked(environment)}


@lru_cache(maxsize=256)
def has_common_reward(environment: Environment) -> bool:
    """Whether all seats share one reward."""
    actions = jnp.zeros(environment.num_seats, jnp.int32)
    key = jax.random.key(0)
    outcome = jax.eval_shape(lambda: environment.step(key, environment.reset(key), actions))
    return outcome.reward.shape == ()


def reward_of(reward: Scalar | Float[Array, "seats"], seat: int) -> Scalar:
    """One seat's reward of a single step."""
    return reward if reward.ndim == 0 else reward[seat]


def rewards_by_seat(environment: Environment, reward: Scalar | Float[Array, "seats"]) -> Float[Array, "seats"]:
    """Every seat's reward of a single step."""
    return jnp.broadcast_to(reward, (environment.num_seats,))


def perceive(
    environment: Environment,
    state: PyTree,
    rewards: Float[Array, "seats"],
    first: Bool[Array, ""],
    *,
    ego: int = 0,
) -> tuple[Percept, ...]:
    """What every seat perceives in `state`.

    Args:
      environment: the game.
      state: its present state.
      rewards: every seat's reward for the previous step.
      first: whether the episode starts.
      ego: the seat of the ego, from which the seats that policies know are counted.
    """
    observations, mask, seats = environment.observe(state), action_mask(environment, state), seating(environment, ego)

    def percept(seat: int) -> Percept:
        side = seats.ego_side if seat == ego else seats.team_side
        legal = None if mask is None else mask[seat, : side.num_actions]
        observation = observations[seat, : side.observation_size]
        return Percept(observation, rewards[seat], first, legal, seat_label(environment, seat, ego))

    return tuple(map(percept, range(environment.num_seats)))


def seat_label(environment: Environment, seat: int, ego: int = 0) -> Int[Array, ""] | None:
    """The number of a seat as a policy knows it, counted from the ego's; None in games of two players."""
    return None if environment.num_seats == 2 else jnp.int32((seat - ego) % environment.num_seats)


def followed_conventions(environment: Environment, state: PyTree) -> Int[Array, "2"]:
    """The conventions that ego and team followed in the episode that ended in `state`.

    A team whose seats followed different ones followed none.
    """
    ego, first, *others = (environment.convention(state, seat) for seat in range(environment.num_seats))
    none = jnp.asarray(len(environment.conventions), first.dtype)
    for other in others:
        first = jnp.where(first == other, first, none)
    return jnp.stack([ego, first])
