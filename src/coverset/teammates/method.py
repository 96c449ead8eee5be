"""What a teammate generation method is: a rule for the K x K matrix of pair weights.

Every method maximises sum_ij w_ij R_ij over the K best responses (rows i) and K teammates (columns j), where R_ij is
the expected return of best response i with teammate j (the paper's R_{i,-j}). The methods differ only in w and in how
w moves with the returns, so that is all a method may say. The diagonal is self-play, the rest cross-play.
"""

import abc

import jax.numpy as jnp
from jaxtyping import Array, Bool

from coverset.types import PairMatrix, PyTree


class PairWeightRule(abc.ABC):
    """A method. Implementations are frozen dataclasses of plain numbers, so they are static under `jit`."""

    @abc.abstractmethod
    def init(self, population_size: int) -> PyTree:
        """What the rule remembers before training, such as its multipliers."""

    @abc.abstractmethod
    def weights(self, state: PyTree) -> PairMatrix:
        """The weight of every pair's return in the objective."""

    def renew(self, state: PyTree, fresh: Bool[Array, "K"]) -> PyTree:
        """React to pairs that start anew; a rule that remembers nothing of pairs does not."""
        del fresh
        return state

    def update(self, state: PyTree, pair_values: PairMatrix) -> PyTree:
        """React to the pairs' estimated returns; a rule with constant weights does not."""
        del pair_values
        return state


class ConstantWeights(PairWeightRule):
    """A rule whose weights never move: one number for self-play, one for cross-play, and how many pairs there are."""

    @abc.abstractmethod
    def self_play_weight(self, population_size: int) -> float:
        """w_ii."""

    @abc.abstractmethod
    def cross_play_weight(self, population_size: int) -> float:
        """w_ij for i != j."""

    def init(self, population_size: int) -> PairMatrix:
        return jnp.where(
            jnp.eye(population_size, dtype=bool),
            jnp.float32(self.self_play_weight(population_size)),
            jnp.float32(self.cross_play_weight(population_size)),
        )

    def weights(self, state: PairMatrix) -> PairMatrix:
        return state


def gaps(pair_returns: PairMatrix, margin: float) -> tuple[PairMatrix, PairMatrix]:
    """Slack of the constraints (paper, the two constraints under the constrained objective): satisfied where >= 0.

        other_best_response_ij = R_ii - R_ji - margin        other_teammate_ij = R_ii - R_ij - margin

    The diagonals mean nothing and are set to zero.
    """
    off_diagonal = 1.0 - jnp.eye(pair_returns.shape[0])
    own = jnp.diagonal(pair_returns)[:, None]
    return (own - pair_returns.T - margin) * off_diagonal, (own - pair_returns - margin) * off_diagonal


def violated(pair_returns: PairMatrix, margin: float) -> Bool[Array, "K"]:
    """Pairs some constraint of which does not hold."""
    return jnp.any(jnp.minimum(*gaps(pair_returns, margin)) < 0.0, axis=1)
