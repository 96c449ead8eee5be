"""The coverage regret of a set of policies in a finite game, over all mixed teammates.

    regret(S) = max_p [ max_i a_i . p - max_{s in S} v_s . p ] = max_i max_p min_s (a_i - v_s) . p

where a_i is row i of the ego payoffs, v_s what member s earns with every column (a row of the table for a pure action,
a mean of rows for a mixed one), and p a mix of columns. For each row it is the value of a zero-sum game. HiGHS proposes
p and a mix of members; evaluating both in floating point gives bounds, so that no tolerance of the solver is trusted.

Rahman et al. 2024: a set is a coverage set iff its regret is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from coverset.solver.zero_sum import float_strategies


class CoverageRegret(NamedTuple):
    """How much more a best response earns than the best member of a set, with the teammate that is served worst."""

    low: float
    """Attained at `mix`."""
    high: float
    """No mix has more."""
    row: int
    """The action that is missed."""
    mix: Float[np.ndarray, "n"]
    """The worst teammate."""


def coverage_regret(payoffs: Float[np.ndarray, "m n"], served: Float[np.ndarray, "k n"]) -> CoverageRegret:
    """The largest regret of a set with any mixed teammate.

    Args:
      payoffs: of the ego, by its action and the teammate's.
      served: what each member of the set earns with each action of the teammate; at least one member.
    """
    found = [_row_regret(row, gains) for row, gains in enumerate(payoffs[:, None] - served[None])]
    worst = max(found, key=lambda each: each.low)
    return worst._replace(high=max(each.high for each in found))


def _row_regret(row: int, gains: Float[np.ndarray, "k n"]) -> CoverageRegret:
    span = float(np.abs(gains).max())
    guess = float_strategies(gains / span) if span > 0 else None
    if guess is None:  # pure strategies bound every game
        mix = np.eye(gains.shape[1])[int(np.argmax(gains.min(axis=0)))]
        return CoverageRegret(float(gains.min(axis=0).max()), float(gains.max(axis=1).min()), row, mix)
    mix, rivals = guess
    return CoverageRegret(float((gains @ mix).min()), float((rivals @ gains).max()), row, mix)


def redundant_members(
    payoffs: Float[np.ndarray, "m n"], served: Float[np.ndarray, "k n"], *, margin: float
) -> list[int]:
    """Members, from 0, without which, one at a time and the last first, the regret stays at most `margin`."""
    kept, dropped = list(range(len(served))), []
    for member in reversed(range(len(served))):
        rest = [each for each in kept if each != member]
        if rest and coverage_regret(payoffs, served[rest]).low <= margin:
            kept, dropped = rest, [member, *dropped]
    return dropped


def due_members(coverage_set: Sequence[int], margins: Sequence[float], margin: float) -> set[int]:
    """Members of an exact coverage set whose exact margins are at least `margin`: those that a run must find."""
    return {row for row, room in zip(coverage_set, margins, strict=True) if room >= margin}
