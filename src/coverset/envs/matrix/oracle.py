"""Oracles of the repeated matrix game.

A heuristic draws each round independently and observes nothing, so earlier rounds carry no information, and one action
is best in every round.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from coverset.envs.matrix.dynamics import MatrixGame
from coverset.envs.matrix.heuristics import MixedAction
from coverset.envs.oracle import Oracle, PartnerDraws, to_double_precision


def solve(environment: MatrixGame, partner: MixedAction, seat: int) -> Oracle:
    """Compute the best response to a mixture p of the other seats' actions over the rounds of an episode.

        value = rounds max_a sum_c p(c) payoff[a, c]        full information = rounds sum_c p(c) max_a payoff[a, c]

    With several teammates, c is their joint action and p(c) the product of their probabilities.

    Args:
      seat: seat of the agent, whose own table counts and whose actions are its first axis.
    """
    payoffs, mix = _payoffs_of(environment, seat), to_double_precision(partner.probabilities)
    fewest = min(payoffs.shape[1:])
    if len(mix) != fewest:
        raise ValueError(
            f"seat must be 0 in a game where the heuristics' seat has {len(mix)} actions and the other {fewest}, "
            f"got {seat}."
        )
    payoffs = payoffs[(slice(None), *[slice(fewest)] * (payoffs.ndim - 1))]
    values, informed = payoffs, payoffs.max(axis=0)
    for _ in range(payoffs.ndim - 1):  # over the teammates, the last first
        values, informed = values @ mix, informed @ mix
    values = environment.horizon * values
    best = int(np.argmax(values))
    return Oracle(
        value=float(values[best]),
        exact=True,
        full_information=float(environment.horizon * informed),
        policy=MixedAction(jnp.eye(len(payoffs), dtype=jnp.float32)[best]),
    )


def list_draws(environment: MatrixGame, partners: Sequence[MixedAction], seat: int) -> PartnerDraws | None:
    """The partners' actions in a game of two players and one round; None in others."""
    payoffs = _payoffs_of(environment, seat)
    if environment.horizon > 1 or payoffs.ndim > 2:
        return None
    mixes = np.stack([to_double_precision(partner.probabilities) for partner in partners])
    payoffs = payoffs[:, : mixes.shape[1]]
    return PartnerDraws(mixes, lambda mix: float((payoffs @ mix).max()), payoffs)


def _payoffs_of(environment: MatrixGame, seat: int) -> Float[np.ndarray, "..."]:
    """The payoffs of a seat with its own actions on the first axis."""
    return np.moveaxis(np.asarray(environment.tables[seat]), seat, 0)
