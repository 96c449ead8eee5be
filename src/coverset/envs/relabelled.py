"""A game in which the team sees and acts through a symmetry that is drawn anew for every episode.

The ego plays the game as it is. Conventions, rewards and ends are those of the game.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.envs.base import Environment, render_for
from coverset.types import Actions, Observations, Outcome, PRNGKey, PyTree

SYMMETRY_STREAM = 41
"""Folded into the key of `reset`: the game itself starts as without relabelling."""


class RelabelledState(NamedTuple):
    """A state of the game, and the number of the team's symmetry."""

    state: PyTree
    symmetry: Int[Array, ""]


@dataclass(frozen=True)
class Relabelled(Environment):
    """Any game with symmetries, of which one relabels what all seats but the first see and do."""

    game: Environment

    @property
    def horizon(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.game.horizon

    @property
    def observation_size(self) -> int:
        return self.game.observation_size

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.game.observation_shape

    @property
    def observation_shapes(self) -> tuple[tuple[int, ...], ...]:
        return self.game.observation_shapes

    @property
    def num_actions(self) -> tuple[int, ...]:
        return self.game.num_actions

    @property
    def conventions(self) -> tuple[str, ...]:
        return self.game.conventions

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        return self.game.convention_payoffs

    @property
    def seats_alike(self) -> bool:
        return False

    def reset(self, key: PRNGKey) -> RelabelledState:
        drawn = jax.random.randint(jax.random.fold_in(key, SYMMETRY_STREAM), (), 0, len(self.game.symmetries))
        return RelabelledState(self.game.reset(key), drawn.astype(jnp.int32))

    def step(self, key: PRNGKey, state: RelabelledState, actions: Actions) -> Outcome:
        orders = jnp.array([symmetry.actions for symmetry in self.game.symmetries], actions.dtype)
        true = jnp.concatenate([actions[:1], orders[state.symmetry][actions[1:]]])
        outcome = self.game.step(key, state.state, true)
        return outcome._replace(state=RelabelledState(outcome.state, state.symmetry))

    def observe(self, state: RelabelledState) -> Observations:
        true = self.game.observe(state.state)
        orders = jnp.array([symmetry.observations for symmetry in self.game.symmetries], jnp.int32)
        return jnp.concatenate([true[:1], true[1:, orders[state.symmetry]]])

    def legal_actions(self, state: RelabelledState) -> Bool[Array, "seats a"] | None:
        true = self.game.legal_actions(state.state)
        if true is None:
            return None
        orders = jnp.array([symmetry.actions for symmetry in self.game.symmetries], jnp.int32)
        return jnp.concatenate([true[:1], true[1:, orders[state.symmetry]]])

    def convention(self, state: RelabelledState, seat: int) -> Int[Array, ""]:
        return self.game.convention(state.state, seat)

    def render(self, state: RelabelledState, seat: int | None = None) -> str:
        return render_for(self.game, state.state, seat)
