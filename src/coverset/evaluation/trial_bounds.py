"""Chance, covering bound, Bayes bound and oracle of a game's held-out partners: between these, agents are shown.

All are mean returns per episode in a trial of T episodes with a partner that is drawn evenly from the held-out ones:

- *chance*: an agent that acts at random;
- *covering bound*: the best agent that knows the partners, but not which it has, and plays one of the generated best
  responses in each episode;
- *Bayes bound*: the best agent that knows as much, and plays whatever its observations allow;
- *oracle*: an agent that knows its partner.

A bound is exact, or it is known to lie between two numbers, each of which may come from simulation; see
`evaluation.bounds` for what is proven about each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.envs.base import Environment
from coverset.envs.extensions import partner_draws
from coverset.envs.oracle import Oracle, PartnerDraws
from coverset.evaluation.bounds import (
    PlayedEpisodes,
    TrialProblem,
    bound_by_free_information,
    bound_informed,
    count_outcomes,
    number_outcomes,
    play_look_ahead,
    solve_exactly,
)
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.policies.compatibility import first_percept
from coverset.policies.stacked import group_alike, stack
from coverset.policy import Policy
from coverset.runs.storage import round_floats
from coverset.types import Percept, PRNGKey

TRIALS = 24
"""Trials of every arm with every partner from which a model is estimated, and as many on which it is played."""
CHANCE_TRIALS = 16
FREE_TRIALS = 16
FREE_SEED = 0
"""Of the draws that free information tells: the same for all agents, which are compared with one bound."""


@dataclass(frozen=True)
class Bound:
    """A value that lies between two numbers."""

    at_least: float
    """What an agent of this kind earns; its standard error is below."""
    at_most: float | None
    """What no agent of this kind can exceed, up to the error of the simulated mean returns from which it is computed
    where the bound is not exact; None where nothing is known."""
    exact: bool
    """Whether both are the value itself, computed without simulation."""
    standard_error: float | None = None

    def to_json(self) -> dict[str, Any]:
        """A record."""
        rounded = {name: _round(getattr(self, name)) for name in ("at_least", "at_most", "standard_error")}
        return {**rounded, "exact": self.exact}


@dataclass(frozen=True)
class TrialBounds:
    """All four, from the lowest to the highest."""

    chance: float
    covering: Bound | None
    """None where best responses do not fit the agent's seat."""
    bayes: Bound | None
    oracle: float | None
    """Mean over partners; None unless every partner's is known."""

    def to_json(self) -> dict[str, Any]:
        """A record."""
        bounds = {name: bound.to_json() if (bound := getattr(self, name)) else None for name in ("covering", "bayes")}
        return {"chance": _round(self.chance), **bounds, "oracle": _round(self.oracle)}


class UniformPolicy(Policy):
    """Draws a legal action evenly."""

    log_probabilities: Float[Array, "*n a"]

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        logits = self.log_probabilities
        logits = logits if percept.legal is None else jnp.where(percept.legal, logits, -jnp.inf)
        return jax.random.categorical(key, logits).astype(jnp.int32), memory


def measure_bounds(
    key: PRNGKey,
    environment: Environment,
    library: Policy,
    *,
    seat: int,
    partners: Mapping[str, Policy],
    oracles: Mapping[str, Oracle],
    episodes: int,
) -> TrialBounds:
    """Compute the bounds of a trial.

    Args:
      key: of the random numbers.
      environment: the game.
      library: the generated best responses, stacked.
      seat: the agent's.
      partners: whom it may meet, by name.
      oracles: by name, where known.
      episodes: T.
    """
    covering_key, bayes_key, chance_key = jax.random.split(key, 3)
    draws = partner_draws(environment, [*partners.values()], seat)
    fits = seat == 0 or environment.seats_alike
    covering = bound_covering(covering_key, environment, library, partners, draws, episodes) if fits else None
    known = [oracles[name] for name in partners if name in oracles]
    values = np.array([oracle.value for oracle in known]) if len(known) == len(partners) else None
    bayes = bound_bayes(bayes_key, environment, partners, draws, known, values, episodes, seat, covering)
    actions = environment.num_actions[seat]
    at_random = UniformPolicy(jnp.zeros((1, actions)))
    chance, _ = _play(chance_key, environment, at_random, partners, seat, CHANCE_TRIALS, episodes)
    return TrialBounds(float(chance.mean()), covering, bayes, None if values is None else float(values.mean()))


def bound_covering(
    key: PRNGKey,
    environment: Environment,
    library: Policy,
    partners: Mapping[str, Policy],
    draws: PartnerDraws | None,
    episodes: int,
) -> Bound:
    """The covering bound of best responses; they play in seat 0, to which the agent's is alike."""
    prior = np.full(len(partners), 1 / len(partners))
    if draws is not None and draws.rewards is not None:
        chosen = _action_probabilities(environment, library)
        exact = None if chosen is None else solve_exactly(one_step_problem(prior, draws, chosen), episodes)
        if exact is not None:
            return Bound(exact, exact, exact=True)
    found, returns = _look_ahead(key, environment, library, partners, 0, episodes)
    at_most = bound_informed(prior, float((returns @ prior).max()), returns.max(axis=0), episodes)
    if draws is not None:
        free = _free_information(prior, draws, lambda belief: float((returns @ belief).max()), episodes)
        at_most = min(at_most, free)
    return Bound(found.at_least, at_most, exact=False, standard_error=found.standard_error)


def bound_bayes(
    key: PRNGKey,
    environment: Environment,
    partners: Mapping[str, Policy],
    draws: PartnerDraws | None,
    oracles: Sequence[Oracle],
    values: Float[np.ndarray, "N"] | None,
    episodes: int,
    seat: int,
    covering: Bound | None,
) -> Bound | None:
    """The Bayes bound; None where nothing is known about it.

    Args:
      key: of the random numbers.
      environment: the game.
      partners: whom the agent may meet.
      draws: what they draw, where known.
      oracles: of partners, where known; their policies are arms of an agent that looks ahead.
      values: those of all partners, if all are known.
      episodes: T.
      seat: the agent's.
      covering: the covering bound, which is a lower bound.
    """
    prior = np.full(len(partners), 1 / len(partners))
    if draws is not None and draws.rewards is not None:
        exact = solve_exactly(one_step_problem(prior, draws, np.eye(len(draws.rewards))), episodes)
        if exact is not None:
            return Bound(exact, exact, exact=True)
    lower = [] if covering is None else [covering]
    arms = {str(number): oracle.policy for number, oracle in enumerate(oracles) if oracle.policy is not None}
    if arms and len(group_alike(arms)) == 1:
        lower.append(_look_ahead(key, environment, _stack_different(arms), partners, seat, episodes)[0])
    upper = [] if values is None else [float(values.mean())]
    if draws is not None:
        mixed = draws.probabilities
        upper.append(_free_information(prior, draws, lambda belief: draws.best_value(belief @ mixed), episodes))
    if not lower:
        return None
    best = max(lower, key=lambda bound: bound.at_least)
    return Bound(best.at_least, min(upper) if upper else None, exact=False, standard_error=best.standard_error)


def one_step_problem(
    prior: Float[np.ndarray, "N"], draws: PartnerDraws, chosen: Float[np.ndarray, "A actions"]
) -> TrialProblem:
    """The trial in a game of one step, in which the agent sees its action and its reward.

    Args:
      prior: of the partners.
      draws: of the partners, and the rewards of the agent's actions.
      chosen: the probabilities with which each arm chooses each action.
    """
    rewards = draws.rewards
    assert rewards is not None, "draws of a game of one step have rewards"
    kinds = np.unique(rewards)
    seen = np.stack([draws.probabilities @ (row[:, None] == kinds) for row in rewards])  # [actions, N, kinds]
    joint = np.einsum("au,upo->apuo", chosen, seen)
    returns = chosen @ rewards @ draws.probabilities.T
    return TrialProblem(prior, joint.reshape(*joint.shape[:2], -1), returns)


def _stack_different(policies: Mapping[str, Policy]) -> Policy:
    """Policies of one kind, each once."""
    different: list[Policy] = []
    for policy in policies.values():
        if not any(_same_arrays(policy, other) for other in different):
            different.append(policy)
    return stack(different)


def _same_arrays(one: Policy, other: Policy) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _action_probabilities(environment: Environment, library: Policy) -> Float[np.ndarray, "A actions"] | None:
    """How the members of a library choose at the one step of a game; None where they do not say."""
    percept = first_percept(environment, 0)
    chosen = eqx.filter_vmap(lambda policy: policy.action_probabilities(percept, policy.initial_memory()))(library)
    return None if chosen is None else np.asarray(chosen, np.float64)


def _free_information(prior: Float[np.ndarray, "N"], draws: PartnerDraws, value, episodes: int) -> float:
    """The upper bound of free information, three standard errors above its estimate, so that it is one."""
    last = episodes - 1
    times = tuple(sorted({t for t in (0, 1, 2, 4, 8, last) if t <= last}))
    found = bound_by_free_information(
        np.random.default_rng(FREE_SEED),
        prior,
        draws.probabilities,
        value,
        times=times,
        episodes=episodes,
        trials=FREE_TRIALS,
    )
    return found.mean + 3.0 * found.standard_error


def _look_ahead(
    key: PRNGKey, environment: Environment, arms: Policy, partners: Mapping[str, Policy], seat: int, episodes: int
) -> tuple[Bound, Float[np.ndarray, "A N"]]:
    """A lower bound that was really played, and the mean returns of all arms."""
    number = jax.tree.leaves(eqx.filter(arms, eqx.is_array))[0].shape[0]
    steps = episodes * environment.horizon
    trials = limit_trials(2 * TRIALS, steps, pairs=number * len(partners))
    returns, lengths = _play(key, environment, arms, partners, seat, trials, episodes)
    outcomes, kinds = number_outcomes(returns, lengths)
    half = trials // 2
    flat = (number, len(partners), -1)
    problem = TrialProblem(
        np.full(len(partners), 1 / len(partners)),
        count_outcomes(outcomes[:, :, :half].reshape(flat), kinds),
        returns[:, :, :half].reshape(flat).mean(axis=2),
    )
    found = play_look_ahead(problem, PlayedEpisodes(outcomes[:, :, half:], returns[:, :, half:]))
    error = None if np.isnan(found.standard_error) else found.standard_error
    return Bound(found.mean, None, exact=False, standard_error=error), returns.reshape(flat).mean(axis=2)


def _play(
    key: PRNGKey,
    environment: Environment,
    arms: Policy,
    partners: Mapping[str, Policy],
    seat: int,
    trials: int,
    episodes: int,
) -> tuple[Float[np.ndarray, "A N n T"], Int[np.ndarray, "A N n T"]]:
    """Returns and lengths of episodes of all arms with all partners."""
    swapped = environment.num_seats == 2 and seat == 1
    returns, lengths = {}, {}
    for names in group_alike(partners):
        group = stack([partners[name] for name in names])
        sides = (group, arms) if swapped else (arms, group)
        played = cross_play(key, environment, *sides, trials=trials, episodes=episodes, ego=seat)
        for found, values in ((returns, played.returns), (lengths, played.length)):
            table = np.asarray(values)
            found |= dict(zip(names, table if swapped else np.moveaxis(table, 1, 0), strict=True))
    stacked = [np.stack([found[name] for name in partners], axis=1) for found in (returns, lengths)]
    return stacked[0].astype(np.float64), stacked[1]


def _round(value: float | None) -> float | None:
    return None if value is None else round_floats(value)
