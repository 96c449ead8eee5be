"""Cooperative Reaching and Weighted Cooperative Reaching (Rahman et al. 2024, environments section).

Two agents walk on a square grid and are rewarded for the corners that they occupy at the same time. Corners are
A, B, C, D clockwise from the top left. Agents may share a cell.

Differs from the paper: there may be more than two agents. They earn what the worst pair of them would earn, the
smallest payoff of all pairs of seats. With payoffs for the same corner only, all of them must meet on one.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.checks import check_at_least, check_one_of, check_payoff_table
from coverset.envs.base import OMIT_DEFAULT, Environment, one_hot_cell, time_limit
from coverset.envs.drawing import Board, Scene
from coverset.envs.oracle import Oracle, PartnerDraws
from coverset.policy import Policy
from coverset.types import Actions, Flag, Observations, Outcome, PRNGKey, Symmetry

CORNERS = ("A", "B", "C", "D")
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""Row and column change of the actions stay, up, down, left, right."""

SAME_CORNER = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
WEIGHTED = ((10.0, 0.0, 6.0, 6.0), (0.0, 10.0, 6.0, 6.0), (6.0, 6.0, 8.0, 0.0), (6.0, 6.0, 0.0, 8.0))
MAX_STARTS = 100_000
"""Most initial states of more than two players that are listed."""


class ReachingState(NamedTuple):
    """Row and column of every seat."""

    positions: Int[Array, "seats 2"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Reaching(Environment):
    """Meet on the corners of a grid.

    Observation: the agent's own cell, followed by the teammates' cells if `sees_teammate`, that of the next seat first.
    A cell is one-hot in row-major order (size^2 numbers) or, with `encoding="coordinates"`, its row and column scaled
    to [-1, 1] (2 numbers).
    """

    payoffs: tuple[tuple[float, ...], ...] = SAME_CORNER
    """Reward by the corners of seat 0 (row) and seat 1 (column), in the order A, B, C, D; with more players, the
    smallest reward of all pairs of seats, the lower seat's corner as the row."""
    ends_apart: bool = False
    """Whether the episode also ends when all agents are on corners, but not on the same."""
    size: int = 5
    """Cells along a side."""
    horizon: int = 50
    """Steps until truncation."""
    sees_teammate: bool = False
    """Whether the teammates' cells are part of the observation."""
    encoding: str = "one-hot"
    """`one-hot` or `coordinates`."""
    players: int = field(default=2, metadata=OMIT_DEFAULT)
    """Number of agents."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", check_payoff_table("payoffs", self.payoffs))
        if (len(self.payoffs), len(self.payoffs[0])) != (4, 4):
            raise ValueError(f"payoffs must be 4 x 4, got {len(self.payoffs)} x {len(self.payoffs[0])}.")
        check_at_least("size", self.size, 3, "so that agents can start off the border")
        check_at_least("horizon", self.horizon, 1)
        check_one_of("encoding", self.encoding, ("one-hot", "coordinates"))
        check_at_least("players", self.players, 2)

    @property
    def observation_size(self) -> int:
        cell = self.size**2 if self.encoding == "one-hot" else 2
        return cell * (self.players if self.sees_teammate else 1)

    @property
    def num_actions(self) -> tuple[int, ...]:
        return (len(MOVES),) * self.players

    def corners(self) -> Int[Array, "4 2"]:
        """Cells of A, B, C and D."""
        last = self.size - 1
        return jnp.array([(0, 0), (0, last), (last, last), (last, 0)], jnp.int32)

    def reset(self, key: PRNGKey) -> ReachingState:
        """Draw the starts independently and uniformly from the cells off the border."""
        positions = jax.random.randint(key, (self.players, 2), 1, self.size - 1)
        return ReachingState(positions=positions, time=jnp.int32(0))

    def initial_states(self) -> tuple[ReachingState, Float[np.ndarray, "n"]] | None:
        """All combinations of starts; None for so many players that there are more than `MAX_STARTS`."""
        inside, axes = range(1, self.size - 1), 2 * self.players
        if self.players > 2 and len(inside) ** axes > MAX_STARTS:
            return None
        starts = np.array(list(itertools.product(inside, repeat=axes)), np.int32).reshape(-1, self.players, 2)
        times = jnp.zeros(len(starts), jnp.int32)
        return ReachingState(positions=jnp.asarray(starts), time=times), np.full(len(starts), 1 / len(starts))

    def step(self, key: PRNGKey, state: ReachingState, actions: Actions) -> Outcome:
        del key
        moved = state.positions + jnp.array(MOVES, jnp.int32)[actions]
        positions = jnp.clip(moved, 0, self.size - 1)
        time = state.time + 1
        reward, terminated = self._reward(positions)
        return Outcome(
            state=ReachingState(positions=positions, time=time),
            reward=reward,
            terminated=terminated,
            truncated=time_limit(time, self.horizon, terminated),
        )

    def _reward(self, positions: Int[Array, "seats 2"]) -> tuple[Float[Array, ""], Flag]:
        """The smallest reward of all pairs, once every pair stands on corners that end the episode."""
        on_corner = jnp.all(positions[:, None] == self.corners()[None], axis=-1)  # [seat, corner]
        pairs = [jnp.outer(one, other) for one, other in itertools.combinations(on_corner, 2)]
        rewards = [jnp.sum(jnp.where(both, jnp.asarray(self.payoffs, jnp.float32), 0.0)) for both in pairs]
        ended = [jnp.any(both) if self.ends_apart else jnp.any(jnp.diagonal(both)) for both in pairs]
        ends = functools.reduce(jnp.logical_and, ended)
        return jnp.where(ends, functools.reduce(jnp.minimum, rewards), 0.0), ends

    def observe(self, state: ReachingState) -> Observations:
        if self.encoding == "one-hot":
            cells = jax.vmap(lambda position: one_hot_cell(position, self.size, self.size))(state.positions)
        else:
            cells = 2.0 * state.positions.astype(jnp.float32) / (self.size - 1) - 1.0
        if not self.sees_teammate:
            return cells
        return jnp.concatenate([jnp.roll(cells, -seats, axis=0) for seats in range(self.players)], axis=-1)

    def own_position(self, observation: Float[Array, "d"]) -> Int[Array, "2"]:
        """Decode the agent's own cell from its observation."""
        if self.encoding == "one-hot":
            cell = jnp.argmax(observation[: self.size**2]).astype(jnp.int32)
            return jnp.stack([cell // self.size, cell % self.size])
        return jnp.round((observation[:2] + 1.0) * (self.size - 1) / 2.0).astype(jnp.int32)

    def render(self, state: ReachingState, seat: int | None = None) -> str:
        """Draw players as 1, 2, ..., several on one cell as a star; for a `seat` only those that it sees."""
        grid = [["." for _ in range(self.size)] for _ in range(self.size)]
        for name, (row, column) in zip(CORNERS, self.corners().tolist(), strict=True):
            grid[row][column] = name.lower()
        seen = {number: tuple(state.positions[number].tolist()) for number in self.visible_seats(seat)}
        for number, (row, column) in seen.items():
            grid[row][column] = str(number + 1) if [*seen.values()].count((row, column)) == 1 else "*"
        return "\n".join(" ".join(line) for line in grid)

    def visible_seats(self, seat: int | None) -> tuple[int, ...]:
        """The players whose cells `seat` sees; all of them for None."""
        return tuple(range(self.players)) if seat is None or self.sees_teammate else (seat,)

    @property
    def seats_alike(self) -> bool:
        return self.payoffs == tuple(zip(*self.payoffs, strict=True))

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        from coverset.envs.reaching.symmetries import list_symmetries

        return list_symmetries(self)

    @property
    def conventions(self) -> tuple[str, ...]:
        return tuple(f"corner {name}" for name in CORNERS)

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        """By the corner of seat 0 and that of all others, who are pairs as well if there are several."""
        if not self.ends_apart:
            return tuple(tuple(p if i == j else 0.0 for j, p in enumerate(row)) for i, row in enumerate(self.payoffs))
        if self.players == 2:
            return self.payoffs
        return tuple(tuple(min(p, self.payoffs[j][j]) for j, p in enumerate(row)) for row in self.payoffs)

    def convention(self, state: ReachingState, seat: int) -> Int[Array, ""]:
        """The corner on which `seat` stood when the game ended; none if time ran out."""
        on_corner = jnp.all(state.positions[seat][None] == self.corners(), axis=-1)
        _, ended = self._reward(state.positions)
        return jnp.where(ended, jnp.argmax(on_corner), len(CORNERS)).astype(jnp.int32)

    def heuristics(self) -> Mapping[str, Policy]:
        from coverset.envs.reaching.heuristics import list_heuristics

        return {name: policy for name, (policy, _) in list_heuristics(self).items()}

    def describe_heuristics(self) -> Mapping[str, str]:
        from coverset.envs.reaching.heuristics import list_heuristics

        return {name: sentence for name, (_, sentence) in list_heuristics(self).items()}

    def best_response(self, partner: Policy, seat: int) -> Oracle | None:
        from coverset.envs.reaching.heuristics import CornerWalker
        from coverset.envs.reaching.oracle import solve

        return solve(self, partner, seat) if isinstance(partner, CornerWalker) else None

    def partner_draws(self, partners: Sequence[Policy], seat: int) -> PartnerDraws | None:
        from coverset.envs.reaching.heuristics import CornerWalker
        from coverset.envs.reaching.oracle import list_draws

        known = [partner for partner in partners if isinstance(partner, CornerWalker)]
        return list_draws(self, known, seat) if len(known) == len(partners) else None

    def board(self) -> Board:
        from coverset.envs.reaching.board import draw_board

        return draw_board(self)

    def scene(self, state: ReachingState, seat: int | None = None) -> Scene:
        from coverset.envs.reaching.board import draw_scene

        return draw_scene(self, state, seat)
