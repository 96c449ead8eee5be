"""Exact returns of episodes that one pair begins and another goes on with, in a finite game.

After t steps of the first pair there is a distribution of joint states in which play continues. With values V of the
second pair, it earns sum_s P(s_t = s, play continues) V(s) from there.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from coverset.certificates.finite import FiniteGame, build_flow_matrix


class Progress(NamedTuple):
    """Where the episodes of a pair stand after t = 0, 1, ... steps."""

    alive: Float[np.ndarray, "T S"]
    """Probability of each state in which play continues."""
    earned: Float[np.ndarray, "T S"]
    """Rewards so far, weighted with these probabilities."""


def follow_pair(
    game: FiniteGame, first: Float[np.ndarray, "O A"], second: Float[np.ndarray, "O B"], *, steps: int
) -> Progress:
    """Follow the first steps of two memoryless policies."""
    joint = first[game.observed[:, 0]][:, :, None] * second[game.observed[:, 1]][:, None, :]
    going = build_flow_matrix(game, np.where(game.ended, 0.0, joint))
    paid = build_flow_matrix(game, np.where(game.ended, 0.0, joint * game.reward))
    alive: list[Any] = [game.initial]
    earned: list[Any] = [np.zeros(game.num_states)]
    for _ in range(steps):
        earned.append(going @ earned[-1] + paid @ alive[-1])
        alive.append(going @ alive[-1])
    return Progress(np.stack(alive), np.stack(earned))


def swap_seats(game: FiniteGame) -> FiniteGame:
    """The same game with the players' seats exchanged; its rewards are still those of the ego."""
    return replace(
        game,
        next_state=game.next_state.swapaxes(1, 2),
        reward=game.reward.swapaxes(1, 2),
        ended=game.ended.swapaxes(1, 2),
        observed=game.observed[:, ::-1],
        conventions=game.conventions[:, ::-1],
    )
