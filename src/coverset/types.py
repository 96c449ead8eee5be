"""Array aliases with named axes, and the two records that cross every boundary.

Axes: `K` policies of a population, `n` environments, `T` time steps, `d` observation features, seats `2`.
Seat 0 is always the best response (or the ad hoc agent), seat 1 the teammate.
"""

from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Array, Bool, Float, Int, Key

PRNGKey: TypeAlias = Key[Array, ""]
Observation: TypeAlias = Float[Array, "d"]
Observations: TypeAlias = Float[Array, "2 d"]
Actions: TypeAlias = Int[Array, "2"]
Scalar: TypeAlias = Float[Array, ""]
Flag: TypeAlias = Bool[Array, ""]
PairMatrix: TypeAlias = Float[Array, "K K"]
"""One number per pair: rows best responses, columns teammates."""

PyTree: TypeAlias = Any


class Percept(NamedTuple):
    """What a policy learns about the world between two of its actions."""

    observation: Observation
    """Its own view of the present state."""
    reward: Scalar
    """The common reward of the step before, 0 at the very first step."""
    first: Flag
    """Whether an episode starts here, so that `reward` closed the episode before."""


class Outcome(NamedTuple):
    """What one step of an environment leads to, before any reset."""

    state: PyTree
    reward: Scalar
    terminated: Flag
    """The game is over: nothing more can be earned."""
    truncated: Flag
    """The time limit cut the episode: its value goes on, and a learner bootstraps through it."""
