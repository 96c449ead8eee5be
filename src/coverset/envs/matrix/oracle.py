"""Oracles of the repeated matrix game.

A heuristic draws each round independently and observes nothing, so earlier rounds carry no information, and one action
is best in every round.
"""

import jax.numpy as jnp
import numpy as np

from coverset.envs.matrix.dynamics import MatrixGame
from coverset.envs.matrix.heuristics import MixedAction
from coverset.envs.oracle import Oracle, to_double_precision


def solve(environment: MatrixGame, partner: MixedAction, seat: int) -> Oracle:
    """Compute the best response to a mixture p of the other seat's actions over the rounds of an episode.

        value = rounds max_a sum_c p(c) payoff[a, c]        full information = rounds sum_c p(c) max_a payoff[a, c]

    Args:
      seat: seat of the agent; for seat 1 the table is transposed.
    """
    table = np.asarray(environment.payoffs)
    payoffs = table if seat == 0 else table.T
    mix = to_double_precision(partner.probabilities)
    if len(mix) != payoffs.shape[1]:
        raise ValueError(
            f"seat must be 0 in a game where the heuristics' seat has {len(mix)} actions and the other "
            f"{payoffs.shape[1]}, got {seat}."
        )
    values = environment.horizon * (payoffs @ mix)
    best = int(np.argmax(values))
    return Oracle(
        value=float(values[best]),
        exact=True,
        full_information=float(environment.horizon * (payoffs.max(axis=0) @ mix)),
        policy=MixedAction(jnp.eye(len(payoffs), dtype=jnp.float32)[best]),
    )
