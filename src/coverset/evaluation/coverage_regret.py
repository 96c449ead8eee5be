"""How much better than a set of best responses somebody does with the worst of some teammates, by simulation.

    regret(S) = max_j [ max_i R_ij - max_{s in S} R_sj ]        over the teammates j and best responses i at hand

The worst teammate is chosen by one set of episodes and measured by another, so that the choice does not bias the
result. Of the measured regret, the first term is that of one best response, and the second the highest of several means
and thus rather too high: it is an estimate from below of the regret with that teammate.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from coverset.envs.base import Environment
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.policies.actor import ActorPolicy
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.types import PRNGKey

CHOOSING_TRIALS = 256
"""Episodes of every pair among which the worst teammate is chosen."""
TRIALS = 4096
"""Episodes of each pair that measure the regret with it."""


class MeasuredRegret(NamedTuple):
    """The regret with the worst teammate at hand."""

    value: float
    standard_error: float
    best_return: float
    """What the best response at hand earns with the teammate."""
    served_return: float
    """What the best member of the set earns with it."""
    served_by: int
    """That member, from 0."""
    teammate: int
    """Which of the probes' teammates it is, from 0."""
    best_response: int
    """Whose best response earns most with it, from 0."""
    regrets: Float[np.ndarray, "M"]
    """With every probe's teammate, by the episodes that chose the worst."""
    conventions: Int[np.ndarray, "trials seats"]
    """Of the best response and the teammate in each episode."""
    trials: int


def measure_regret(key: PRNGKey, environment: Environment, members: ActorPolicy, probes: Population) -> MeasuredRegret:
    """Find the teammate of a probe that a set serves worst, and measure how badly.

    Args:
      key: random key.
      environment: the game.
      members: best responses of the set, stacked.
      probes: pairs that look for teammates that the set does not cover.
    """
    choosing, measuring = jax.random.split(key)
    teammate, best_response, regrets = _choose_worst(choosing, environment, members, probes)
    size = count_members(members)
    responders = _join(members, take_members(probes.best_responses, [best_response]))
    worst = take_members(probes.teammates, [teammate])
    trials = limit_trials(TRIALS, environment.horizon, pairs=size + 1)
    played = cross_play(measuring, environment, responders, worst, trials=trials)
    returns = np.asarray(played.returns, float)[:, 0, :, 0]
    means, errors = returns.mean(axis=1), returns.std(axis=1, ddof=1) / trials**0.5
    served_by = int(np.argmax(means[:size]))
    return MeasuredRegret(
        value=float(means[size] - means[served_by]),
        standard_error=float(np.hypot(errors[size], errors[served_by])),
        best_return=float(means[size]),
        served_return=float(means[served_by]),
        served_by=served_by,
        teammate=teammate,
        best_response=best_response,
        regrets=regrets,
        conventions=np.asarray(played.conventions)[size, 0, :, 0],
        trials=trials,
    )


def _choose_worst(
    key: PRNGKey, environment: Environment, members: ActorPolicy, probes: Population
) -> tuple[int, int, Float[np.ndarray, "M"]]:
    """The teammate with the highest regret, the best response that earns most with it, and all regrets."""
    size, count = count_members(members), count_members(probes.teammates)
    responders = _join(members, probes.best_responses)
    trials = limit_trials(CHOOSING_TRIALS, environment.horizon, pairs=(size + count) * count)
    played = cross_play(key, environment, responders, probes.teammates, trials=trials)
    returns = np.asarray(played.returns, float)[..., 0].mean(axis=-1)
    regrets = returns[size:].max(axis=0) - returns[:size].max(axis=0)
    teammate = int(np.argmax(regrets))
    return teammate, int(np.argmax(returns[size:, teammate])), regrets


def take_members(policies: ActorPolicy, numbers: list[int]) -> ActorPolicy:
    """Some members of stacked policies, from 0, still stacked."""
    return jax.tree.map(lambda x: x[np.array(numbers)], policies)


def _join(first: ActorPolicy, second: ActorPolicy) -> ActorPolicy:
    return jax.tree.map(lambda *x: jnp.concatenate(x), first, second)


def describe_regret(record: dict) -> str:
    """A sentence about the fields that a record of probes has.

    Example:
      >>> describe_regret({"probes": 16, "coverage_regret": 0.01, "standard_error": 0.004, "margin": 0.5})
      '16 probes found nothing above the margin of 0.5: the worst teammate leaves a coverage regret of 0.01 ± 0.008.'
    """
    value = f"{max(record['coverage_regret'], 0.0):.3g} ± {2 * record['standard_error']:.1g}"
    looked = f"{record['probes']} {'probe' if record['probes'] == 1 else 'probes'}"
    if record["coverage_regret"] <= record["margin"]:
        rest = f"the worst teammate leaves a coverage regret of {value}"
        return f"{looked} found nothing above the margin of {record['margin']:.3g}: {rest}."
    return f"{looked} found a teammate with a coverage regret of {value}, above the margin of {record['margin']:.3g}."
