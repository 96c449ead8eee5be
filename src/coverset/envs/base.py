"""The contract of an environment of two or more players.

An environment is a frozen, hashable dataclass of parameters (so that it can be static under `jit`) with pure methods.
An environment does not reset itself: `step` returns the next state whether or not the episode has ended, and rollouts
reset with `autoreset`, so the final observation is never lost.
"""

import abc
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from coverset.envs.drawing import Board, Scene
from coverset.envs.oracle import Oracle, PartnerDraws
from coverset.policy import Policy
from coverset.types import Actions, Flag, Observations, Outcome, PRNGKey, PyTree, Symmetry, Trajectory

OMIT_DEFAULT: Mapping[str, bool] = {"omit_default": True}
"""Metadata of a parameter that records omit at its default, so that records from before it existed stay the same."""


class ReturnUnit(NamedTuple):
    """What a return is counted in, beside plain numbers."""

    name: str
    """In the plural, such as "soups"."""
    size: float
    """The return that one of them is worth."""


class Environment(abc.ABC):
    """Two or more seats and discrete actions; a common reward, or one for each seat.

    Seat 0 belongs to the best response or ad hoc agent, all other seats to its teammates (`envs.seats`).
    """

    version: ClassVar[int] = 1
    """Incremented whenever the same state and actions would lead to a different outcome."""

    horizon: int
    """Number of steps after which an episode is truncated."""

    @property
    @abc.abstractmethod
    def observation_size(self) -> int:
        """Length d of one seat's observation vector; of the longest, where seats differ."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape that a convolutional network gives to one seat's observation; its product is `observation_size`."""
        return (self.observation_size,)

    @property
    def observation_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of every seat's observation, where they differ; `observe` pads shorter ones with zeros."""
        return (self.observation_shape,) * self.num_seats

    @property
    @abc.abstractmethod
    def num_actions(self) -> tuple[int, ...]:
        """Number of actions of every seat."""

    @property
    def num_seats(self) -> int:
        """Number of players."""
        return len(self.num_actions)

    @abc.abstractmethod
    def reset(self, key: PRNGKey) -> PyTree:
        """Draw an initial state from p_0."""

    def initial_states(self) -> tuple[PyTree, Float[np.ndarray, "n"]] | None:
        """The full distribution p_0: every state that `reset` may draw, stacked, and its probability; None if unknown.

        An environment that returns it declares that the game is finite and that `step` is deterministic, so that it can
        be solved exactly; `coverset certify` checks both. A step counter in the state should affect nothing but the end
        of the episode at the horizon; otherwise time is part of the state, and there are more states.
        """
        return None

    @abc.abstractmethod
    def step(self, key: PRNGKey, state: PyTree, actions: Actions) -> Outcome:
        """Play one joint action. `terminated` and `truncated` are never both set."""

    @abc.abstractmethod
    def observe(self, state: PyTree) -> Observations:
        """Every seat's observation of `state`, float32 [seats, d]."""

    def legal_actions(self, state: PyTree) -> Bool[Array, "seats a"] | None:
        """Which actions every seat may choose, with as many columns as the seat with most actions has.

        None, the default, where all actions are always legal. A seat without a legal action passes: it plays action 0,
        which the game must ignore, as it does in a game of turns for the seats whose turn it is not.
        """
        del state
        return None

    @abc.abstractmethod
    def render(self, state: PyTree, seat: int | None = None) -> str:
        """Return the state as text: all of it, or what the player in `seat` may know.

        A game in which players see everything may leave out the second parameter.
        """

    @property
    def seats_alike(self) -> bool:
        """Whether the seats are interchangeable: same actions, rules and initial distribution."""
        return len(set(self.num_actions)) == 1

    @property
    def return_unit(self) -> ReturnUnit | None:
        """What results also count returns in, such as soups of 20; None for numbers alone."""
        return None

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """All symmetries of the game, the identity among them; empty if unknown.

        For each there is a relabelled state to every state: its observations are the relabelled ones of all seats, and
        relabelled actions lead, with the same random key, to the same rewards, ends and the relabelled next state.
        """
        return ()

    @property
    def conventions(self) -> tuple[str, ...]:
        """Names of the members of the coverage set; empty if it is unknown."""
        return ()

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        """Return of convention `row` (seat 0) with partners that follow convention `column`."""
        return ()

    def convention(self, state: PyTree, seat: int) -> Int[Array, ""]:
        """Return the convention that `seat` followed in the episode that ended in `state`.

        The result is an index into `conventions`, or `len(conventions)` for none of them.
        """
        del state, seat
        return jnp.int32(len(self.conventions))

    def describe(self, trajectory: Trajectory, seat: int) -> str:
        """A few words on what `seat` did in a whole episode, such as "waits at the left end".

        For games that do not name their conventions. `trajectory` holds host arrays of one episode. Summaries and
        tables then tell teammates apart by these words, and otherwise by their most telling action and observation.
        """
        raise NotImplementedError

    def heuristics(self) -> Mapping[str, Policy]:
        """Hand-written policies for all seats but 0 by name, as partners for evaluation.

        Names consist of letters, digits, `_`, `.` and `-`. If all policies share one class and differ only in arrays,
        agents can train with all of them under the name `heuristics`; otherwise with each by its own name.
        """
        return {}

    def describe_heuristics(self) -> Mapping[str, str]:
        """One sentence per heuristic that says what it does."""
        return {}

    def best_response(self, partner: Policy, seat: int) -> Oracle | None:
        """The best expected return of an agent in `seat` that knows its `partner`; None if it is unknown."""
        del partner, seat
        return None

    def partner_draws(self, partners: Sequence[Policy], seat: int) -> PartnerDraws | None:
        """What these partners of an agent in `seat` draw in an episode; None where that is not known."""
        del partners, seat
        return None

    def board(self) -> Board | None:
        """The static drawing of this game in the studio; None to show the text of `render`."""
        return None

    def scene(self, state: PyTree, seat: int | None = None) -> Scene | None:
        """The drawing of one state (host arrays) in the studio; None to show the text of `render`.

        As in `render`, `seat` asks for what one player may know.
        """
        del state, seat
        return None


def render_for(environment: Environment, state: PyTree, seat: int | None = None) -> str:
    """The text of a state for a seat; all of it where the game's `render` takes no seat."""
    return environment.render(state, seat) if takes_seat(type(environment).render) else environment.render(state)


def scene_for(environment: Environment, state: PyTree, seat: int | None = None) -> Scene | None:
    """The drawing of a state for a seat; all of it where the game's `scene` takes no seat."""
    return environment.scene(state, seat) if takes_seat(type(environment).scene) else environment.scene(state)


@lru_cache(maxsize=256)
def takes_seat(method: Callable[..., Any]) -> bool:
    """Whether a game's `render` or `scene` can show what one player may know."""
    return "seat" in inspect.signature(method).parameters


def autoreset(outcome: Outcome, fresh_state: PyTree) -> PyTree:
    """Return `fresh_state` if the episode has ended, otherwise the state after the step."""
    ended = outcome.terminated | outcome.truncated
    return jax.tree.map(lambda fresh, old: jnp.where(ended, fresh, old), fresh_state, outcome.state)


def time_limit(time: Int[Array, ""], horizon: int, terminated: Flag) -> Flag:
    """Whether the time limit truncates an episode that has not terminated after `time` steps."""
    return (time >= horizon) & ~terminated


def pad_observations(*observations: Num[Array, "..."]) -> Float[Array, "seats d"]:
    """Observations of seats that see different numbers of things: flat, and padded with zeros to the longest.

    An environment returns them from `observe`, with the lengths of all seats in `observation_shapes`.
    """
    rows = [jnp.asarray(one, jnp.float32).reshape(-1) for one in observations]
    longest = max(map(len, rows))
    return jnp.stack([jnp.pad(row, (0, longest - len(row))) for row in rows])


def one_hot_cell(position: Int[Array, "2"], rows: int, columns: int) -> Float[Array, "cells"]:
    """One-hot encoding of a grid cell in row-major order."""
    return jax.nn.one_hot(position[0] * columns + position[1], rows * columns, dtype=jnp.float32)
