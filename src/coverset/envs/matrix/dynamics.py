"""Repeated Matrix Game (Rahman et al. 2024, environments section): one round per episode, constant observation.

A trial has several episodes with one teammate, so the game repeats; the values of Appendix B are those of one round.
Differs from the paper: tables may have an axis for each of three or more players, and each player may have its own.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.checks import check_at_least
from coverset.envs.base import OMIT_DEFAULT, Environment, time_limit
from coverset.envs.drawing import Board, Scene
from coverset.envs.matrix.payoffs import check_payoffs, shape_of
from coverset.envs.oracle import Oracle, PartnerDraws
from coverset.policy import Policy
from coverset.types import Actions, Observations, Outcome, PRNGKey, Symmetry

PAPER_PAYOFFS = ((10.0, 0.0, 4.0), (0.0, 6.0, 4.0), (4.0, 4.0, 6.0))
ROCK_PAPER_SCISSORS = ((0.0, -1.0, 1.0), (1.0, 0.0, -1.0), (-1.0, 1.0, 0.0))
MATCHING_PENNIES = ((1.0, -1.0), (-1.0, 1.0))
NOT_PLAYED = -1
MOST_PERMUTED = 6
"""Most actions whose permutations are tried as symmetries."""


class MatrixState(NamedTuple):
    """The last joint action; `NOT_PLAYED` before the first round."""

    actions: Int[Array, "seats"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class MatrixGame(Environment):
    """A matrix game of two or more players, by default the paper's 3 x 3 table of common payoffs.

    Observation: the constant 1 (d = 1). Reward: `payoffs[action of seat 0][action of seat 1]...`, which all share, or,
    if `by_player`, `payoffs[seat][action of seat 0][action of seat 1]...` for each seat.
    """

    payoffs: tuple[Any, ...] = PAPER_PAYOFFS
    """Rows are seat 0's actions, columns seat 1's; with three players `payoffs[i][j][k]`, and so on. Any rectangular
    table of finite numbers."""
    horizon: int = 1
    """Rounds per episode, after which the game terminates."""
    by_player: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether `payoffs` holds a table for each player, in the order of the seats, instead of one that all share."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", check_payoffs(self.payoffs, by_player=self.by_player))
        check_at_least("horizon", self.horizon, 1)

    @property
    def observation_size(self) -> int:
        return 1

    @property
    def num_actions(self) -> tuple[int, ...]:
        return shape_of(self.tables[0])

    @property
    def tables(self) -> tuple:
        """The payoffs of each seat, with an axis for each seat's actions."""
        return self.payoffs if self.by_player else (self.payoffs,) * len(shape_of(self.payoffs))

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Permutations of the actions, the same for all seats, under which no payoff changes; small tables alone."""
        sizes = set(self.num_actions)
        if len(sizes) > 1 or max(sizes) > MOST_PERMUTED:
            return ()
        tables, found = [np.asarray(table) for table in self.tables], []
        for order in itertools.permutations(range(sizes.pop())):
            if all(np.array_equal(table[np.ix_(*(order,) * self.num_seats)], table) for table in tables):
                found.append(Symmetry((0,), order))
        return tuple(found)

    def reset(self, key: PRNGKey) -> MatrixState:
        del key
        return MatrixState(actions=jnp.full(self.num_seats, NOT_PLAYED, jnp.int32), time=jnp.int32(0))

    def initial_states(self) -> tuple[MatrixState, Float[np.ndarray, "n"]]:
        actions = jnp.full((1, self.num_seats), NOT_PLAYED, jnp.int32)
        return MatrixState(actions=actions, time=jnp.zeros(1, jnp.int32)), np.ones(1)

    def step(self, key: PRNGKey, state: MatrixState, actions: Actions) -> Outcome:
        del key
        played = tuple(actions[seat] for seat in range(self.num_seats))
        reward = jnp.asarray(self.payoffs, jnp.float32)[(..., *played)]
        time = state.time + 1
        terminated = time >= self.horizon
        return Outcome(
            state=MatrixState(actions=actions.astype(jnp.int32), time=time),
            reward=reward,
            terminated=terminated,
            truncated=time_limit(time, self.horizon, terminated),
        )

    def observe(self, state: MatrixState) -> Observations:
        del state
        return jnp.ones((self.num_seats, 1), jnp.float32)

    def render(self, state: MatrixState, seat: int | None = None) -> str:
        """What everybody played and earned in the last round, which players may know."""
        del seat
        if int(state.time) == 0:
            return "not played"
        actions = tuple(int(action) for action in state.actions)
        tables = self.tables if self.by_player else self.tables[:1]
        earned = [f"{np.asarray(table)[actions]:g}" for table in tables]
        return f"actions {_join(str(action + 1) for action in actions)}: {_join(earned)}"

    @property
    def seats_alike(self) -> bool:
        """Whether exchanging two seats and their actions changes nobody's payoff; neighbours suffice."""
        if len(set(self.num_actions)) > 1:
            return False
        tables, seats = np.asarray(self.tables), np.arange(self.num_seats)
        for seat in seats[:-1]:
            exchanged = seats.copy()
            exchanged[[seat, seat + 1]] = seat + 1, seat
            if not np.array_equal(tables[exchanged].transpose(0, *(exchanged + 1)), tables):
                return False
        return True

    @property
    def conventions(self) -> tuple[str, ...]:
        """The actions. `convention_payoffs` determines which of them are in the coverage set."""
        return tuple(f"action {number + 1}" for number in range(max(self.num_actions)))

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        """Seat 0's payoff by its own action and the action that all others play; none if their numbers differ."""
        rows, columns, *others = self.num_actions
        if any(number != columns for number in others):
            return ()
        table = np.asarray(self.tables[0])
        same = [table[(slice(None), *[action] * (self.num_seats - 1))] for action in range(columns)]
        return tuple(tuple(float(column[row]) for column in same) for row in range(rows))

    def convention(self, state: MatrixState, seat: int) -> Int[Array, ""]:
        return state.actions[seat]

    def heuristics(self) -> Mapping[str, Policy]:
        from coverset.envs.matrix.heuristics import list_heuristics

        return {name: policy for name, (policy, _) in list_heuristics(self).items()}

    def describe_heuristics(self) -> Mapping[str, str]:
        from coverset.envs.matrix.heuristics import list_heuristics

        return {name: sentence for name, (_, sentence) in list_heuristics(self).items()}

    def best_response(self, partner: Policy, seat: int) -> Oracle | None:
        from coverset.envs.matrix.heuristics import MixedAction
        from coverset.envs.matrix.oracle import solve

        return solve(self, partner, seat) if isinstance(partner, MixedAction) else None

    def partner_draws(self, partners: Sequence[Policy], seat: int) -> PartnerDraws | None:
        from coverset.envs.matrix.heuristics import MixedAction
        from coverset.envs.matrix.oracle import list_draws

        known = [partner for partner in partners if isinstance(partner, MixedAction)]
        return list_draws(self, known, seat) if len(known) == len(partners) else None

    def board(self) -> Board:
        from coverset.envs.matrix.board import draw_board

        return draw_board(self)

    def scene(self, state: MatrixState, seat: int | None = None) -> Scene | None:
        from coverset.envs.matrix.board import draw_scene

        del seat
        return draw_scene(self, state)


def _join(words: Iterable[str]) -> str:
    """Write a list as "1, 2 and 3"."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
