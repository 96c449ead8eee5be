"""Random games whose coverage sets are known exactly, for the coverage suite; all are drawn by their number.

Both classes hold their tables as arrays and are trees of arrays, so that one compiled program trains many games of one
shape side by side.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.envs.base import Environment, time_limit
from coverset.types import Actions, Observations, Outcome, PRNGKey

LARGEST_PAYOFF = 9
FEWEST_ACTIONS, MOST_ACTIONS = 3, 6
NUM_CORNERS = 4


class TableState(NamedTuple):
    """The hidden state, and the steps so far."""

    hidden: Int[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True, eq=False)
class RandomDecPOMDP(Environment):
    """A finite Dec-POMDP with a common reward: random starts, and random tables from there on.

    Observation of a seat: a symbol that depends on the hidden state, one-hot for each time; no observation recurs, so
    that the game has an exact normal form (`certificates.normal_form`).
    """

    # Any: within JAX's transformations the leaves of a tree are no arrays of these shapes.
    successors: Any
    """The next hidden state, int32 [S, A, B]."""
    rewards: Any
    """float32 [S, A, B]."""
    symbols: Any
    """What each seat sees of each hidden state, int32 [2, S]."""
    horizon: int = 2
    num_symbols: int = 2

    @property
    def observation_size(self) -> int:
        return self.horizon * self.num_symbols

    @property
    def num_actions(self) -> tuple[int, ...]:
        return self.rewards.shape[1], self.rewards.shape[2]

    def reset(self, key: PRNGKey) -> TableState:
        return TableState(jax.random.randint(key, (), 0, self.rewards.shape[0]), jnp.int32(0))

    def initial_states(self) -> tuple[TableState, Float[np.ndarray, "n"]]:
        count = self.rewards.shape[0]
        return TableState(jnp.arange(count, dtype=jnp.int32), jnp.zeros(count, jnp.int32)), np.full(count, 1 / count)

    def step(self, key: PRNGKey, state: TableState, actions: Actions) -> Outcome:
        del key
        place = (state.hidden, actions[0], actions[1])
        after = TableState(self.successors[place], state.time + 1)
        never = jnp.bool_(False)
        return Outcome(after, self.rewards[place], never, time_limit(after.time, self.horizon, never))

    def observe(self, state: TableState) -> Observations:
        shown = state.time * self.num_symbols + self.symbols[:, state.hidden]
        return jax.nn.one_hot(shown, self.observation_size, dtype=jnp.float32)

    def render(self, state: TableState, seat: int | None = None) -> str:
        seen = [int(self.symbols[each, state.hidden]) for each in ((0, 1) if seat is None else (seat,))]
        return f"step {int(state.time)}: {' and '.join(f'symbol {each + 1}' for each in seen)}"


@dataclass(frozen=True, eq=False)
class TableGame(RandomDecPOMDP):
    """A matrix game of one step: the Dec-POMDP with one hidden state and one symbol."""

    horizon: int = 1
    num_symbols: int = 1

    @property
    def table(self) -> Float[np.ndarray, "m n"]:
        """The payoffs."""
        return np.asarray(self.rewards, float)[0]


for _kind in (RandomDecPOMDP, TableGame):
    jax.tree_util.register_dataclass(
        _kind, data_fields=["successors", "rewards", "symbols"], meta_fields=["horizon", "num_symbols"]
    )


def draw_table(number: int) -> Float[np.ndarray, "a a"]:
    """Integer payoffs from -9 to 9: 3 to 6 actions by turns; every second four games have symmetric tables."""
    size = FEWEST_ACTIONS + number % (MOST_ACTIONS - FEWEST_ACTIONS + 1)
    table = np.random.default_rng(number).integers(-LARGEST_PAYOFF, LARGEST_PAYOFF + 1, (size, size))
    is_symmetric = number // (MOST_ACTIONS - FEWEST_ACTIONS + 1) % 2 == 1
    return (np.triu(table) + np.triu(table, 1).T if is_symmetric else table).astype(float)


def make_table_game(table: Float[np.ndarray, "m n"]) -> TableGame:
    """A matrix game with a common payoff."""
    nothing = jnp.zeros((1, *np.shape(table)), jnp.int32)
    return TableGame(nothing, jnp.asarray(table, jnp.float32)[None], jnp.zeros((2, 1), jnp.int32))


def draw_dec_pomdp(number: int, *, states: int = 4, actions: int = 2) -> RandomDecPOMDP:
    """Rewards are integers from 0 to 9, and every symbol is seen in some state."""
    draw = np.random.default_rng(number)
    shape = (states, actions, actions)
    symbols = np.stack([draw.permutation(np.arange(states) % 2) for _ in range(2)])
    return RandomDecPOMDP(
        jnp.asarray(draw.integers(0, states, shape), jnp.int32),
        jnp.asarray(draw.integers(0, LARGEST_PAYOFF + 1, shape), jnp.float32),
        jnp.asarray(symbols, jnp.int32),
    )


def draw_corner_payoffs(number: int) -> tuple[tuple[float, ...], ...]:
    """Payoffs of a random grid game, integers from 0 to 9 by the corners that both players reach."""
    table = np.random.default_rng(number).integers(0, LARGEST_PAYOFF + 1, (NUM_CORNERS, NUM_CORNERS))
    return tuple(tuple(map(float, row)) for row in table)
