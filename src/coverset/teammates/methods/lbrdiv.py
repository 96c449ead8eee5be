"""L-BRDiv (Rahman, Cui and Stone 2024, Algorithm 1): pair weights from learned Lagrange multipliers.

The constrained problem asks for K pairs of maximal self-play return such that each best response is the best only for
its own teammate, by a margin tau. Its Lagrangian is

    L(R, a, b) = sum_i R_ii + sum_{i != j} a_ij (R_ii - tau - R_ji) + sum_{i != j} b_ij (R_ii - tau - R_ij)

which the policies maximise and the multipliers a, b >= 0 minimise.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from coverset.teammates.method import PairWeightRule, gaps
from coverset.types import PairMatrix, Scalar

SMALLEST_VALUE = 1e-6


class Multipliers(NamedTuple):
    """Non-negative dual variables; the diagonals stay zero."""

    other_best_response: PairMatrix
    """a_ij (the paper's alpha_1) guards R_ii >= R_ji + margin."""
    other_teammate: PairMatrix
    """b_ij (the paper's alpha_2) guards R_ii >= R_ij + margin."""


def lagrangian(pair_returns: PairMatrix, multipliers: Multipliers, margin: float) -> Scalar:
    """L(R, a, b), the expression under the min-max of the paper's Lagrange dual."""
    slack = gaps(pair_returns, margin)
    return jnp.trace(pair_returns) + sum(
        jnp.sum(multiplier * gap) for multiplier, gap in zip(multipliers, slack, strict=True)
    )


def lagrangian_pair_weights(multipliers: Multipliers) -> PairMatrix:
    """Weights w = dL/dR, for which sum_ij w_ij R_ij is the Lagrangian up to a constant in R.

        w_ii = 1 + sum_{j != i} (a_ij + b_ij)        w_ij = -(a_ji + b_ij)   for i != j

    Rahman et al. 2024, Algorithm 1, in our indices: rows best responses, columns teammates.
    """
    a, b = multipliers
    return jnp.eye(a.shape[0]) + jnp.diag(jnp.sum(a + b, axis=1)) - a.T - b


@dataclass(frozen=True)
class LBRDiv(PairWeightRule):
    """Projected gradient descent of the Lagrangian in its multipliers."""

    margin: float
    """tau."""
    rate: float
    """lambda_alpha, the multipliers' step size."""
    ceiling: float = float("inf")
    """Upper bound of every multiplier; infinite in the paper."""
    ripeness: float = 0.0
    """How much slower multipliers grow for a pair that earns less than the best one; 0 in the paper."""
    fading: float = 0.0
    """Share of its multipliers that a pair loses at each step before it has earned anything, if there is ripeness; 0 in
    the paper."""
    renewed: float = 0.0
    """Value of the multipliers of a pair that starts anew."""
    start: float = 0.0
    """Value of every multiplier at the outset."""

    def init(self, population_size: int) -> Multipliers:
        off_diagonal = self.start * (1.0 - jnp.eye(population_size))
        return Multipliers(off_diagonal, off_diagonal)

    def weights(self, state: Multipliers) -> PairMatrix:
        return lagrangian_pair_weights(state)

    def update(self, state: Multipliers, pair_values: PairMatrix) -> Multipliers:
        """alpha <- clip(alpha - rate dL/dalpha, 0, ceiling); the gradient is the constraint's gap."""
        slack = Multipliers(*gaps(pair_values, self.margin))
        growth = self._growth(jnp.diagonal(pair_values))[:, None]
        kept = 1.0 - self.fading * (1.0 - growth)

        def step(multiplier: PairMatrix, gap: PairMatrix) -> PairMatrix:
            moved = kept * multiplier - self.rate * jnp.where(gap < 0.0, growth, 1.0) * gap
            return jnp.clip(moved, 0.0, self.ceiling)

        return jax.tree.map(step, state, slack)

    def renew(self, state: Multipliers, fresh: Bool[Array, "K"]) -> Multipliers:
        """A pair that starts anew is held to its constraints from the outset, and nobody is held to theirs by it.

        As its multipliers fade, the convention that the fewest others follow is the first that pays.
        """
        held = jnp.where(fresh[:, None], self.renewed * (1.0 - jnp.eye(fresh.shape[0])), 0.0)
        return jax.tree.map(lambda a: jnp.where(fresh[:, None] | fresh[None, :], held, a), state)

    def _growth(self, own: Float[Array, "K"]) -> Float[Array, "K"]:
        """Speed at which multipliers of each pair's constraints grow, 1 for the best pair once it earns the margin.

        Before a pair has learned to earn anything, its constraints cannot hold, and multipliers that grow regardless
        teach it to avoid everybody's rewards, its own included.
        """
        if self.ripeness == 0.0:
            return jnp.ones_like(own)
        earned = jnp.maximum(own, 0.0)
        return (earned / jnp.maximum(jnp.max(earned), self.margin + SMALLEST_VALUE)) ** self.ripeness
