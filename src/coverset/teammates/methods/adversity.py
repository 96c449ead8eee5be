"""ADVERSITY's idea (Cui et al. 2023) on the pair grid: cross-play that nobody can see coming is what is minimised.

    sum_i R_ii - alpha sum_{i != j} X_ij

X_ij is the return of best response i with teammate j from a state that self-play has led to. A policy that recognises
strangers by how they play, and then gives up, gains nothing here: up to the switch its partner was its own.

Best response i is deceived by a prefix of pair i, teammate j by one of pair j. So there are turns: in a turn of the
best responses, cell (i, j) begins with pair (i, i) and cross-play counts for best responses alone; in a turn of the
teammates it begins with (j, j) and counts for them. Weights of cross-play are twice as large in turn.

The switch is drawn uniformly up to `longest_prefix` of the horizon. Environments are pure functions, so that a
fictitious transition is an exact one: play goes on from the very state.

Differs from the source: the paper is about turn-based games with public actions, draws fictitious transitions from a
learned belief, each for one step with a bootstrapped value, and grounds policies by off-belief learning. Here the
partner changes for the rest of the episode, in the actual state, and nothing is grounded. In a game of one step, or
where nothing is seen of the partner, there is nothing to recognise, and this is cross-play minimisation, `lipo`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from coverset.checks import check_at_least, check_between, check_finite
from coverset.teammates.method import Method, PairWeights, Prefix, Seen, World
from coverset.types import PairMatrix, PRNGKey

TURN = 8
"""Updates for which one side's prefixes are played. An episode that lasts into the other turn has a prefix of both."""


class Turns(NamedTuple):
    """What the method remembers."""

    pair_weights: PairMatrix
    updates: Int[Array, ""]


def is_best_responses_turn(updates: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether best responses are deceived now; else teammates are."""
    return (updates // TURN) % 2 == 0


def self_play_prefix(size: int, of_best_responses: Bool[Array, ""], longest_share: float) -> Prefix:
    """Cell (i, j) begins with pair i in a turn of the best responses, else with pair j."""
    rows, columns = jnp.meshgrid(jnp.arange(size), jnp.arange(size), indexing="ij")
    pair = jnp.where(of_best_responses, rows, columns)
    return Prefix(pair, pair, longest_share=longest_share)


def weights_in_turn(weights: PairMatrix, of_best_responses: Bool[Array, ""]) -> PairWeights:
    """Cross-play counts twice for the side whose turn it is, and not at all for the other."""
    own = jnp.diag(jnp.diagonal(weights))
    cross = 2.0 * (weights - own)
    mine = of_best_responses.astype(jnp.float32)
    return PairWeights(own + mine * cross, own + (1.0 - mine) * cross)


@dataclass(frozen=True)
class Adversity(Method):
    """w_ii = 1, w_ij = -alpha, with cross-play after a prefix of self-play."""

    alpha: float = 0.5
    """Weight of cross-play."""
    longest_prefix: float = 0.1
    """Share of the horizon up to which the start of cross-play is drawn."""

    def __post_init__(self) -> None:
        check_at_least("alpha", self.alpha, 0)
        check_finite("alpha", self.alpha)
        check_between("longest_prefix", self.longest_prefix, 0, 1)

    def init(self, key: PRNGKey, world: World) -> Turns:
        del key
        own = jnp.eye(world.rows)
        return Turns(own - self.alpha * (1.0 - own), jnp.int32(0))

    def weights(self, state: Turns) -> PairWeights:
        return weights_in_turn(state.pair_weights, is_best_responses_turn(state.updates))

    def prefix(self, state: Turns) -> Prefix:
        size = state.pair_weights.shape[0]
        return self_play_prefix(size, is_best_responses_turn(state.updates), self.longest_prefix)

    def update(self, state: Turns, seen: Seen) -> Turns:
        del seen
        return state._replace(updates=state.updates + 1)

    def report(self, state: Turns) -> dict[str, Array]:
        return {"best_responses_turn": is_best_responses_turn(state.updates).astype(jnp.int32)}
