"""What is possible in a trial with a partner from a known set, for an agent that is not told which one it has.

The agent chooses one of A *arms* (ways to play an episode) in each of T episodes with a partner drawn from N. It knows
the prior, and P(o | a, p), how likely everything that it sees of an episode is with each arm and partner; what it saw
is all that it knows about its partner. The best mean return per episode is the value of a Bayes-adaptive bandit,

    W_t(b) = max_a  sum_p b_p R[a, p] + sum_o W_{t+1}(b P(o | a, .)),        W_T = 0,        value W_0(prior) / T

with unnormalised beliefs b. With the members of a coverage set as arms this is the *covering bound*, with all ways to
play the *Bayes bound*. `solve_exactly` computes it. Where there are too many beliefs,

- `play_look_ahead` is a lower bound: what an agent earns that looks one episode ahead; - `bound_informed` and
`bound_by_free_information` are upper bounds: what an agent earns that is told more than it may know.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

MOST_STATES = 400_000
"""Most beliefs that are listed for an exact solution; a few seconds."""
DIGITS = 10
"""Digits to which the likelihoods of two outcomes must agree, up to a factor, to count as the same evidence."""


class TrialProblem(NamedTuple):
    """A bandit whose arms' outcomes depend on a hidden partner."""

    prior: Float[np.ndarray, "N"]
    outcomes: Float[np.ndarray, "A N O"]
    """P(o | a, p)."""
    returns: Float[np.ndarray, "A N"]
    """R[a, p], the mean return of an episode."""


class PlayedEpisodes(NamedTuple):
    """Episodes that were really played, by arm, partner, trial and episode of the trial."""

    outcomes: Int[np.ndarray, "A N n T"]
    """What the agent saw, by number."""
    returns: Float[np.ndarray, "A N n T"]


class TrialMean(NamedTuple):
    """A mean over trials."""

    mean: float
    standard_error: float


class _Evidence(NamedTuple):
    """Outcomes merged where they are the same evidence, up to a factor."""

    directions: Float[np.ndarray, "S N"]
    """Likelihood of each kind of evidence by partner, summing to 1."""
    scales: Float[np.ndarray, "A S"]
    """P(s | a, p) = scales[a, s] directions[s, p]."""
    nothing: Float[np.ndarray, "A"]
    """P(no evidence | a), the same for all partners."""


def solve_exactly(problem: TrialProblem, episodes: int, *, most_states: int = MOST_STATES) -> float | None:
    """The value per episode, by dynamic programming over counts of evidence; None if there are too many of them.

    The belief depends on how often each kind of evidence was seen, not on the order: with S kinds, there are
    C(T - 1 + S, S) counts.
    """
    evidence = _merge_evidence(problem)
    kinds = len(evidence.directions)
    if math.comb(episodes - 1 + kinds, kinds) > most_states or (episodes + 1) ** kinds >= 2**53:
        return None
    counts = _list_counts(kinds, episodes - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(evidence.directions > 0, np.log(evidence.directions), -1e30)
    beliefs = problem.prior * np.exp(counts @ logs)  # [states, N]
    gains = beliefs @ problem.returns.T  # [states, A]
    after = _find_successors(counts)
    sizes = [math.comb(t + kinds, kinds) for t in range(episodes)]  # states of at most t pieces of evidence
    values = np.zeros(len(counts))
    for t in reversed(range(episodes)):
        now = gains[: sizes[t]].copy()
        if t < episodes - 1:
            now += np.outer(values[: sizes[t]], evidence.nothing)
            now += np.einsum("as,ns->na", evidence.scales, values[after[: sizes[t]]])
        values[: sizes[t]] = now.max(axis=1)
    return float(values[0] / episodes)


def _merge_evidence(problem: TrialProblem) -> _Evidence:
    arms, partners, _ = problem.outcomes.shape
    columns = np.moveaxis(problem.outcomes, 1, 2).reshape(-1, partners)
    arm = np.repeat(np.arange(arms), problem.outcomes.shape[2])
    mass = columns.sum(axis=1)
    columns, arm, mass = columns[mass > 0], arm[mass > 0], mass[mass > 0]
    directions, kind = np.unique(np.round(columns / mass[:, None], DIGITS), axis=0, return_inverse=True)
    scales = np.zeros((arms, len(directions)))
    np.add.at(scales, (arm, kind.reshape(-1)), mass)
    telling = np.ptp(directions, axis=1) > 0
    return _Evidence(directions[telling], scales[:, telling], scales[:, ~telling].sum(axis=1) / partners)


def _list_counts(kinds: int, most: int) -> Int[np.ndarray, "states kinds"]:
    """All counts of at most `most` pieces of evidence, those of fewer pieces first."""
    if kinds == 0:
        return np.zeros((1, 0), np.int64)
    listed = []
    for total in range(most + 1):
        bars = np.array([*itertools.combinations(range(total + kinds - 1), kinds - 1)], np.int64)
        bars = bars.reshape(-1, kinds - 1)
        ends = np.full((len(bars), 1), total + kinds - 1)
        listed.append(np.diff(np.concatenate([np.full_like(ends, -1), bars, ends], axis=1), axis=1) - 1)
    return np.concatenate(listed)


def _find_successors(counts: Int[np.ndarray, "states kinds"]) -> Int[np.ndarray, "states kinds"]:
    """The number of the state with one piece of evidence more, of each kind; 0 where it is not listed."""
    base = counts.sum(axis=1).max(initial=0) + 2
    place = float(base) ** np.arange(counts.shape[1])
    keys = counts @ place  # exact: fewer than 2^53
    order = np.argsort(keys)
    wanted = keys[:, None] + place
    found = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    return np.where(keys[order][found] == wanted, order[found], 0)


def play_look_ahead(problem: TrialProblem, played: PlayedEpisodes) -> TrialMean:
    """What an agent has earned, per episode, that looks one episode ahead by `problem`, with each of the N partners.

    With n episodes left, this one included, it chooses

        argmax_a  sum_p b_p R[a, p] + (n - 1) sum_o max_k sum_p b_p P(o | a, p) R[k, p]

    and learns from what it saw by Bayes' rule. All of this was really played, in episodes that `problem` was not
    estimated from: a lower bound on the value, up to the standard error. An episode counts as the mean of all that were
    played with its arm and partner, which varies less. Outcomes that `problem` lacks teach nothing.
    """
    _, partners, trials, episodes = played.returns.shape
    means = played.returns.mean(axis=(2, 3))
    partner, trial = (grid.reshape(-1) for grid in np.indices((partners, trials)))
    likelihood = np.concatenate([problem.outcomes, np.ones((*problem.returns.shape, 1))], axis=2)
    seen_as = np.where(played.outcomes < problem.outcomes.shape[2], played.outcomes, problem.outcomes.shape[2])
    beliefs, earned = np.tile(problem.prior, (len(partner), 1)), np.zeros((len(partner), episodes))
    for t in range(episodes):
        arm = _look_ahead(problem, beliefs, episodes - 1 - t)
        earned[:, t] = means[arm, partner]
        evidence = likelihood[arm, :, seen_as[arm, partner, trial, t]]
        beliefs = beliefs * np.where(evidence.sum(axis=1, keepdims=True) > 0, evidence, 1.0)
        beliefs /= beliefs.sum(axis=1, keepdims=True)
    by_trial = earned.mean(axis=1).reshape(partners, trials)
    error = np.sqrt(np.sum((problem.prior * by_trial.std(axis=1, ddof=1)) ** 2 / trials)) if trials > 1 else np.nan
    return TrialMean(float(problem.prior @ by_trial.mean(axis=1)), float(error))


def _look_ahead(problem: TrialProblem, beliefs: Float[np.ndarray, "n N"], left: int) -> Int[np.ndarray, "n"]:
    now = beliefs @ problem.returns.T
    if left == 0:
        return now.argmax(axis=1)
    joint = np.einsum("apo,kp->aopk", problem.outcomes, problem.returns).reshape(-1, *problem.returns.T.shape)
    after = np.einsum("np,xpk->nxk", beliefs, joint, optimize=True).max(axis=2)
    return (now + left * after.reshape(*now.shape, -1).sum(axis=2)).argmax(axis=1)


def bound_informed(
    prior: Float[np.ndarray, "N"], blind: float, informed: Float[np.ndarray, "N"], episodes: int
) -> float:
    """An upper bound: nothing is known in the first episode, and then the agent is told its partner.

        ( max_a sum_p prior_p R[a, p]  +  (T - 1) sum_p prior_p max_a R[a, p] ) / T

    Args:
      prior: of the partners.
      blind: the most that an episode is worth without any knowledge of the partner.
      informed: the most that an episode is worth with each partner.
      episodes: T.
    """
    return float((blind + (episodes - 1) * (prior @ informed)) / episodes)


def bound_by_free_information(
    chance: np.random.Generator,
    prior: Float[np.ndarray, "N"],
    draws: Float[np.ndarray, "N H"],
    value: Callable[[Float[np.ndarray, "N"]], float],
    *,
    times: tuple[int, ...],
    episodes: int,
    trials: int,
) -> TrialMean:
    """An upper bound: after each episode the agent is told what its partner drew in it, whatever it played itself.

    The information does not depend on the agent, so that it is best to play for each episode alone: the bound is the
    mean over t of E value(b_t), with b_t the posterior after t draws. This grows with t (what is known is never
    forgotten), so that times which are left out are bounded by the next one that is computed.

    Args:
      chance: what is drawn from.
      prior: of the partners.
      draws: the distribution of what each partner draws in an episode, which determines all that it does.
      value: the most that an episode is worth with a partner of this belief.
      times: the values of t that are computed, in increasing order; the last must be T - 1.
      episodes: T.
      trials: drawn with each partner.
    """
    partners, kinds = draws.shape
    found = np.zeros((partners, trials, len(times)))
    for partner, trial in itertools.product(range(partners), range(trials)):
        drawn = chance.choice(kinds, size=episodes - 1, p=draws[partner])
        for number, t in enumerate(times):
            belief = prior * np.prod(draws[:, drawn[:t]], axis=1)
            found[partner, trial, number] = value(belief / belief.sum())
    lasting = np.diff([-1, *times])  # episodes for which each of the times stands
    by_trial = found @ lasting / episodes
    error = np.sqrt(np.sum((prior * by_trial.std(axis=1, ddof=1)) ** 2 / trials)) if trials > 1 else np.nan
    return TrialMean(float(prior @ by_trial.mean(axis=1)), float(error))


def number_outcomes(
    returns: Float[np.ndarray, "..."], lengths: Int[np.ndarray, "..."], most: int = 64
) -> tuple[Int[np.ndarray, "..."], int]:
    """Numbers for what an agent sees of an episode at least, its return and length, and how many there are.

    If there are more than `most`, lengths are left out, and then returns are put into bins: an agent that sees less
    earns no more, so that a lower bound stays one.
    """
    rounded = np.round(np.asarray(returns, np.float64), 4)
    for keys in (np.stack([rounded, lengths], axis=-1), rounded[..., None]):
        kinds, number = np.unique(keys.reshape(-1, keys.shape[-1]), axis=0, return_inverse=True)
        if len(kinds) <= most:
            return number.reshape(rounded.shape), len(kinds)
    edges = np.linspace(rounded.min(), rounded.max(), most + 1)[1:-1]
    return np.searchsorted(edges, rounded), most


def count_outcomes(
    outcomes: Int[np.ndarray, "A N m"], number: int, *, pseudo_count: float = 0.5
) -> Float[np.ndarray, "A N O"]:
    """P(o | a, p) as counted, with the pseudo-count shared by the outcomes that the arm has had with any partner."""
    kinds: Bool[np.ndarray, "A N m O"] = outcomes[..., None] == np.arange(number)
    counts = kinds.sum(axis=2).astype(np.float64)
    pooled = counts.sum(axis=1, keepdims=True) / counts.sum(axis=(1, 2), keepdims=True)
    counts += pseudo_count * pooled
    return counts / counts.sum(axis=2, keepdims=True)
