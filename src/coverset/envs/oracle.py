"""Oracles: the reference returns against which ad hoc agents are scored. docs/concepts/oracles.md lists the values.

The oracle agent knows its partner's policy from the first step, but observes no more than an ad hoc agent: neither the
partner's hidden position nor its random draws. The gap between the two includes the cost of identifying the partner.
"""

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


def to_double_precision(probabilities: Float[Array, "n"]) -> Float[np.ndarray, "n"]:
    """Convert float32 probabilities to normalised float64 by their shortest decimals: 0.55, not 0.550000012."""
    written = np.array([float(str(probability)) for probability in np.asarray(probabilities)])
    return written / written.sum()
