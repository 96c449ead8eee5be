"""Probes against a finished set: one round of `methods.growing` whose members are given.

The pairs, their grid and their objective are those of `Growing`; the members are the best responses of any method's
population. The round ends when the probes have settled, and nothing is taken in.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from coverset.policies.network import Network
from coverset.policies.population import Population
from coverset.teammates.method import Stage
from coverset.teammates.methods.growing import Growing, Growth

if TYPE_CHECKING:
    from coverset.teammates.trainer import Trainer, TrainState


@dataclass(frozen=True)
class Probing(Growing):
    """Growing that ends with its first round."""

    rounds: int = 1

    def stage(self, state: Growth) -> Stage:
        stage = super().stage(state)
        return stage._replace(is_last=stage.is_over)

    def population(self, state: Growth, trained: Population) -> Population:
        """The probes' pairs: what a probe has found is no part of the set."""
        members = state.rivals.shape[0] - self.probes
        return Population(jax.tree.map(lambda x: x[members:], trained.best_responses), trained.teammates)


def insert_members(
    trainer: "Trainer", state: "TrainState", members: Network, returns: Float[np.ndarray, "n"]
) -> "TrainState":
    """A state of untrained probes with a set of best responses in its frozen rows.

    Args:
      trainer: whose method is `Probing`.
      state: what `trainer.init` gives.
      members: stacked networks of the set, at most `population_size`; rows beyond repeat them and count for nothing.
      returns: of pairs in this game; their range is the unit of the probes' temperature.
    """
    size, most = jax.tree.leaves(members)[0].shape[0], trainer.world.rows - trainer.world.columns
    slots = np.resize(np.arange(size), most)
    networks = state.optimised.networks
    rows = jax.tree.map(lambda new, old: jnp.concatenate([new[slots], old[most:]]), members, networks.best_responses)
    growth = state.method._replace(
        size=jnp.int32(size), lowest=jnp.float32(returns.min()), highest=jnp.float32(returns.max())
    )
    optimised = state.optimised._replace(networks=networks._replace(best_responses=rows))
    return state._replace(optimised=optimised, method=growth)
