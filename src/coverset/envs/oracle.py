"""What an oracle is: the standard against which an ad hoc agent is scored. docs/oracles.md has the values.

The agent that an oracle describes knows which partner it plays with, but in every other way is one of ours: it sees
neither the partner's hidden position nor its private draws. It knows its partner from the first step on, so what an
ad hoc agent spends on finding out is part of the distance between them.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Array, Float

from coverset.policy import Policy


@dataclass(frozen=True)
class Oracle:
    """Expected undiscounted returns per episode with one known partner."""

    value: float
    """The best for an agent that knows which partner it plays with and sees what any agent in its seat sees."""
    exact: bool
    """Whether `value` is attained; otherwise it is an upper bound only."""
    full_information: float
    """The best for an agent that also sees the partner's position and draws; a bound where `value` is one."""
    policy: Policy | None = field(default=None, compare=False, repr=False)
    """An agent that attains `value`, where one was computed."""


def chances_as_written(chances: Float[Array, "n"]) -> Float[np.ndarray, "n"]:
    """A policy's float32 chances in double precision: 0.55, not 0.550000012, and summing to 1."""
    written = np.array([float(str(chance)) for chance in np.asarray(chances)])
    return written / written.sum()
