"""Array aliases with named axes, and the two records that environments and policies exchange.

Axes: `K` policies of a population, `n` environments, `T` time steps, `d` observation features, `seats` players.
Seat 0 is always the best response (or the ad hoc agent), all other seats belong to its teammates.
"""

from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Array, Bool, Float, Int, Key

PRNGKey: TypeAlias = Key[Array, ""]
Observation: TypeAlias = Float[Array, "d"]
Observations: TypeAlias = Float[Array, "seats d"]
Actions: TypeAlias = Int[Array, "seats"]
Scalar: TypeAlias = Float[Array, ""]
Flag: TypeAlias = Bool[Array, ""]
PairMatrix: TypeAlias = Float[Array, "K K"]
"""One number per pair: rows best responses, columns teammates."""

PyTree: TypeAlias = Any


class Percept(NamedTuple):
    """The input of a policy at one step."""

    observation: Observation
    """The policy's own observation of the current state."""
    reward: Scalar
    """The seat's reward for the previous step; 0 at the first step of a trial."""
    first: Flag
    """Whether this step starts an episode; `reward` then belongs to the end of the previous episode."""
    legal: Bool[Array, "a"] | None = None
    """The actions that the seat may choose; None in games whose actions are always legal."""
    seat: Int[Array, ""] | None = None
    """The policy's seat in games of more than two players; None in games of two, where a policy has one seat."""


class Trajectory(NamedTuple):
    """A whole episode of T steps."""

    states: PyTree
    """Arrays of the state with a leading axis of T + 1, the initial and the final one included."""
    observations: Float[Any, "*b seats d"]
    """What every seat saw before each step, [T, seats, d]."""
    actions: Int[Any, "*b seats"]
    """What every seat played, [T, seats]."""
    rewards: Float[Any, "*b seats"]
    """What every seat earned, [T, seats]."""


class Outcome(NamedTuple):
    """The result of one environment step, before any reset."""

    state: PyTree
    reward: Scalar | Float[Array, "seats"]
    """One number is a reward that all seats share; otherwise one for each seat."""
    terminated: Flag
    """The game is over; its future return is 0."""
    truncated: Flag
    """The time limit ended the episode; learners bootstrap from the value of the final state."""
    shaping: Scalar | None = None
    """What the game pays all players for steps on the way, if it does. Training may add it to the reward with a weight
    that falls to 0 (`shaping_share`); returns never include it."""


class Symmetry(NamedTuple):
    """A way to relabel a game's observations and actions, the same for all seats, that leaves the game as it is."""

    observations: tuple[int, ...]
    """Entry e of a relabelled observation is entry `observations[e]` of the true one."""
    actions: tuple[int, ...]
    """Relabelled action a is carried out as the true action `actions[a]`."""
