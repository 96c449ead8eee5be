"""Play coverset policies in the original `lbforaging`, with observations in the layout of `foraging`.

Needs the package `lbforaging`. Dynamics, rewards and random numbers are those of `lbforaging`; observations are built
from its state in the layout of `Foraging.observe`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from lbforaging.foraging.environment import ForagingEnv

from coverset.adhoc.saved import Agent
from coverset.envs.foraging import NOT_COLLECTED, NOWHERE, Foraging, ForagingState
from coverset.types import Observations


def make_lbforaging(environment: Foraging) -> ForagingEnv:
    """Make an `lbforaging` environment with the parameters of a `Foraging` environment: players have level 1."""
    return ForagingEnv(
        players=environment.players,
        min_player_level=1,
        max_player_level=1,
        min_food_level=environment.level,
        max_food_level=environment.level,
        field_size=(environment.size, environment.size),
        max_num_food=environment.num_objects,
        sight=environment.size,
        max_episode_steps=environment.horizon,
        force_coop=True,
    )


class StepResult(NamedTuple):
    """Result of a step of `lbforaging`."""

    observations: Float[np.ndarray, "seats d"]
    reward: float
    """The sum of all players' rewards, as in `Foraging`."""
    over: bool


class RealForaging:
    """Episodes of the original `lbforaging`."""

    def __init__(self, environment: Foraging) -> None:
        self.environment = environment

    def reset(self, seed: int) -> Float[np.ndarray, "seats d"]:
        """Start an episode in a new environment, because spawning in `lbforaging` depends on the previous episode."""
        self.peer = make_lbforaging(self.environment)
        self.peer._make_gym_obs = tuple  # skip its own observations, which are not used
        self.peer.reset(seed=seed)
        if self.environment.objects == "fixed":
            self._place(self.environment.cells)
        self.cells = sorted((int(row), int(column)) for row, column in np.argwhere(self.peer.field))
        return self._observations()

    def _place(self, cells: Sequence[tuple[int, int]]) -> None:
        """Place the objects at the given cells, and respawn the players."""
        peer: Any = self.peer
        peer.field[:] = 0
        for cell in cells:
            peer.field[cell] = self.environment.level
        peer._food_spawned = peer.field.sum()
        for player in peer.players:
            player.position = None
        peer.spawn_players(peer.min_player_level, peer.max_player_level)
        peer._gen_valid_moves()

    def step(self, actions: Sequence[int]) -> StepResult:
        """Play one joint action."""
        _, rewards, terminated, truncated, _ = self.peer.step([int(action) for action in actions])
        return StepResult(self._observations(), float(np.sum(rewards)), bool(terminated or truncated))

    def _observations(self) -> Float[np.ndarray, "seats d"]:
        missing = self.environment.num_objects - len(self.cells)
        there = [bool(self.peer.field[cell]) for cell in self.cells]
        state = ForagingState(
            positions=jnp.array([player.position for player in self.peer.players], jnp.int32),
            cells=jnp.array([*self.cells, *[(NOWHERE, NOWHERE)] * missing], jnp.int32),
            present=jnp.array([*there, *[False] * missing]),
            collected_order=jnp.full(self.environment.num_objects, NOT_COLLECTED, jnp.int32),
            time=jnp.int32(self.peer.current_step),
        )
        return np.asarray(_observe(self.environment, state))


@partial(jax.jit, static_argnums=0)
def _observe(environment: Foraging, state: ForagingState) -> Observations:
    """Observe, traced once per environment."""
    return environment.observe(state)


def play(
    environment: Foraging, agents: Sequence[Agent], *, episodes: int, seed: int = 0
) -> Float[np.ndarray, "episodes"]:
    """Returns of consecutive episodes of agents, one per seat, in `lbforaging`; they keep their memory throughout."""
    real, returns, reward = RealForaging(environment), np.zeros(episodes), 0.0
    for episode in range(episodes):
        observations, starts, over = real.reset(seed + episode), True, False
        while not over:
            actions = [agent.act(observations[seat], reward, starts) for seat, agent in enumerate(agents)]
            observations, reward, over = real.step(actions)
            returns[episode] += reward
            starts = False
    return returns
