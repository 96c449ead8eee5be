"""The margin of an ego action against teams whose members mix independently, bounded exactly.

Teammates t = 1..m draw their actions from mixes p_t of their own, so that a team is a product of mixes:

    margin(i) = max_{p_1, ..., p_m} min_k G_k(p_1, ..., p_m)
    G_k(p_1, ..., p_m) = sum_{j_1, ..., j_m} (a_i - a_k)[j_1, ..., j_m] p_1[j_1] ... p_m[j_m]

As against all mixes of profiles (`coverage.py`), action i is needed if and only if its margin is positive: G_k is a
polynomial which is not identically 0 if rows i and k differ, so rows tie on sets without interior, and the same proof
applies. But products of mixes are no convex set, so the maximum is no linear programme. It is bounded from both sides:

- Below by any product, evaluated in integers. Candidates come from pure profiles and from alternating maximisation:
  with the mixes of all other teammates fixed, the best mix of one teammate is a linear programme.
- Above by branch and bound. A piece is a product of simplices Q_1 x ... x Q_m with corners in the teammates' simplices.
  G_k is multilinear, so its values in the piece are means of its values at tuples of corners; the value of the zero-sum
  game on these values, in which the team may correlate corners, bounds the margin in the piece. Pieces are halved at
  their longest edges, and the bounds converge to the margin.

The sign is known after finitely many pieces unless the margin is 0. It may be unknown then, or where the pieces allowed
are too few. Falk and Soland 1969 introduced this scheme for non-convex programmes.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np

from coverset.solver.zero_sum import (
    Budget,
    Mix,
    UndecidedError,
    float_strategies,
    list_rational_candidates,
    value_bounds,
)

MAX_PIECES = 2000
"""Most pieces that bound the margin of one action: about six seconds for small games."""
ROUNDS = 20
"""Most rounds of alternating maximisation from one start; it usually stops after two or three."""
RANDOM_STARTS = 4
"""Starts of alternating maximisation at random mixes, besides the best profile, the centre and a given mix."""

Team = tuple[Mix, ...]
"""One mix per teammate."""
Piece = tuple[np.ndarray, ...]
"""One simplex per teammate: an object array of integers [corners, actions] whose rows have the same sum."""


@dataclass(frozen=True)
class TeamBounds:
    """Exact bounds low <= margin <= high."""

    low: Fraction
    """The margin at `team`."""
    high: Fraction
    team: Team
    pieces: int = 1
    """Number of pieces into which the teams were divided."""


def bound_independent_margin(gains: np.ndarray, joint: Mix, budget: Budget) -> TeamBounds:
    """Bound an action's margin against independent teams, if possible until its sign is known.

    Args:
      gains: object array of integers [rivals, actions of teammate 1, ..., actions of teammate m], a_i - a_k.
      joint: a mix of profiles with a positive margin, in the order of the flattened axes; starts the search.
      budget: limits the exact arithmetic.
    """
    team = max(find_teams(gains, joint), key=lambda team: product_margin(gains, team))
    bounds = TeamBounds(product_margin(gains, team), Fraction(int(gains.max())), team)
    return bounds if bounds.low > 0 else _branch_and_bound(gains, bounds, budget)


def product_margin(gains: np.ndarray, team: Team) -> Fraction:
    """min_k G_k at a product of mixes."""
    totals = [mix.total for mix in team]
    return Fraction(int(_contract(gains, team).min()), int(np.prod(np.array(totals, dtype=object))))


def product_mix(team: Team) -> Mix:
    """Return the distribution over profiles, the last teammate's action innermost."""
    return Mix(reduce(np.multiply.outer, [mix.weights for mix in team]).ravel())


def find_teams(gains: np.ndarray, joint: Mix) -> Iterator[Team]:
    """Propose products: the best profile and the marginals of `joint`, then what alternating maximisation finds.

    It stops at the first positive margin.
    """
    profile = _find_best_profile(gains)
    yield profile
    yield tuple(map(Mix, _marginals(joint.weights.reshape(gains.shape[1:]))))
    scaled = (gains / int(abs(gains).max())).astype(np.float64)
    for start in _list_starts(gains.shape[1:], joint, profile):
        found = max(_round_team(_maximise_in_turn(scaled, start)), key=lambda team: product_margin(gains, team))
        yield found
        if product_margin(gains, found) > 0:
            return


def _find_best_profile(gains: np.ndarray) -> Team:
    margins = gains.min(axis=0)
    best = map(int, np.unravel_index(int(np.argmax(margins)), margins.shape))
    return tuple(Mix(_unit(action, size)) for action, size in zip(best, margins.shape, strict=True))


def _unit(place: int, size: int) -> np.ndarray:
    return np.array([int(place == other) for other in range(size)], dtype=object)


def _list_starts(shape: tuple[int, ...], joint: Mix, profile: Team) -> Iterator[list[np.ndarray]]:
    yield [mix.weights.astype(np.float64) for mix in profile]
    shares = np.array([float(share) for share in joint.fractions()]).reshape(shape)
    yield _marginals(shares)
    yield [np.full(size, 1.0 / size) for size in shape]
    rng = np.random.default_rng(0)
    for _ in range(RANDOM_STARTS):
        yield [rng.dirichlet(np.ones(size)) for size in shape]


def _marginals(shares: np.ndarray) -> list[np.ndarray]:
    """Sum an array over all axes but one, for each axis."""
    axes = range(shares.ndim)
    return [shares.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]


def _maximise_in_turn(gains: np.ndarray, team: list[np.ndarray]) -> list[np.ndarray]:
    """Replace one teammate's mix after the other by the best one given the rest, in floats, until nothing improves."""
    team, value = list(team), -np.inf
    for _ in range(ROUNDS):
        for teammate in range(len(team)):
            found = float_strategies(_fix_others(gains, team, teammate))
            if found is None:
                return team
            team[teammate] = found[0]
        reached = float(_fix_others(gains, team, 0).dot(team[0]).min())
        if reached <= value + 1e-12:
            break
        value = reached
    return team


def _fix_others(gains: np.ndarray, team: list[np.ndarray], teammate: int) -> np.ndarray:
    """Gains [rivals, actions] of one teammate's actions with the mixes of the others."""
    for other in reversed(range(len(team))):  # from the last axis, so that those before keep their numbers
        if other != teammate:
            gains = np.tensordot(gains, team[other], axes=(other + 1, 0))
    return gains


def _round_team(team: list[np.ndarray]) -> list[Team]:
    """Return rational teams near a float one: simple fractions wherever possible, and the floats themselves."""
    candidates = [list_rational_candidates(mix) for mix in team]
    return [tuple(mixes[0] for mixes in candidates), tuple(mixes[-1] for mixes in candidates)]


def _contract(gains: np.ndarray, team: Team) -> np.ndarray:
    for mix in team:
        gains = np.tensordot(gains, mix.weights, axes=(1, 0))
    return gains


def _branch_and_bound(gains: np.ndarray, start: TeamBounds, budget: Budget) -> TeamBounds:
    """Halve the piece with the highest bound until a team has a positive margin or no piece has a positive bound."""
    whole = tuple(np.array(np.eye(size, dtype=int), dtype=object) for size in gains.shape[1:])
    queue, closed, best, pieces = [(-start.high, 0, whole)], [], (start.low, start.team), 1
    while queue and pieces < MAX_PIECES:
        halves = _halve(queue[0][2])
        try:
            evaluated = [(half, *_evaluate(gains, half, budget)) for half in halves]
        except UndecidedError:
            break
        heapq.heappop(queue)
        for half, high, team in evaluated:
            pieces += 1
            best = max(best, (product_margin(gains, team), team), key=lambda found: found[0])
            if high > 0:
                heapq.heappush(queue, (-high, pieces, half))  # the unique number decides between equal bounds
            else:
                closed.append(high)
        if best[0] > 0:
            break
    high = max([*closed, *(-negative for negative, _, _ in queue)])
    return TeamBounds(best[0], min(start.high, high), best[1], len(closed) + len(queue))


def _halve(piece: Piece) -> tuple[Piece, Piece]:
    """Cut the longest edge of all simplices at its middle."""
    edges = [_find_longest_edge(simplex) for simplex in piece]
    cut = max(range(len(piece)), key=lambda teammate: edges[teammate][0])
    _, first, second = edges[cut]
    doubled = 2 * piece[cut]
    middle = piece[cut][first] + piece[cut][second]
    halves = [doubled.copy(), doubled.copy()]
    halves[0][first], halves[1][second] = middle, middle
    low, high = ((*piece[:cut], half, *piece[cut + 1 :]) for half in halves)
    return low, high


def _find_longest_edge(simplex: np.ndarray) -> tuple[float, int, int]:
    """Return the squared length and the two corners of the first longest edge; (0, 0, 0) if there is none."""
    points = (simplex / simplex[0].sum()).astype(np.float64)
    lengths = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    first, second = np.unravel_index(int(np.argmax(lengths)), lengths.shape)
    return float(lengths[first, second]), int(first), int(second)


def _evaluate(gains: np.ndarray, piece: Piece, budget: Budget) -> tuple[Fraction, Team]:
    """Return an upper bound of the margin in a piece and a team in it."""
    for simplex in piece:
        gains = np.tensordot(gains, simplex, axes=(1, 1))
    corners = gains.shape[1:]
    bounds = value_bounds(gains.reshape(len(gains), -1), budget)
    scale = reduce(lambda product, simplex: product * int(simplex[0].sum()), piece, 1)
    weights = _marginals(bounds.p.weights.reshape(corners))
    team = tuple(Mix(weight.dot(simplex)) for weight, simplex in zip(weights, piece, strict=True))
    return bounds.high / scale, team
