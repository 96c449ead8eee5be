"""A certificate of a population: what its pairs earn, what the best responses to its teammates would earn, exactly.

Training checks the paper's constraints by the critic's word and measures returns by simulation. For a finite game both
can be had without sampling error (`finite`, `blind`). There are two readings of every return: discounted, as in the
paper's R_{i,-j}, which decides the constraints; and undiscounted, to compare with measured cross-play.

Differs from the paper: the sum of rewards stops at the horizon, where learners bootstrap through it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from coverset.certificates.blind import TOLERANCE, TRIALS, Bounds, blind_value
from coverset.certificates.finite import FiniteGame, action_probabilities, enumerate_game, evaluate_pair, response
from coverset.certificates.simulation import Simulation, check_agreement, simulate
from coverset.checks import check_at_least, check_between, check_finite
from coverset.envs.base import Environment
from coverset.evaluation.conventions import describe
from coverset.evaluation.cross_play import between_pairs, constraint_gaps, violated
from coverset.policies.population import Population
from coverset.runs.storage import round_floats

FORMAT = "coverset certificate 1"


@dataclass(frozen=True)
class BestResponse:
    """What seat 0 can earn with one teammate, and what the teammate's own best response does earn."""

    own: float
    """Return of the pair (j, j)."""
    observed: float
    """The best value of a responder that sees the joint state: no policy earns more."""
    blind: Bounds
    """The best value of a responder that sees its own observations and remembers them."""

    def to_json(self) -> dict[str, Any]:
        """Values, and regrets: what the own best response leaves on the table."""
        lower, upper = self.blind.lower, self.blind.upper
        return {
            "own": self.own,
            "observed": self.observed,
            "blind": {"lower": lower, "upper": upper, "exact": self.blind.exact},
            "regret_observed": self.observed - self.own,
            "regret_blind": {"lower": max(0.0, lower - self.own), "upper": max(0.0, upper - self.own)},
        }


@dataclass(frozen=True)
class Reading:
    """Every return of a population under one discount."""

    discount: float
    pair_returns: Float[np.ndarray, "K K"]
    """R_ij: rows best responses, columns teammates."""
    best_responses: tuple[BestResponse, ...]
    """One for each teammate."""

    def to_json(self) -> dict[str, Any]:
        return {
            "discount": self.discount,
            "pair_returns": self.pair_returns.tolist(),
            "best_responses": [best.to_json() for best in self.best_responses],
        }


@dataclass(frozen=True)
class Certificate:
    """What is known about a population beyond doubt."""

    states: int
    """Joint states of the game."""
    horizon: int
    margin: float
    discounted: Reading
    """The paper's returns, which decide the constraints."""
    undiscounted: Reading
    """Returns as cross-play measures them."""
    lengths: Float[np.ndarray, "K K"]
    """Expected steps of an episode."""
    coverage: dict[str, Any]
    """What each pair does and which members of the known coverage set it holds, by exact probabilities."""
    simulation: Simulation
    """What the pairs earned in play, which the exact returns fit."""

    @property
    def gaps(self) -> Float[np.ndarray, "2 K K"]:
        """Slack of both sets of constraints; see `constraint_gaps`."""
        return constraint_gaps(self.discounted.pair_returns, self.margin)

    @property
    def constraints_violated(self) -> int:
        return violated(self.gaps)

    def to_json(self) -> dict[str, Any]:
        """The content of `certificate.json`, but for where the population comes from."""
        gaps = self.gaps
        between = between_pairs(gaps)
        return {
            "format": FORMAT,
            "states": self.states,
            "horizon": self.horizon,
            "tolerance": TOLERANCE,
            "margin": self.margin,
            "discounted": self.discounted.to_json(),
            "undiscounted": self.undiscounted.to_json(),
            "episode_lengths": self.lengths.tolist(),
            "simulation": self.simulation.to_json(),
            **self.coverage,
            "gaps": {"other_best_response": round_floats(gaps[0]), "other_teammate": round_floats(gaps[1])},
            "smallest_gap": float(between.min()) if len(between) else None,
            "constraints": len(between),
            "constraints_violated": self.constraints_violated,
            "constraints_satisfied": self.constraints_violated == 0,
        }


def certify(
    environment: Environment, population: Population, *, margin: float, discount: float, trials: int = TRIALS
) -> Certificate:
    """Solve an environment around a population; raises ValueError where the solution could not be trusted.

    Args:
      environment: one that knows its initial distribution and has few joint states.
      population: K best responses (seat 0) and K teammates (seat 1), memoryless.
      margin: tau of the constraints.
      discount: gamma of the returns that decide them.
      trials: effort to close the bounds of the blind best responses, for each teammate and reading.
    """
    check_at_least("margin", margin, 0)
    check_finite("margin", margin)
    check_between("discount", discount, 0, 1)
    check_at_least("trials", trials, 0)
    game = enumerate_game(environment)
    first = action_probabilities(population.best_responses, game, seat=0)
    second = action_probabilities(population.teammates, game, seat=1)
    values = [[evaluate_pair(game, row, column, discount=discount) for column in second] for row in first]
    exact = {
        "returns": _field(values, "returns"),
        "discounted_returns": _field(values, "discounted_returns"),
        "length": _field(values, "length"),
    }
    simulation = simulate(environment, population, discount=discount)
    check_agreement(game, simulation, exact, discount=discount)
    own = np.stack([values[member][member].conventions for member in range(len(values))])
    discounted = _reading(game, first, second, exact["discounted_returns"], discount, trials)
    undiscounted = _reading(game, first, second, exact["returns"], 1.0, trials) if discount < 1 else discounted
    return Certificate(
        states=game.num_states,
        horizon=game.horizon,
        margin=margin,
        discounted=discounted,
        undiscounted=undiscounted,
        lengths=exact["length"],
        coverage=describe(environment, own[:, 0], own[:, 1]),
        simulation=simulation,
    )


def _field(values: list[list[Any]], name: str) -> Float[np.ndarray, "K K"]:
    return np.array([[getattr(value, name) for value in row] for row in values])


def _reading(
    game: FiniteGame,
    first: Float[np.ndarray, "K O A"],
    second: Float[np.ndarray, "K O B"],
    pair_returns: Float[np.ndarray, "K K"],
    discount: float,
    trials: int,
) -> Reading:
    best = []
    for own, teammate in zip(np.diagonal(pair_returns), second, strict=True):
        task = response(game, teammate)
        observed = float(game.initial @ task.observed(discount)[0])
        best.append(BestResponse(float(own), observed, blind_value(task, first, discount=discount, trials=trials)))
    return Reading(discount, pair_returns, tuple(best))
