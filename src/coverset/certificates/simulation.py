"""A check of exact returns by simulation: sample means of every pair must agree with the computed values.

The mean return of n episodes within a range of width c differs from its expectation by more than

    sqrt(2 log(4 / delta)) SE + 7/3 log(4 / delta) c / (n - 1)

with probability delta at most (Maurer and Pontil 2009, empirical Bernstein bound), with SE the standard
error. The first term is 5.5 standard errors; the second covers events too rare to appear in n episodes.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from coverset.certificates.finite import FiniteGame
from coverset.envs.base import Environment
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.evaluation.summary import TRIALS
from coverset.policies.population import Population
from coverset.policies.stacked import count_members

BATCHES = 8
"""Most batches of `TRIALS` episodes per pair. A summary's cross-play is one such batch, so the compiled program of a
run on this machine is reused."""
STEPS = 2_000_000
"""Step budget of all pairs together: a second or two."""
DELTA = 1e-6
"""Probability that a correct value is rejected."""
ROUNDING = 4 * float(np.finfo(np.float32).eps)
"""Relative error of a few float32 operations, the precision of the game."""


class Sample(NamedTuple):
    """Means over simulated episodes."""

    mean: Float[np.ndarray, "K K"]
    standard_error: Float[np.ndarray, "K K"]

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "standard_error": self.standard_error.tolist()}


class Simulation(NamedTuple):
    """Simulated results of the pairs of a population."""

    episodes: int
    """Episodes per pair."""
    returns: Sample
    discounted_returns: Sample
    length: Sample

    def to_json(self) -> dict[str, Any]:
        samples = {name: getattr(self, name).to_json() for name in ("returns", "discounted_returns", "length")}
        return {"episodes": self.episodes, **samples}


def simulate(environment: Environment, population: Population, *, discount: float) -> Simulation:
    """Play every pair, always with the same random keys."""
    pairs = count_members(population.best_responses) * count_members(population.teammates)
    trials = limit_trials(TRIALS, environment.horizon, pairs=pairs)
    batches = int(np.clip(STEPS // (trials * pairs * environment.horizon), 1, BATCHES))
    played = [
        cross_play(key, environment, *population, trials=trials, discount=discount)
        for key in jax.random.split(jax.random.key(0), batches)
    ]
    samples = {}
    for field in ("returns", "discounted_returns", "length"):
        values = np.concatenate([np.asarray(getattr(batch, field), np.float64)[..., 0] for batch in played], axis=-1)
        with np.errstate(invalid="ignore"):  # the deviation of infinite returns is NaN, which `check_agreement` rejects
            samples[field] = Sample(values.mean(axis=-1), values.std(axis=-1, ddof=1) / values.shape[-1] ** 0.5)
    return Simulation(batches * trials, **samples)


def check_agreement(
    game: FiniteGame, simulation: Simulation, exact: dict[str, Float[np.ndarray, "K K"]], *, discount: float
) -> None:
    """Raise ValueError unless exact values, by the field names of `Simulation`, agree with the simulation."""
    largest, lengths = float(np.abs(game.reward).max()), exact["length"]
    limits = {
        "returns": (return_range(game, 1.0), largest),
        "discounted_returns": (return_range(game, discount), largest),
        "length": (float(game.horizon), 1.0),
    }
    for field, (width, unit) in limits.items():
        sample = getattr(simulation, field)
        rounding = ROUNDING * unit * lengths**2
        agrees = np.abs(sample.mean - exact[field]) <= _tolerance(sample, simulation.episodes, width) + rounding
        if not agrees.all():
            row, column = np.argwhere(~agrees)[0]
            raise ValueError(
                f"{game.name} cannot be certified: the {field.replace('_', ' ')} of best response {row} with teammate "
                f"{column} should be {exact[field][row, column]:.6g}, but {simulation.episodes:,} simulated episodes "
                f"give {sample.mean[row, column]:.6g} with a standard error of "
                f"{sample.standard_error[row, column]:.2g}; make step, observe and reset behave in play as when "
                "enumerated, with numbers that float32 can sum."
            )


def _tolerance(sample: Sample, episodes: int, width: float) -> Float[np.ndarray, "K K"]:
    """Return the bound in the module docstring."""
    log = np.log(4 / DELTA)
    return (2 * log) ** 0.5 * sample.standard_error + 7 / 3 * log * width / (episodes - 1)


def return_range(game: FiniteGame, discount: float) -> float:
    """Return the largest minus the smallest return of any actions from any start."""
    lowest, highest = return_limits(game, discount)
    return highest - lowest


def return_limits(game: FiniteGame, discount: float) -> tuple[float, float]:
    """Return the smallest and the largest return of any actions from any start."""
    ends = []
    for sign in (-1.0, 1.0):
        values = np.zeros(game.num_states)
        for _ in range(game.horizon):
            going = np.where(game.ended, 0.0, values[game.next_state])
            values = (sign * game.reward + discount * going).max(axis=(1, 2))
        ends.append(sign * float(values[game.initial > 0].max()) + 0.0)  # never -0.0
    return ends[0], ends[1]
