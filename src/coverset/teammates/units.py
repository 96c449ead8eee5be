"""Units that a run finds itself, so that no setting depends on the scale of rewards or on a constant added to them."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.types import Scalar

FORGETTING = 0.01
"""Share of the distance to the present range by which an older, wider range shrinks with every update."""
TINY = 1e-30


class Units(NamedTuple):
    """What the run has seen so far."""

    lowest: Scalar
    highest: Scalar
    """Range of the critic's estimates of pair returns; infinite, the wrong way round, before the first."""
    deviation: Scalar
    """Standard deviation of the critic's values over states; 0 where the critic has no units of its own."""
    advantages: tuple[Float[Array, "R"], Float[Array, "C"]]
    """What the advantages of every best response and teammate were divided by."""

    @property
    def unit(self) -> Scalar:
        """One unit of return: the range of pair returns.

        While all pairs earn alike, as they do before anything was learned, the range is noise; values of single states
        differ more than that, and their deviation stands in for it.
        """
        return jnp.maximum(jnp.maximum(self.highest - self.lowest, self.deviation), TINY)

    def of_returns(self, returns: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Returns from 0 for the lowest pair's on, in units of the range of pair returns."""
        return (returns - self.lowest) / self.unit

    def of_team_returns(self, values: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
        """The same for the returns of pairs and, where they play, of mixed teams."""
        pairs, mixed = values
        return self.of_returns(pairs), None if mixed is None else self.of_returns(mixed)

    def follow(
        self,
        pair_returns: Float[Array, "R C"],
        deviation: Scalar | float,
        advantages: tuple[Float[Array, "R"], Float[Array, "C"]],
    ) -> "Units":
        """The units after an update."""
        low, high = jnp.min(pair_returns), jnp.max(pair_returns)
        first = self.lowest > self.highest
        lowest = jnp.where(first, low, jnp.minimum(low, self.lowest + FORGETTING * (low - self.lowest)))
        highest = jnp.where(first, high, jnp.maximum(high, self.highest + FORGETTING * (high - self.highest)))
        # The first advantages are those of a critic that knows no units yet: they say nothing about later ones.
        remembered = tuple(jnp.where(first, 0.0, scale) for scale in advantages)
        return Units(lowest, highest, jnp.float32(deviation), remembered)  # pyright: ignore[reportArgumentType]


def start_units(rows: int, columns: int) -> Units:
    """Before the first update."""
    far = jnp.float32(jnp.finfo(jnp.float32).max)
    return Units(far, -far, jnp.float32(0.0), (jnp.zeros(rows), jnp.zeros(columns)))
