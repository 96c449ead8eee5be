"""Repeated Matrix Game (Rahman et al. 2024, environments section): one round per episode, constant observation.

A trial has several episodes with one teammate, so the game repeats; the values of Appendix B are those of one round.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.checks import check_at_least, check_payoff_table
from coverset.envs.base import Environment, time_limit
from coverset.envs.drawing import Board, Scene
from coverset.envs.oracle import Oracle
from coverset.policy import Policy
from coverset.types import Actions, Observations, Outcome, PRNGKey

PAPER_PAYOFFS = ((10.0, 0.0, 4.0), (0.0, 6.0, 4.0), (4.0, 4.0, 6.0))
NOT_PLAYED = -1


class MatrixState(NamedTuple):
    """The last joint action; `NOT_PLAYED` before the first round."""

    actions: Int[Array, "2"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class MatrixGame(Environment):
    """A common-payoff matrix game, by default the paper's 3 x 3 table.

    Observation: the constant 1 (d = 1). Reward: `payoffs[action of seat 0][action of seat 1]`.
    """

    payoffs: tuple[tuple[float, ...], ...] = PAPER_PAYOFFS
    """Rows are seat 0's actions, columns seat 1's; any rectangular table of finite numbers."""
    horizon: int = 1
    """Rounds per episode, after which the game terminates."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", check_payoff_table("payoffs", self.payoffs))
        check_at_least("horizon", self.horizon, 1)

    @property
    def observation_size(self) -> int:
        return 1

    @property
    def num_actions(self) -> tuple[int, int]:
        return len(self.payoffs), len(self.payoffs[0])

    def reset(self, key: PRNGKey) -> MatrixState:
        del key
        return MatrixState(actions=jnp.full(2, NOT_PLAYED, jnp.int32), time=jnp.int32(0))

    def initial_states(self) -> tuple[MatrixState, Float[np.ndarray, "n"]]:
        state = MatrixState(actions=jnp.full((1, 2), NOT_PLAYED, jnp.int32), time=jnp.zeros(1, jnp.int32))
        return state, np.ones(1)

    def step(self, key: PRNGKey, state: MatrixState, actions: Actions) -> Outcome:
        del key
        reward = jnp.asarray(self.payoffs, jnp.float32)[actions[0], actions[1]]
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
        return jnp.ones((2, 1), jnp.float32)

    def render(self, state: MatrixState) -> str:
        if int(state.time) == 0:
            return "not played"
        row, column = (int(action) for action in state.actions)
        return f"actions {row + 1} and {column + 1}: {self.payoffs[row][column]:g}"

    @property
    def seats_alike(self) -> bool:
        return self.payoffs == tuple(zip(*self.payoffs, strict=True))

    @property
    def conventions(self) -> tuple[str, ...]:
        """The actions. `convention_payoffs` determines which of them are in the coverage set."""
        return tuple(f"action {number + 1}" for number in range(max(self.num_actions)))

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        return self.payoffs

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

    def board(self) -> Board:
        from coverset.envs.matrix.board import draw_board

        return draw_board(self)

    def scene(self, state: MatrixState) -> Scene:
        from coverset.envs.matrix.board import draw_scene

        return draw_scene(self, state)
