"""A game of its own in one file, as somebody outside of coverset would write it: rules, partners, oracle and board.

Two players stand in a dark corridor of three lamps and switch one lamp each in every step, without seeing the other's
choice. A step in which both switch the same lamp pays that lamp's brightness; any other step pays nothing. Which lamp
to meet at is a convention.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset import Environment, Policy
from coverset.envs.base import time_limit
from coverset.envs.drawing import Action, Board, Grid, Mark, Scene
from coverset.envs.oracle import Oracle
from coverset.types import Outcome

NAMES = ("red", "green", "blue")


class LampsState(NamedTuple):
    """The lamps that both have switched last, -1 before the first step."""

    switched: Int[Array, "2"]
    time: Int[Array, ""]


class Switcher(Policy):
    """Switch lamps with fixed probabilities."""

    probabilities: Float[Array, "lamps"]

    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return jax.random.categorical(key, jnp.log(self.probabilities)), memory


class RoundRobin(Policy):
    """Switch the lamps in turn, from the first one on; the memory is the next lamp."""

    first_lamp: Int[Array, ""]

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        lamp = jnp.where(percept.first, self.first_lamp, memory)
        return lamp, (lamp + 1) % len(NAMES)


@dataclass(frozen=True)
class Lamps(Environment):
    """Switch the same lamp as the partner, for `horizon` steps."""

    brightness: tuple[float, ...] = (1.0, 1.0, 0.5)
    horizon: int = 2

    @property
    def observation_size(self):
        return 1

    @property
    def num_actions(self):
        return len(NAMES), len(NAMES)

    def reset(self, key):
        return LampsState(jnp.full(2, -1, jnp.int32), jnp.int32(0))

    def step(self, key, state, actions):
        met = actions[0] == actions[1]
        reward = jnp.where(met, jnp.asarray(self.brightness, jnp.float32)[actions[0]], 0.0) / self.horizon
        time = state.time + 1
        never = jnp.bool_(False)
        return Outcome(
            LampsState(actions.astype(jnp.int32), time), reward, never, time_limit(time, self.horizon, never)
        )

    def observe(self, state):
        return jnp.ones((2, 1), jnp.float32)

    def render(self, state):
        return "both wait" if int(state.time) == 0 else " and ".join(NAMES[lamp] for lamp in state.switched.tolist())

    @property
    def conventions(self):
        return tuple(f"{name} lamp" for name in NAMES)

    @property
    def convention_payoffs(self):
        return tuple(tuple(b if i == j else 0.0 for j in range(3)) for i, b in enumerate(self.brightness))

    def convention(self, state, seat):
        return state.switched[seat]

    def heuristics(self):
        likes = [Switcher(jnp.full(3, 0.1).at[lamp].set(0.8)) for lamp in range(3)]
        return {**dict(zip(NAMES, likes, strict=True)), "in-turn": RoundRobin(jnp.int32(0))}

    def describe_heuristics(self):
        return {name: f"Mostly switches the {name} lamp." for name in NAMES}

    def best_response(self, partner, seat):
        """Every step is independent of the others: switch the lamp that pays most in expectation."""
        if not isinstance(partner, Switcher):
            return None
        expected = np.asarray(partner.probabilities) * self.brightness
        lamp = int(expected.argmax())
        everything = float(expected.sum())
        return Oracle(float(expected[lamp]), True, everything, Switcher(jnp.eye(3)[lamp]))

    def board(self):
        keys = [Action(name, name[0], highlighted=name == "red") for name in NAMES]
        places = [Mark((0, column), name[0].upper(), f"{name} lamp") for column, name in enumerate(NAMES)]
        rules = "Switch the same lamp as your partner. It pays its brightness."
        return Board(rules, (keys, keys), Grid(2, len(NAMES), places), hides_partner=True)

    def scene(self, state):
        first, second = (int(lamp) for lamp in state.switched)
        if first < 0:
            return Scene(words="All lamps are dark.")
        lit = [Mark((0, first), "*", f"light of the {NAMES[first]} lamp")] if first == second else []
        return Scene(((1, first), (1, second)), objects=lit)
