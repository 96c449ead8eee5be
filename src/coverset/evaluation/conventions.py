"""Conventions that each policy follows, and the members of the coverage set that a population holds."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from coverset.envs.base import Environment
from coverset.solver import solve

RARE = 0.01
"""Conventions followed less often than this are not listed."""
DOMINANT = 0.5
"""A policy has a convention if it follows it in more than this share of its self-play."""


def convention_shares(followed: Int[np.ndarray, "K n"], num_conventions: int) -> Float[np.ndarray, "K c"]:
    """Return the share of each convention in each policy's episodes; the last column is 'none of them'."""
    return np.stack([np.bincount(row, minlength=num_conventions + 1) / len(row) for row in followed])


def format_shares(environment: Environment, shares: Float[np.ndarray, "c"]) -> str:
    """Format shares, the most frequent first, as in 'corner A 97%, no convention 3%'."""
    names = (*environment.conventions, "no convention")
    order = np.argsort(-shares, kind="stable")
    return ", ".join(f"{names[c]} {shares[c]:.0%}" for c in order if shares[c] >= RARE)


def coverage_set(environment: Environment) -> tuple[int, ...]:
    """Return the conventions of the minimum coverage set, solved exactly; empty if their payoffs are unknown."""
    return _solve_payoffs(environment.convention_payoffs) if environment.convention_payoffs else ()


@functools.lru_cache
def _solve_payoffs(payoffs: tuple[tuple[float, ...], ...]) -> tuple[int, ...]:
    return solve(_round_to_float32(payoffs)).coverage_set


def _round_to_float32(payoffs: tuple[tuple[float, ...], ...]) -> Float[np.ndarray, "m n"]:
    """Round payoffs to float32, the precision of games."""
    with np.errstate(over="ignore"):  # `solve` rejects infinite payoffs
        return np.asarray(payoffs, np.float64).astype(np.float32).astype(np.float64)


def find_members(
    environment: Environment, best_response_shares: Float[np.ndarray, "K c"], teammate_shares: Float[np.ndarray, "K c"]
) -> list[int | None]:
    """Return the member of the known coverage set that each pair holds, or None.

    A pair holds member m if its best response follows m most of the time and m is a best response to its teammate: m
    maximises sum_c P(teammate follows c) payoff[m, c]. Conventions with the same payoffs as a member count as that
    member, and their shares are added. Dominated conventions are not members.
    """
    needed = coverage_set(environment)
    if not needed:
        return [None] * len(best_response_shares)
    payoffs = _round_to_float32(environment.convention_payoffs)
    same = np.array([[np.array_equal(payoffs[member], row) for row in payoffs] for member in needed])
    rounding = 1e-9 * np.abs(payoffs).max()
    found: list[int | None] = []
    for own, partner in zip(best_response_shares, teammate_shares, strict=True):
        shares = same @ own[: len(payoffs)]
        member = needed[int(np.argmax(shares))]
        values = payoffs @ partner[: payoffs.shape[1]]
        holds = shares.max() > DOMINANT and values[member] >= values.max() - rounding
        found.append(member if holds else None)
    return found


def member_names(environment: Environment, members: list[int | None]) -> list[str | None]:
    """Return the names of coverage-set members; None for None."""
    return [None if member is None else environment.conventions[member] for member in members]


def describe_conventions(
    environment: Environment, best_response_shares: Float[np.ndarray, "K c"], teammate_shares: Float[np.ndarray, "K c"]
) -> dict[str, Any]:
    """Return the summary fields for the conventions and the coverage of a population."""
    members = find_members(environment, best_response_shares, teammate_shares)
    names = environment.conventions
    known, pays = bool(names), bool(environment.convention_payoffs)
    return {
        "conventions": [format_shares(environment, shares) for shares in teammate_shares] if known else [],
        "best_response_conventions": [format_shares(environment, shares) for shares in best_response_shares]
        if known
        else [],
        "covers": member_names(environment, members),
        "coverage_found": len(set(members) - {None}) if pays else None,
        "coverage_size": len(coverage_set(environment)) if pays else None,
    }
