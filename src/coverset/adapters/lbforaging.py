"""Our policies in the real `lbforaging`: its rules and its random numbers, seen through the eyes of our `foraging`.

Needs the package `lbforaging`. Everything that moves, collides, loads and pays is theirs; what a policy sees is built
from their state in the layout of `Foraging.observe`.
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

OBJECT_LEVEL = 2
"""Players are of level 1: an object needs both."""


def make_peer(environment: Foraging) -> ForagingEnv:
    """A fresh environment of `lbforaging` with the parameters of ours."""
    return ForagingEnv(
        players=2,
        min_player_level=1,
        max_player_level=1,
        min_food_level=OBJECT_LEVEL,
        max_food_level=OBJECT_LEVEL,
        field_size=(environment.size, environment.size),
        max_num_food=environment.num_objects,
        sight=environment.size,
        max_episode_steps=environment.horizon,
        force_coop=True,
    )


class Reached(NamedTuple):
    """What a step of the real environment led to."""

    observations: Float[np.ndarray, "2 d"]
    reward: float
    """The sum of both players' rewards, as ours."""
    over: bool


class RealForaging:
    """Episodes of the real `lbforaging`."""

    def __init__(self, environment: Foraging) -> None:
        self.environment = environment

    def reset(self, seed: int) -> Float[np.ndarray, "2 d"]:
        """Start an episode in a fresh environment: theirs looks at the last episode when it spawns."""
        self.peer = make_peer(self.environment)
        self.peer._make_gym_obs = tuple  # theirs, which nobody reads here
        self.peer.reset(seed=seed)
        if self.environment.objects == "fixed":
            self._place(self.environment.cells)
        self.cells = sorted((int(row), int(column)) for row, column in np.argwhere(self.peer.field))
        return self._observations()

    def _place(self, cells: Sequence[tuple[int, int]]) -> None:
        """Put the objects where ours are, and let the players spawn around them."""
        peer: Any = self.peer
        peer.field[:] = 0
        for cell in cells:
            peer.field[cell] = OBJECT_LEVEL
        peer._food_spawned = peer.field.sum()
        for player in peer.players:
            player.position = None
        peer.spawn_players(peer.min_player_level, peer.max_player_level)
        peer._gen_valid_moves()

    def step(self, actions: Sequence[int]) -> Reached:
        """Play one joint action."""
        _, rewards, terminated, truncated, _ = self.peer.step([int(action) for action in actions])
        return Reached(self._observations(), float(np.sum(rewards)), bool(terminated or truncated))

    def _observations(self) -> Float[np.ndarray, "2 d"]:
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
    """Traced once for an environment, however many series of episodes are played."""
    return environment.observe(state)


def play(
    environment: Foraging, agents: tuple[Agent, Agent], *, episodes: int, seed: int = 0
) -> Float[np.ndarray, "episodes"]:
    """Returns of a series of episodes of two agents in the real environment; their memories last for all of it."""
    real, returns, reward = RealForaging(environment), np.zeros(episodes), 0.0
    for episode in range(episodes):
        observations, starts, over = real.reset(seed + episode), True, False
        while not over:
            actions = [agent.act(observations[seat], reward, starts) for seat, agent in enumerate(agents)]
            observations, reward, over = real.step(actions)
            returns[episode] += reward
            starts = False
    return returns
