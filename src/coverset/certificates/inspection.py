"""The measures of `evaluation.inspection` without sampling error, for finite games and policies without memory.

Best responses that know the states to which strangers led see the joint state; the one that counts for competence sees
what its seat observes, and its value may be known as an interval only.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from coverset.certificates.blind import blind_value
from coverset.certificates.finite import FiniteGame, Response, action_probabilities, build_response, enumerate_game
from coverset.certificates.simulation import return_limits
from coverset.certificates.switching import Progress, follow_pair, swap_seats
from coverset.envs.base import Environment
from coverset.envs.seats import has_common_reward
from coverset.evaluation.inspection import (
    MeasuredValue,
    Measurements,
    TakenOver,
    choose_prefix_steps,
    exact,
    own_best_responses,
)
from coverset.policies.population import Population

LEAST_WEIGHT = 1e-9
"""Expected steps of play below which strangers lead nowhere."""


class _Tables(NamedTuple):
    """The game with the policies of a population in it."""

    game: FiniteGame
    first: Float[np.ndarray, "R O A"]
    second: Float[np.ndarray, "C O B"]
    responses: list[Response]
    """What every teammate leaves to seat 0."""
    values: list[list[Float[np.ndarray, "T S"]]]
    """Of best response i with teammate j: `values[i][j]`."""

    @property
    def pair_returns(self) -> Float[np.ndarray, "R C"]:
        return np.array([[float(self.game.initial @ values[0]) for values in row] for row in self.values])


def measure_exactly(environment: Environment, population: Population, *, trials: int) -> Measurements:
    """Measure a population; raises ValueError if the game or the policies have no exact solution.

    Args:
      environment: a game of two players with known `initial_states` and few joint states.
      population: policies without memory.
      trials: effort to close the bounds of best responses that see their own observations only.
    """
    tables = _build_tables(environment, population)
    game, pair_returns = tables.game, tables.pair_returns
    own, steps = own_best_responses(pair_returns), choose_prefix_steps(game.horizon)
    self_play = [
        follow_pair(game, tables.first[i], second, steps=game.horizon)
        for i, second in zip(own, tables.second, strict=True)
    ]
    best = [blind_value(response, tables.first, discount=1.0, trials=trials) for response in tables.responses]
    own_response, best_response = _measure_sabotage(tables, own)
    lowest, highest = return_limits(game, 1.0)
    return Measurements(
        own=own,
        pair_returns=exact(pair_returns),
        lengths=np.array([progress.alive[:-1].sum() for progress in self_play]),
        best_responses=exact([interval.lower for interval in best]),
        best_responses_upper=np.array([interval.upper for interval in best]),
        best_partners=_measure_partners(tables, trials) if has_common_reward(environment) else None,
        prefix_steps=steps,
        after_prefix=exact(_measure_after_prefix(tables, self_play, steps)),
        own_response=own_response,
        best_response=best_response,
        lowest=lowest,
        highest=highest,
    )


def _build_tables(environment: Environment, population: Population) -> _Tables:
    game = enumerate_game(environment)
    first = action_probabilities(population.best_responses, game, seat=0)
    second = action_probabilities(population.teammates, game, seat=1)
    responses = [build_response(game, teammate) for teammate in second]
    values = [[response.evaluate_policy(policy, 1.0) for response in responses] for policy in first]
    return _Tables(game, first, second, responses, values)


def _measure_partners(tables: _Tables, trials: int) -> MeasuredValue:
    """What the best partner of every best response earns, at least."""
    swapped = swap_seats(tables.game)
    tasks = [build_response(swapped, policy) for policy in tables.first]
    return exact([blind_value(task, tables.second, discount=1.0, trials=trials).lower for task in tasks])


def _measure_after_prefix(
    tables: _Tables, self_play: list[Progress], steps: Int[np.ndarray, "k"]
) -> Float[np.ndarray, "k R C"]:
    """What all pairs earn after prefixes of their teammates' self-play."""
    rows, columns = tables.pair_returns.shape
    found = np.zeros((len(steps), rows, columns))
    for place, time in enumerate(steps):
        for i, j in np.ndindex(rows, columns):
            found[place, i, j] = self_play[j].alive[time] @ tables.values[i][j][time]
    return found


def _measure_sabotage(tables: _Tables, own: Int[np.ndarray, "C"]) -> tuple[TakenOver, TakenOver]:
    """What the own best response to every teammate earns, and the best one, from the start and after strangers."""
    best = [response.solve_observed(1.0) for response in tables.responses]
    by_own, by_best = [], []
    for j, row in enumerate(own):
        strangers = [
            follow_pair(tables.game, first, tables.second[j], steps=tables.game.horizon // 2)
            for i, first in enumerate(tables.first)
            if i != row
        ]
        by_own.append(_take_over(tables.game, strangers, tables.values[row][j]))
        by_best.append(_take_over(tables.game, strangers, best[j]))
    return _join(by_own), _join(by_best)


def _take_over(game: FiniteGame, strangers: list[Progress], values: Float[np.ndarray, "T S"]) -> tuple[float, float]:
    """Mean returns from the start and from strangers' states after 1 to H / 2 steps, as often as play continues there.

    As many steps are left as at the start, unless states tell the time: then both have those that are left.
    """
    weight = from_start = from_cross_play = 0.0
    for progress in strangers:
        for time in range(1, len(progress.alive)):
            left, mass = values[time if game.knows_time else 0], progress.alive[time].sum()
            weight += mass
            from_start += mass * float(game.initial @ left)
            from_cross_play += float(progress.earned[time].sum() + progress.alive[time] @ left)
    if weight < LEAST_WEIGHT:
        return float(game.initial @ values[0]), float("nan")
    return from_start / weight, from_cross_play / weight


def _join(found: list[tuple[float, float]]) -> TakenOver:
    from_start, from_cross_play = zip(*found, strict=True)
    return TakenOver(exact(from_start), exact(from_cross_play))
