"""A certificate of a population: exact returns of its pairs and of the best responses to its teammates.

Training checks the paper's constraints by critic estimates and measures returns by simulation. For a finite game both
can be computed without sampling error (`finite`, `blind`). Every return has two variants: discounted, as in the paper's
R_{i,-j}, which decides the constraints; and undiscounted, to compare with measured cross-play.

Differs from the paper: the sum of rewards stops at the horizon, where learners bootstrap.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from coverset.certificates.blind import TOLERANCE, TRIALS, ValueInterval, blind_value
from coverset.certificates.finite import FiniteGame, action_probabilities, build_response, enumerate_game, evaluate_pair
from coverset.certificates.simulation import Simulation, check_agreement, simulate
from coverset.checks import check_at_least, check_between, check_finite
from coverset.envs.base import Environment
from coverset.evaluation.conventions import describe_conventions
from coverset.evaluation.cross_play import constraint_gaps, count_violations, off_diagonal_gaps
from coverset.policies.population import Population
from coverset.runs.storage import round_floats

FORMAT = "coverset certificate 1"


@dataclass(frozen=True)
class BestResponse:
    """The best returns of seat 0 with one teammate, and the return of the teammate's own best response."""

    own: float
    """Return of the pair (j, j)."""
    observed: float
    """The best value of a responder that sees the joint state, an upper bound for every policy."""
    blind: ValueInterval
    """The best value of a responder that sees its own observations and remembers them."""

    def to_json(self) -> dict[str, Any]:
        """Return values, and the regrets of the teammate's own best response."""
        lower, upper = self.blind.lower, self.blind.upper
        return {
            "own": self.own,
            "observed": self.observed,
            "blind": {"lower": lower, "upper": upper, "exact": self.blind.exact},
            "regret_observed": self.observed - self.own,
            "regret_blind": {"lower": max(0.0, lower - self.own), "upper": max(0.0, upper - self.own)},
        }


@dataclass(frozen=True)
class ReturnAnalysis:
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
    """Exact statements about a population."""

    states: int
    """Joint states of the game."""
    horizon: int
    margin: float
    discounted: ReturnAnalysis
    """The paper's returns, which decide the constraints."""
    undiscounted: ReturnAnalysis
    """Returns as cross-play measures them."""
    lengths: Float[np.ndarray, "K K"]
    """Expected steps of an episode."""
    coverage: dict[str, Any]
    """Conventions of each pair and members of the coverage set that it holds, by exact probabilities."""
    simulation: Simulation
    """Simulated returns, with which the exact returns agree."""

    @property
    def gaps(self) -> Float[np.ndarray, "2 K K"]:
        """Slack of both sets of constraints; see `constraint_gaps`."""
        return constraint_gaps(self.discounted.pair_returns, self.margin)

    @property
    def constraints_violated(self) -> int:
        return count_violations(self.gaps)

    def to_json(self) -> dict[str, Any]:
        """Return the content of `certificate.json`, except for the source of the population."""
        gaps = self.gaps
        between = off_diagonal_gaps(gaps)
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
    """Compute the certificate of a population; raises ValueError if it could not be trusted.

    Args:
      environment: defines `initial_states` and has few joint states.
      population: K best responses (seat 0) and K teammates (seat 1), memoryless.
      margin: tau of the constraints.
      discount: gamma of the returns that decide them.
      trials: most search trials for the blind best response, per teammate and discount.
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
        "returns": _gather_field(values, "returns"),
        "discounted_returns": _gather_field(values, "discounted_returns"),
        "length": _gather_field(values, "length"),
    }
    simulation = simulate(environment, population, discount=discount)
    check_agreement(game, simulation, exact, discount=discount)
    own = np.stack([values[member][member].conventions for member in range(len(values))])
    discounted = _analyse_returns(game, first, second, exact["discounted_returns"], discount, trials)
    undiscounted = _analyse_returns(game, first, second, exact["returns"], 1.0, trials) if discount < 1 else discounted
    return Certificate(
        states=game.num_states,
        horizon=game.horizon,
        margin=margin,
        discounted=discounted,
        undiscounted=undiscounted,
        lengths=exact["length"],
        coverage=describe_conventions(environment, own[:, 0], own[:, 1]),
        simulation=simulation,
    )


def _gather_field(values: list[list[Any]], name: str) -> Float[np.ndarray, "K K"]:
    return np.array([[getattr(value, name) for value in row] for row in values])


def _analyse_returns(
    game: FiniteGame,
    first: Float[np.ndarray, "K O A"],
    second: Float[np.ndarray, "K O B"],
    pair_returns: Float[np.ndarray, "K K"],
    discount: float,
    trials: int,
) -> ReturnAnalysis:
    best = []
    for own, teammate in zip(np.diagonal(pair_returns), second, strict=True):
        task = build_response(game, teammate)
        observed = float(game.initial @ task.solve_observed(discount)[0])
        best.append(BestResponse(float(own), observed, blind_value(task, first, discount=discount, trials=trials)))
    return ReturnAnalysis(discount, pair_returns, tuple(best))
