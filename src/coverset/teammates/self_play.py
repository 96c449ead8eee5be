"""What methods share whose pairs play with themselves alone: no cross-play, so that every step goes into self-play.

MEP, TrajeDi, MAVEN, EDRQN, FCP and Other-Play are of this kind: what keeps their pairs apart, if anything does, is a
bonus or a loss that compares policies, and not the returns of other pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from coverset.envs.seats import seating, split_seats
from coverset.learning.losses import log_probabilities
from coverset.policies.network import Network, network_class
from coverset.policy import mask_logits
from coverset.teammates.method import Method, Rollout, World
from coverset.teammates.pair_grid import PairGrid
from coverset.types import PairMatrix, PRNGKey, PyTree

if TYPE_CHECKING:
    from coverset.settings import GenerateSettings


@dataclass(frozen=True)
class SelfPlayGrid(PairGrid):
    """K rows as long as those of the square grid, in which best response i plays with teammate i alone.

    Rows and columns hold the same environments in the same order.
    """

    @property
    def column_size(self) -> int:
        return self.row_size

    def is_played(self) -> np.ndarray:
        return np.eye(self.rows, dtype=bool)

    def by_teammate(self, rows: Shaped[Array, "R B ..."]) -> Shaped[Array, "C D ..."]:
        return rows

    def by_best_response(self, columns: Shaped[Array, "C D ..."]) -> Shaped[Array, "R B ..."]:
        return columns

    def cell_sums(self, rows: Float[Array, "R B"]) -> Float[Array, "R C"]:
        return jnp.diag(rows.sum(axis=-1))

    def cell_shares(self) -> Float[Array, "R B"]:
        """Every row is one cell."""
        return jnp.ones((self.rows, self.row_size))


class SelfPlay(Method):
    """A method of K pairs that play with themselves alone: w_ii = 1, and no other cell is played."""

    preset_changes: ClassVar[Mapping[str, Any]] = MappingProxyType({"restart_patience": 0, "stop_patience": 0})
    """Both are about constraints on cross-play."""

    def grid(self, settings: "GenerateSettings") -> PairGrid:
        return SelfPlayGrid(*self.grid_size(settings), settings.envs_per_pair, settings.extra_self_play)

    def check(self, world: World) -> None:
        for name in ("restart_patience", "stop_patience"):
            if value := getattr(world.settings, name):
                raise ValueError(f"{name} must be 0 for a method whose pairs play with themselves alone, got {value}.")

    def init(self, key: PRNGKey, world: World) -> PyTree:
        del key
        return jnp.eye(world.rows)

    def weights(self, state: PairMatrix) -> PairMatrix:
        return state


def check_memoryless(world: World, method: str) -> None:
    """Raise unless policies need no memory: one policy's memory of another's episode is not known."""
    kind = world.settings.network
    if network_class(kind).recurrent:
        raise ValueError(f"network must be one without memory for {method}, which asks every policy, got '{kind}'.")


def self_play_likelihoods(rollout: Rollout) -> tuple[Float[Array, "K T R B"], Float[Array, "K T R B"]]:
    """log pi_k(a_t | o_t) of every best response and of every teammate k, for what all pairs did in self-play.

    K forward passes on every step; on a `SelfPlayGrid` row i is the self-play of pair i. A teammate that plays several
    seats has the sum over them, the logarithm of its joint action's probability.
    """
    seats, steps, networks = seating(rollout.world.environment), rollout.steps, rollout.networks
    observations, masks, actions = (
        seats.observations(steps.observations),
        seats.mask(steps.legal),
        split_seats(steps.actions),
    )

    def of_side(side: int, members: Network) -> Float[Array, "K T R B"]:
        def of_member(member: Network) -> Float[Array, "T R B"]:
            logits = mask_logits(member.step(observations[side], ())[0], masks[side])
            likelihood = log_probabilities(logits, actions[side])
            return likelihood.sum(axis=-1) if likelihood.ndim > steps.reward.ndim else likelihood

        return jax.vmap(of_member)(members)

    return of_side(0, networks.best_responses), of_side(1, networks.teammates)
