"""What each policy does, in words of the environment, and which members of the coverage set a population holds."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from coverset.envs.base import Environment
from coverset.solver import solve

RARE = 0.01
"""Conventions followed less often than this are not worth a word."""
DOMINANT = 0.5
"""A policy has a convention if it follows it in more than this share of its self-play."""


def convention_shares(followed: Int[np.ndarray, "K n"], num_conventions: int) -> Float[np.ndarray, "K c"]:
    """How often each policy followed each convention; the last column is 'none of them'."""
    return np.stack([np.bincount(row, minlength=num_conventions + 1) / len(row) for row in followed])


def in_words(environment: Environment, shares: Float[np.ndarray, "c"]) -> str:
    """For example 'corner A 97%, no convention 3%', the most frequent first."""
    names = (*environment.conventions, "no convention")
    order = np.argsort(-shares, kind="stable")
    return ", ".join(f"{names[c]} {shares[c]:.0%}" for c in order if shares[c] >= RARE)


def coverage_set(environment: Environment) -> tuple[int, ...]:
    """The conventions that the minimum coverage set needs, solved exactly; empty if their payoffs are not known."""
    return _solved(environment.convention_payoffs) if environment.convention_payoffs else ()


@functools.lru_cache
def _solved(payoffs: tuple[tuple[float, ...], ...]) -> tuple[int, ...]:
    return solve(_as_played(payoffs)).coverage_set


def _as_played(payoffs: tuple[tuple[float, ...], ...]) -> Float[np.ndarray, "m n"]:
    """Payoffs as games pay them, rounded to float32."""
    with np.errstate(over="ignore"):  # what becomes infinite is refused by `solve`
        return np.asarray(payoffs, np.float64).astype(np.float32).astype(np.float64)


def members_found(
    environment: Environment, best_response_shares: Float[np.ndarray, "K c"], teammate_shares: Float[np.ndarray, "K c"]
) -> list[int | None]:
    """For every pair, the member of the known coverage set that it calls for, or None.

    A pair holds member m if its best response follows m most of the time and m is indeed a best response to what its
    teammate does: m maximises sum_c P(teammate follows c) payoff[m, c]. Conventions that pay the same as a member with
    every teammate count as that member, together: where all payoffs are equal, whoever follows any conventions holds
    the only member. Dominated ones are no members.
    """
    needed = coverage_set(environment)
    if not needed:
        return [None] * len(best_response_shares)
    payoffs = _as_played(environment.convention_payoffs)
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
    """Names of coverage-set members, None where there is none."""
    return [None if member is None else environment.conventions[member] for member in members]


def describe(
    environment: Environment, best_response_shares: Float[np.ndarray, "K c"], teammate_shares: Float[np.ndarray, "K c"]
) -> dict[str, Any]:
    """The part of a summary that says what a population does and what it covers."""
    members = members_found(environment, best_response_shares, teammate_shares)
    names = environment.conventions
    known, pays = bool(names), bool(environment.convention_payoffs)
    return {
        "conventions": [in_words(environment, shares) for shares in teammate_shares] if known else [],
        "best_response_conventions": [in_words(environment, shares) for shares in best_response_shares]
        if known
        else [],
        "covers": member_names(environment, members),
        "coverage_found": len(set(members) - {None}) if pays else None,
        "coverage_size": len(coverage_set(environment)) if pays else None,
    }
