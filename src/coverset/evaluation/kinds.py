"""Kinds of teammates, for environments without conventions: distinguished by the best responses that serve them.

A best response serves a teammate if no best response of the population earns more with it by the margin or more. Two
teammates are of one kind if one best response serves both. The smallest set of best responses that serves every
teammate is an empirical minimum coverage set of the population (Rahman et al. 2024, whose constraints require it to be
the whole population), and its size is the number of kinds.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import LinearConstraint, milp

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def find_served(pair_returns: Float[np.ndarray, "R C"], margin: float) -> Bool[np.ndarray, "R C"]:
    """Whether best response i serves teammate j: R_ij > max_k R_kj - margin, or R_ij is the maximum."""
    best = pair_returns.max(axis=0)
    return (pair_returns > best - margin) | (pair_returns == best)


def smallest_cover(pair_returns: Float[np.ndarray, "R C"], margin: float) -> list[int]:
    """Return the fewest best responses that serve every teammate; among equally small sets, the highest-earning."""
    serving = find_served(pair_returns, margin)
    size = len(serving)
    earned = (pair_returns * serving).sum(axis=1)
    span = np.ptp(earned)
    preference = (earned - earned.min()) / span if span else np.zeros(size)
    # The preferences of a whole set sum to less than the cost of one more member.
    solution = milp(
        1.0 - preference / (size + 1), integrality=1, constraints=LinearConstraint(serving.T.astype(float), 1)
    )
    assert solution.success, solution.message  # all best responses together always serve every teammate
    return [int(member) for member in np.flatnonzero(solution.x > 0.5)]


def assign_kinds(pair_returns: Float[np.ndarray, "R C"], margin: float) -> list[int]:
    """Return, for every teammate, the member of `smallest_cover` that serves it best."""
    cover = np.array(smallest_cover(pair_returns, margin))
    usable = np.where(find_served(pair_returns, margin)[cover], pair_returns[cover], -np.inf)
    return [int(member) for member in cover[usable.argmax(axis=0)]]


def describe_kinds(pair_returns: Float[np.ndarray, "R C"], margin: float) -> dict[str, Any]:
    """Return the summary fields for the kinds of a population, for environments without conventions.

    Args:
      pair_returns: discounted, as in the constraints; rows best responses, columns teammates.
      margin: the tolerance, in units of these returns.
    """
    by_teammate = assign_kinds(pair_returns, margin)
    names: dict[int, str] = {}
    for member in by_teammate:
        names.setdefault(member, f"kind {LETTERS[len(names)] if len(names) < len(LETTERS) else len(names) + 1}")
    serving = find_served(pair_returns, margin)
    first = {member: by_teammate.index(member) for member in names}
    return {
        "conventions": [
            names[member] + (f", like teammate {first[member] + 1}" if first[member] != teammate else "")
            for teammate, member in enumerate(by_teammate)
        ],
        "best_response_conventions": [_describe_served_kinds(row, by_teammate, names) for row in serving],
        "covers": [names.get(member) for member in range(len(pair_returns))],
        "coverage_found": len(names),
        "coverage_size": None,
    }


def join_kind(kind: str, words: str) -> str:
    """The kind of a teammate and what it does: `kind B: goes left 97%, like teammate 1`."""
    name, comma, like = kind.partition(",")
    return f"{name}: {words}{comma}{like}"


def _describe_served_kinds(row: Bool[np.ndarray, "C"], by_teammate: list[int], names: dict[int, str]) -> str:
    """List the kinds of which a best response serves every teammate."""
    whole = [
        name for kind, name in names.items() if all(row[j] for j, member in enumerate(by_teammate) if member == kind)
    ]
    return f"serves {', '.join(whole)}" if whole else "serves no kind"


def describe_row(returns: Float[np.ndarray, "C"], number: int) -> str:
    """A row of cross-play in words: `earns 0.97 with teammate 1, 0.1 to 0.2 with others`."""
    own = min(number, len(returns) - 1)
    others = np.delete(returns, own)
    told = f"earns {returns[own]:.3g} with teammate {own + 1}"
    if not len(others):
        return told
    low, high = f"{others.min():.3g}", f"{others.max():.3g}"
    return f"{told}, {low if low == high else f'{low} to {high}'} with others"
