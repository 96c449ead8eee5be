"""A small game with everything at once: turns, illegal actions, and any number of players with a reward each.

Players take items in turn until none is left; whoever waits has no legal action. An item is worth its number plus one
to the player who takes it; with a common reward, to all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.base import Environment
from coverset.policy import Policy
from coverset.types import Actions, Observations, Outcome, Percept, PRNGKey

ITEMS = 3


class PickingState(NamedTuple):
    """What is left, and how many items have been taken."""

    left: Bool[Array, "items"]
    time: Int[Array, ""]


class Greedy(Policy):
    """Takes the last or the first item that is left."""

    wants: Float[Array, "*n"]
    """1 for the last, -1 for the first."""

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        del key
        preference = self.wants * jnp.arange(1.0, 1.0 + ITEMS)
        return jnp.argmax(jnp.where(percept.legal, preference, -jnp.inf)).astype(jnp.int32), memory


class Stubborn(Policy):
    """Always takes the last item, whether or not it is left."""

    number: Int[Array, "*n"]

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        del key
        return jnp.where(percept.legal.sum() == 1, jnp.argmax(percept.legal).astype(jnp.int32), self.number), memory


@dataclass(frozen=True)
class Picking(Environment):
    """Items are taken in turn; seat 0 begins."""

    players: int = 3
    common: bool = False
    stubborn: bool = False
    """Whether one of the heuristics breaks the rules."""
    horizon: int = ITEMS

    @property
    def observation_size(self) -> int:
        return ITEMS + self.players

    @property
    def num_actions(self) -> tuple[int, ...]:
        return (ITEMS,) * self.players

    @property
    def seats_alike(self) -> bool:
        return False

    def _turn(self, state: PickingState) -> Bool[Array, "seats"]:
        return jnp.arange(self.players) == state.time % self.players

    def reset(self, key: PRNGKey) -> PickingState:
        del key
        return PickingState(jnp.ones(ITEMS, bool), jnp.int32(0))

    def step(self, key: PRNGKey, state: PickingState, actions: Actions) -> Outcome:
        del key
        turn = self._turn(state)
        taken = jnp.sum(jnp.where(turn, actions, 0))
        after = PickingState(state.left & (jnp.arange(ITEMS) != taken), state.time + 1)
        worth = (taken + 1).astype(jnp.float32)
        reward = worth if self.common else jnp.where(turn, worth, 0.0)
        return Outcome(after, reward, ~after.left.any(), (after.time >= self.horizon) & after.left.any())

    def observe(self, state: PickingState) -> Observations:
        seen = jnp.concatenate([state.left, self._turn(state)]).astype(jnp.float32)
        own = [jnp.roll(seen[ITEMS:], -seat) for seat in range(self.players)]
        return jnp.stack([jnp.concatenate([seen[:ITEMS], turn]) for turn in own])

    def legal_actions(self, state: PickingState) -> Bool[Array, "seats a"]:
        return self._turn(state)[:, None] & state.left[None]

    def render(self, state: PickingState, seat: int | None = None) -> str:
        del seat
        return " ".join(str(number) if left else "-" for number, left in enumerate(state.left))

    def heuristics(self) -> Mapping[str, Policy]:
        known: dict[str, Policy] = {"generous": Greedy(jnp.float32(-1.0)), "greedy": Greedy(jnp.float32(1.0))}
        return known | ({"stubborn": Stubborn(jnp.int32(ITEMS - 1))} if self.stubborn else {})


def trio() -> Environment:
    """Three players, each with a reward of its own."""
    return Picking()


def common_pair() -> Environment:
    """Two players who share one reward."""
    return Picking(players=2, common=True)


def with_stubborn() -> Environment:
    """Three players, with a heuristic that breaks the rules."""
    return Picking(stubborn=True)


def take_first(observation, reward, done, legal) -> int:
    """A plain function that takes the first item that is left."""
    del observation, reward, done
    return int(legal.argmax())


def take_last(observation, reward, done, legal) -> int:
    """A plain function that breaks the rules once the last item is gone."""
    del observation, reward, done
    return ITEMS - 1 if legal.sum() > 1 else int(legal.argmax())


def take_blindly(observation, reward, done) -> int:
    """A plain function that does not ask what is legal."""
    del observation, reward, done
    return 0


def lawless() -> Policy:
    """A compiled policy that breaks the rules."""
    return Stubborn(jnp.int32(ITEMS - 1))


def lawful() -> Policy:
    """A compiled policy that keeps to them."""
    return Greedy(jnp.float32(1.0))
