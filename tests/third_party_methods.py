"""Methods as an extension would bring them, named `third_party_methods:Class` on the command line."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.teammates.method import Frozen, Method, PairWeights, Rollout, Seen, World
from coverset.teammates.methods.brdiv import BRDiv
from coverset.types import PRNGKey, Scalar


class Adjustments(NamedTuple):
    """Everything that `Adjustable` does, as arrays: tests change it without compiling another program."""

    weights: PairWeights
    frozen: Frozen
    bonus: Scalar
    """Added to the reward of steps in which the teammate plays its first action."""
    loss: Scalar
    """Weight of the method's own loss."""
    updates: Int[Array, ""]
    seen_values: Float[Array, "R C"]


@dataclass(frozen=True)
class Adjustable(Method):
    """Uses every hook, on a grid that is not square: each best response is to answer all teammates."""

    num_best_responses: int = 3
    """Number of best responses; there are as many teammates as the population is large."""
    novelty: float = 0.0
    """Bonus for a teammate's first action."""
    centring: float = 0.0
    """Weight of the distance between best responses' logits and a learned centre."""

    def grid_size(self, settings):
        return self.num_best_responses, settings.population_size

    def init(self, key: PRNGKey, world: World) -> Adjustments:
        size = (world.rows, world.columns)
        return Adjustments(
            PairWeights(jnp.ones(size), jnp.ones(size)),
            Frozen(jnp.zeros(world.rows, bool), jnp.zeros(world.columns, bool)),
            jnp.float32(self.novelty),
            jnp.float32(self.centring),
            jnp.int32(0),
            jnp.zeros(size),
        )

    def init_parameters(self, key: PRNGKey, world: World) -> dict[str, Array]:
        return {"centre": 1.0 + jax.random.uniform(key, (world.environment.num_actions[0],))}

    def weights(self, state: Adjustments) -> PairWeights:
        return state.weights

    def frozen(self, state: Adjustments) -> Frozen:
        return state.frozen

    def bonus(self, parameters, state: Adjustments, rollout: Rollout) -> Float[Array, "T R B"]:
        return jnp.where(rollout.steps.actions[..., 1] == 0, state.bonus, 0.0)

    def loss(self, parameters, state: Adjustments, batch, logits) -> tuple[Scalar, dict[str, Scalar]]:
        distance = jnp.mean(jnp.square(logits[0] - parameters["centre"][None, None, None]))
        return state.loss * distance, {"distance": distance}

    def update(self, state: Adjustments, seen: Seen) -> Adjustments:
        return state._replace(updates=state.updates + 1, seen_values=seen.pair_values)

    def report(self, state: Adjustments) -> dict[str, Array]:
        return {"updates": state.updates, "seen_values": state.seen_values}


class NotAMethod:
    """Inherits from nothing."""


@dataclass(frozen=True)
class Selecting(BRDiv):
    """Trains more pairs than it saves."""

    def population(self, state, trained):
        return jax.tree.map(lambda leaf: leaf[:2], trained)
