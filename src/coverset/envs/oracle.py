"""Oracles: the reference returns against which ad hoc agents are scored. docs/concepts/oracles.md lists the values.

The oracle agent knows its partner's policy from the first step, but observes no more than an ad hoc agent: neither the
partner's hidden position nor its random draws. The gap between the two includes the cost of identifying the partner.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Array, Float

from coverset.policy import Policy


@dataclass(frozen=True)
class Oracle:
    """Expected undiscounted returns per episode with one known partner."""

    value: float
    """The best return of an agent that knows its partner and sees what any agent in its seat sees."""
    exact: bool
    """Whether `value` is attained; otherwise it is an upper bound."""
    full_information: float
    """The best return of an agent that also sees the partner's position and draws; a bound where `value` is one."""
    policy: Policy | None = field(default=None, compare=False, repr=False)
    """A policy that attains `value`, if one was computed."""


@dataclass(frozen=True)
class PartnerDraws:
    """What partners draw at the start of an episode, where that determines all that they do in it.

    What an agent sees of an episode must depend on its partner through the draw alone. Bounds on trials with a partner
    that is one of several (`evaluation.bounds`) are computed from it.
    """

    probabilities: Float[np.ndarray, "N H"]
    """Of each draw, by partner."""
    best_value: Callable[[Float[np.ndarray, "H"]], float]
    """The best return of an episode, for an agent that knows no more than the probabilities of the draws."""
    rewards: Float[np.ndarray, "actions H"] | None = None
    """In a game of one step, all that an agent sees: the reward of each of its actions."""


def to_double_precision(probabilities: Float[Array, "n"]) -> Float[np.ndarray, "n"]:
    """Convert float32 probabilities to normalised float64 by their shortest decimals: 0.55, not 0.550000012."""
    written = np.array([float(str(probability)) for probability in np.asarray(probabilities)])
    return written / written.sum()
