"""LIPO as published (Charakorn, Manoonpong and Dilokthanakul 2023): only the most compatible other pair is repelled.

Agent i, that is best response i and teammate i, maximises

    R_ii - alpha max_{j != i} C_ij        C_ij = R_ij + R_ji

where C_ij, the compatibility of two agents, is the return of their cross-play in both ways of sitting. The gradient of
the maximum is that of its largest entry, so that every agent has one rival j*(i) at a time:

    best response i:  w_ii = 1, w_ij = -alpha [j = j*(i)]        teammate i:  w_ii = 1, w_ji = -alpha [j = j*(i)]

Rivals are chosen by a running mean of the critic's estimates. For two pairs this is `lipo`, the sum over all others of
Rahman, Cui and Stone 2024, Appendix B.

Differs from the source: an agent is a pair of policies, one for each seat. There is no latent variable within an agent,
and so no mutual information term, which the paper adds for variations of one solution.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.checks import check_at_least, check_between, check_finite, check_positive
from coverset.teammates.method import Method, PairWeights, Seen, World
from coverset.types import PairMatrix, PRNGKey


def most_compatible(compatibility: PairMatrix) -> Int[Array, "K"]:
    """j*(i), the other agent with which agent i earns most."""
    others = ~jnp.eye(compatibility.shape[0], dtype=bool)
    return jnp.argmax(jnp.where(others, compatibility, -jnp.inf), axis=1)


def follow_compatibility(
    mean: PairMatrix, pair_values: PairMatrix, rate: float, is_first: Bool[Array, ""]
) -> PairMatrix:
    """The running mean of R_ij + R_ji; it starts with the first estimate."""
    both = pair_values + pair_values.T
    return jnp.where(is_first, both, (1.0 - rate) * mean + rate * both)


@dataclass(frozen=True)
class LIPOMax(Method):
    """w_ii = 1, and -alpha for the most compatible other pair alone."""

    alpha: float = 0.5
    """Weight of cross-play."""
    averaging_rate: float = 0.1
    """Share of the latest estimates in the running mean by which rivals are chosen."""

    def __post_init__(self) -> None:
        check_at_least("alpha", self.alpha, 0)
        check_finite("alpha", self.alpha)
        check_positive("averaging_rate", self.averaging_rate)
        check_between("averaging_rate", self.averaging_rate, 0, 1)

    def init(self, key: PRNGKey, world: World) -> PairMatrix:
        del key
        return jnp.zeros((world.rows, world.columns))

    def weights(self, state: PairMatrix) -> PairWeights:
        own = jnp.eye(state.shape[0])
        rivals = jax.nn.one_hot(most_compatible(state), state.shape[0])
        return PairWeights(own - self.alpha * rivals, own - self.alpha * rivals.T)

    def update(self, state: PairMatrix, seen: Seen) -> PairMatrix:
        return follow_compatibility(state, seen.pair_values, self.averaging_rate, seen.update == 0)

    def report(self, state: PairMatrix) -> dict[str, Array]:
        return {"rival": most_compatible(state) + 1}
