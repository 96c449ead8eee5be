"""How a population compares with the exact coverage set of its game.

A member of the exact set has *to be found* if its exact margin is at least the margin of the run: no method can be
asked for differences that the run's margin ignores. It *is found* if, with the teammate that witnesses the margin, some
best response loses less than half of that margin against it: any other row of the table loses all of it.

The number of members to be found is not always the right size. Two actions of which each does nearly what the other
does have small margins, and yet one of them is needed. So the size is *right* if the set covers the game up to the
margin and none of its members can be left out without that ceasing to hold; `as_due` compares the plain numbers.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from coverset.solver import Solution
from coverset.solver.regret import coverage_regret, due_members, redundant_members

FOUND_SHARE = 0.5
"""Of a member's margin: what a best response that plays it may lose at its witness."""
ROUNDING = 1e-6


def judge(
    payoffs: Float[np.ndarray, "m n"], exact: Solution, served: Float[np.ndarray, "k n"], *, margin: float
) -> dict[str, Any]:
    """Compare a set of best responses with the exact coverage set.

    Args:
      payoffs: of the game in normal form.
      exact: its solution.
      served: what each best response earns with each column.
      margin: of the run.
    """
    due = due_members(exact.coverage_set, exact.margins, margin)
    found = due & find_rows(payoffs, exact, served)
    regret = coverage_regret(payoffs, served).low
    covers = regret <= margin + ROUNDING
    return {
        "exact_size": len(exact.coverage_set),
        "due": len(due),
        "found": len(found),
        "size_found": len(served),
        "whole": found == due,
        "size_right": bool(covers and not redundant_members(payoffs, served, margin=margin)),
        "size_as_due": len(served) == len(due),
        "coverage_regret": max(regret, 0.0),
        "margin": margin,
    }


def find_rows(payoffs: Float[np.ndarray, "m n"], exact: Solution, served: Float[np.ndarray, "k n"]) -> set[int]:
    """Members of the exact set that some best response plays."""
    found = set()
    for member in exact.members:
        witness = np.array([float(share) for share in member.witness])
        room = np.inf if member.margin is None else FOUND_SHARE * float(member.margin)
        if payoffs[member.action] @ witness - (served @ witness).max() < room:
            found.add(member.action)
    return found


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each part and method: shares of runs, and means and medians over them."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["part"], row["method"]), []).append(row)
    return [{"part": part, "method": method, **_summarise_group(group)} for (part, method), group in groups.items()]


def _summarise_group(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def values(name: str) -> np.ndarray:
        return np.array([row[name] for row in rows], float)

    return {
        "runs": len(rows),
        "games": len({row["game"] for row in rows}),
        "whole": float(values("whole").mean()),
        "members_found": int(values("found").sum()),
        "members_due": int(values("due").sum()),
        "size_right": float(values("size_right").mean()),
        "size_as_due": float(values("size_as_due").mean()),
        "size_found": float(values("size_found").mean()),
        "size_due": float(values("due").mean()),
        "covered": float((values("coverage_regret") <= values("margin") + ROUNDING).mean()),
        "largest_regret": float(values("coverage_regret").max()),
        "median_steps": float(np.median(values("env_steps"))),
        "seconds": float(values("seconds").sum()),
    }
