"""What is wrong with a population that training did not fail to produce, and what to try about it.

Pure functions of the numbers that a summary holds. Problems come in the order of their weight: whoever has learned
nothing need not hear of duplicates. A pair counts as dead if its self-play is no better than random play while others
earn more, and its own best response serves its teammate no better than others do; in some games a member of the
coverage set earns less than random play, and such a pair keeps its constraints.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from coverset.envs.base import Environment
from coverset.evaluation.conventions import coverage_set
from coverset.evaluation.kinds import smallest_cover
from coverset.solver import solve

CHANCE_SHARE = 0.05
"""Of the range of returns: what counts as no better than random play."""
NOISE = 3.0
"""Standard errors within which it counts as no better, too."""
STILL_RISING = 0.1
"""Of the whole rise of self-play: what it gains in the last fifth of a run that has not settled."""
FEWEST_ROWS = 10
"""Of a log from which a trend is read."""


class RunNumbers(NamedTuple):
    """What a diagnosis looks at; rows are best responses, columns teammates."""

    returns: Float[np.ndarray, "R C"]
    discounted: Float[np.ndarray, "R C"]
    """As in the constraints."""
    margin: float
    chance: float
    """Mean return of untrained pairs."""
    coverage_found: int | None
    coverage_size: int | None
    error: float = 0.0
    """Standard error of a mean return, the largest."""
    exact_margin: float | None = None
    """The largest margin with which all members of the known coverage set keep their constraints."""
    out_of_steps: bool = False
    """Whether the run ended with its last step, and not by itself."""
    self_play: tuple[float, ...] = ()
    """Mean self-play return over training."""
    complete: bool | None = None
    """For methods that find the size of the set: whether they ended because nothing more was found."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    kind: str
    sentence: str
    """What is the matter, and what to try."""


def diagnose(run: RunNumbers) -> list[Problem]:
    """All that is wrong, the weightiest first; empty for a run that went well."""
    if _no_better_than_chance(run).all():
        return [_describe_chance(run)]
    found = [_find_dead(run), _find_impossible(run), _find_unfinished(run), _find_duplicates(run)]
    return [problem for problem in found if problem is not None]


def _own(run: RunNumbers) -> Float[np.ndarray, "K"]:
    return np.diagonal(run.returns)


def _no_better_than_chance(run: RunNumbers) -> Bool[np.ndarray, "K"]:
    every = np.append(run.returns, run.chance)
    return _own(run) <= run.chance + max(CHANCE_SHARE * np.ptp(every), NOISE * run.error)


def _is_square(run: RunNumbers) -> bool:
    return run.returns.shape[0] == run.returns.shape[1]


def dead_pairs(run: RunNumbers) -> list[int]:
    """Pairs, from 1, that earn no more than random play and serve their teammates no better than others do."""
    if not _is_square(run) or len(run.returns) < 2:
        return []
    others = np.where(np.eye(len(run.discounted), dtype=bool), -np.inf, run.discounted).max(axis=0)
    needless = np.diagonal(run.discounted) < others + run.margin
    return (1 + np.flatnonzero(_no_better_than_chance(run) & needless)).tolist()


def _describe_chance(run: RunNumbers) -> Problem:
    earned = f"{_own(run).max():.3g} at most, where untrained policies earn {run.chance:.3g}"
    longer = "more --total-steps" if run.out_of_steps else "a higher --entropy"
    return Problem(
        "chance",
        f"Self-play is at chance ({earned}): nothing was learned; try {longer}, more environments "
        "(--extra-self-play 12), and `--method independent` to see whether the game can be learned at all.",
    )


def _find_dead(run: RunNumbers) -> Problem | None:
    dead = dead_pairs(run)
    if not dead:
        return None
    told = f"Pair {dead[0]} earns" if len(dead) == 1 else f"Pairs {', '.join(map(str, dead))} earn"
    return Problem(
        "dead_pairs",
        f"{told} no more than untrained policies ({run.chance:.3g}): try --restart-patience 100, or `--method growing`,"
        " which drops such pairs.",
    )


def _find_impossible(run: RunNumbers) -> Problem | None:
    """Constraints that no population can keep with so many pairs or such a margin."""
    pairs, size = run.returns.shape[1], run.coverage_size
    if size is not None and pairs > size and run.complete is None:
        return Problem(
            "too_many_pairs",
            f"{pairs} pairs cannot all keep their constraints: the coverage set has {size} "
            f"{'member' if size == 1 else 'members'}; try --population-size {max(size, 2)}.",
        )
    span = float(np.ptp(np.append(run.returns, run.chance)))
    largest = span if run.exact_margin is None else run.exact_margin
    if run.margin > largest:
        known = "returns differ by" if run.exact_margin is None else "the coverage set allows for"
        return Problem(
            "margin_too_large",
            f"The margin of {run.margin:.3g} is more than the {largest:.3g} that {known}: "
            f"try --margin {largest / 2:.2g}.",
        )
    return None


def _find_unfinished(run: RunNumbers) -> Problem | None:
    if run.complete is False:
        return Problem(
            "out_of_steps",
            "The steps ran out before a whole round of probes found nothing: members may be missing; try more "
            "--total-steps, or a larger --population-size if the set is as large as that allows.",
        )
    if run.out_of_steps and still_rises(run.self_play):
        return Problem("out_of_steps", "The steps ran out while self-play still rose: try more --total-steps.")
    return None


def still_rises(values: tuple[float, ...]) -> bool:
    """Whether the last fifth of a curve is higher than the fifth before by a good part of its whole rise."""
    if len(values) < FEWEST_ROWS:
        return False
    *_, before, last = (float(np.mean(part)) for part in np.array_split(values, 5))
    return bool(last - before > STILL_RISING * max(last - min(values), 0.0) > 0.0)


def _find_duplicates(run: RunNumbers) -> Problem | None:
    """Pairs whose teammates other best responses serve as well as their own."""
    if not _is_square(run):
        return None
    pairs = len(run.returns)
    kinds = len(smallest_cover(run.discounted, run.margin))
    repeated = pairs - kinds - len(dead_pairs(run))
    if repeated <= 0:
        return None
    told = "1 pair repeats another" if repeated == 1 else f"{repeated} pairs repeat others"
    missing = run.coverage_size is not None and (run.coverage_found or 0) < run.coverage_size
    remedy = (
        "more --total-steps, --restart-patience 100, or `--method growing`, which finds the number of pairs"
        if missing or run.coverage_size is None
        else f"--population-size {max(2, kinds)}"
    )
    return Problem("duplicates", f"Of {pairs} pairs {told} up to the margin of {run.margin:.3g}: try {remedy}.")


def smallest_exact_margin(environment: Environment) -> float | None:
    """The largest margin that all members of the known coverage set keep against each other; None if it is unknown."""
    members = coverage_set(environment)
    if len(members) < 2:
        return None
    payoffs = np.asarray(environment.convention_payoffs, np.float32).astype(float)[list(members)]
    return min(solve(payoffs).margins)


def describe_steps_needed(pairs: int, total_steps: int, needed: int, usual_pairs: int) -> str | None:
    """A sentence for a run of more pairs than usual with fewer steps than they ask for; None where there are enough.

    Args:
      pairs: K.
      total_steps: of the run.
      needed: with which each pair has as many steps of self-play as `usual_pairs` have by default.
      usual_pairs: the default number.
    """
    if pairs <= usual_pairs or total_steps >= 0.9 * needed:
        return None
    return (
        f"{pairs} pairs need about {needed:,} steps for as much self-play each as the default {usual_pairs} pairs get, "
        f"and this run has {total_steps:,}: some may not be learned; consider --total-steps {needed}."
    )
