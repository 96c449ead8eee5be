"""L-BRDiv (Rahman, Cui and Stone 2024, Algorithm 1): pair weights from learned Lagrange multipliers.

The constrained problem asks for K pairs of maximal self-play return such that each best response is the best only for
its own teammate, by a margin tau. Its Lagrangian is

    L(R, a, b) = sum_i R_ii + sum_{i != j} a_ij (R_ii - tau - R_ji) + sum_{i != j} b_ij (R_ii - tau - R_ij)

which the policies maximise and the multipliers a, b >= 0 minimise.

Differs from the paper, as an option for three or more players (`envs_per_mixed_team`): a third set of constraints, on
mixed teams. Write R_i(s <- k) for the return of best response i with its own team when teammate k takes seat s of it.
Then R_ii >= R_i(s <- k) + tau for all seats s and all k != i, which adds to the Lagrangian

    sum_s sum_{i != k} c_sik (R_ii - tau - R_i(s <- k))        c >= 0

Whole teams that differ in one seat only can satisfy the paper's constraints; their other seats may be copies of each
other. With the third set any two teams differ in every seat, by as much as best responses lose tau from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from coverset.checks import check_at_least, check_finite
from coverset.teammates.method import Method, PairWeights, Seen, World, gaps, mixed_gaps
from coverset.types import PairMatrix, PRNGKey, Scalar

SMALLEST_VALUE = 1e-6
RESTART_MULTIPLIER = 0.5
"""Multipliers of a restarted pair, unless the upper bound is lower."""
RESTART_DECAY = 2.5
"""With `multiplier_growth_exponent`, they decay to exp(-2.5) of that, one in twelve, within `restart_patience`."""


class Multipliers(NamedTuple):
    """Non-negative dual variables of the paper's constraints; the diagonals stay zero."""

    other_best_response: PairMatrix
    """a_ij (the paper's alpha_1) guards R_ii >= R_ji + margin."""
    other_teammate: PairMatrix
    """b_ij (the paper's alpha_2) guards R_ii >= R_ij + margin."""


class TeamMultipliers(NamedTuple):
    """Dual variables of a run with mixed teams."""

    whole: Multipliers
    mixed: Float[Array, "S K K"]
    """c_sik guards R_ii >= R_i(s <- k) + margin."""


Duals = TypeVar("Duals", Multipliers, TeamMultipliers)


def lagrangian(pair_returns: PairMatrix, multipliers: Multipliers, margin: float) -> Scalar:
    """L(R, a, b), the expression under the min-max of the paper's Lagrange dual."""
    slack = gaps(pair_returns, margin)
    return jnp.trace(pair_returns) + sum(
        jnp.sum(multiplier * gap) for multiplier, gap in zip(multipliers, slack, strict=True)
    )


def lagrangian_pair_weights(multipliers: Multipliers) -> PairMatrix:
    """Weights w = dL/dR, for which sum_ij w_ij R_ij is the Lagrangian up to a constant in R.

        w_ii = 1 + sum_{j != i} (a_ij + b_ij)        w_ij = -(a_ji + b_ij)   for i != j

    Rahman et al. 2024, Algorithm 1, in our indices: rows best responses, columns teammates.
    """
    a, b = multipliers
    return jnp.eye(a.shape[0]) + jnp.diag(jnp.sum(a + b, axis=1)) - a.T - b


def team_lagrangian(
    pair_returns: PairMatrix, mixed_returns: Float[Array, "S K K"], multipliers: TeamMultipliers, margin: float
) -> Scalar:
    """L(R, a, b) and the terms of mixed teams."""
    slack = mixed_gaps(pair_returns, mixed_returns, margin)
    return lagrangian(pair_returns, multipliers.whole, margin) + jnp.sum(multipliers.mixed * slack)


def team_weights(multipliers: TeamMultipliers) -> PairWeights:
    """The gradient of the Lagrangian in the returns of pairs and of mixed teams.

    w_ii gains sum_s sum_{k != i} c_sik        w_sik = -c_sik   for i != k
    """
    pairs = lagrangian_pair_weights(multipliers.whole) + jnp.diag(jnp.sum(multipliers.mixed, axis=(0, 2)))
    return PairWeights(pairs, pairs, -multipliers.mixed)


@dataclass(frozen=True)
class LBRDiv(Method):
    """Projected gradient descent of the Lagrangian in its multipliers."""

    multiplier_learning_rate: float = 0.05
    """Step size of the Lagrange multipliers: lambda_alpha."""
    multiplier_interval: int = 1
    """Updates between two steps of the multipliers: T_lagrange."""
    max_multiplier: float = float("inf")
    """Upper bound of every multiplier; infinite in the paper."""
    multiplier_growth_exponent: float = 0.0
    """How much slower multipliers grow for a pair that earns less than the best pair: growth is scaled by the ratio of
    their self-play returns to this power. 0 in the paper."""
    initial_multiplier: float = 0.0
    """Value of every multiplier before training."""
    envs_per_mixed_team: int = 0
    """Environments in which each mixed team plays, for constraints on mixed teams in games of three or more players; 0,
    as in the paper, for whole teams alone."""

    def __post_init__(self) -> None:
        check_at_least("multiplier_interval", self.multiplier_interval, 1)
        check_at_least("envs_per_mixed_team", self.envs_per_mixed_team, 0)
        check_at_least("max_multiplier", self.max_multiplier, 0)
        for name in ("multiplier_learning_rate", "multiplier_growth_exponent", "initial_multiplier"):
            check_at_least(name, getattr(self, name), 0)
            check_finite(name, getattr(self, name))

    def mixed_team_envs(self) -> int:
        return self.envs_per_mixed_team

    def init(self, key: PRNGKey, world: World) -> Multipliers | TeamMultipliers:
        del key
        off_diagonal = self.initial_multiplier * (1.0 - jnp.eye(world.rows))
        whole = Multipliers(off_diagonal, off_diagonal)
        if not self.envs_per_mixed_team:
            return whole
        seats = world.environment.num_seats - 1
        return TeamMultipliers(whole, jnp.broadcast_to(off_diagonal, (seats, *off_diagonal.shape)))

    def weights(self, state: Multipliers | TeamMultipliers) -> PairMatrix | PairWeights:
        return lagrangian_pair_weights(state) if isinstance(state, Multipliers) else team_weights(state)

    def update(self, state: Duals, seen: Seen) -> Duals:
        due = (seen.update + 1) % self.multiplier_interval == 0
        settings = seen.world.settings
        decay = RESTART_DECAY / settings.restart_patience if settings.restart_patience else 0.0
        moved = self.descend(
            state, seen.pair_values, margin=settings.margin, decay=decay, mixed_values=seen.mixed_values
        )
        state = jax.tree.map(lambda new, old: jnp.where(due, new, old), moved, state)
        return self.restart(state, seen.restarted) if settings.restart_patience else state

    def descend(
        self,
        state: Duals,
        pair_values: PairMatrix,
        *,
        margin: float,
        decay: float = 0.0,
        mixed_values: Float[Array, "S K K"] | None = None,
    ) -> Duals:
        """alpha <- clip(alpha - rate dL/dalpha, 0, max); the gradient is the constraint's gap.

        Args:
          state: all multipliers.
          pair_values: estimated returns of all pairs.
          margin: tau.
          decay: the share of its multipliers that a pair loses before it earns anything, where growth is scaled.
          mixed_values: estimated returns of mixed teams, where they play.
        """
        slack = Multipliers(*gaps(pair_values, margin))
        if mixed_values is not None:
            slack = TeamMultipliers(slack, mixed_gaps(pair_values, mixed_values, margin))
        growth = self._growth(jnp.diagonal(pair_values), margin)[:, None]
        kept = 1.0 - decay * (1.0 - growth)

        def step(multiplier: PairMatrix, gap: PairMatrix) -> PairMatrix:
            moved = kept * multiplier - self.multiplier_learning_rate * jnp.where(gap < 0.0, growth, 1.0) * gap
            return jnp.clip(moved, 0.0, self.max_multiplier)

        return jax.tree.map(_over_seats(step), state, slack)

    def restart(self, state: Duals, restarted: Bool[Array, "K"]) -> Duals:
        """A restarted pair begins with full multipliers; other pairs' multipliers against it are reset to zero.

        As its multipliers decay, the convention that the fewest other pairs follow is the first that pays.
        """
        full = min(RESTART_MULTIPLIER, self.max_multiplier) * (1.0 - jnp.eye(restarted.shape[0]))
        begun = jnp.where(restarted[:, None], full, 0.0)

        def reset(multiplier: PairMatrix) -> PairMatrix:
            return jnp.where(restarted[:, None] | restarted[None, :], begun, multiplier)

        return jax.tree.map(_over_seats(reset), state)

    def report(self, state: Multipliers | TeamMultipliers) -> dict[str, Any]:
        if isinstance(state, Multipliers):
            return {"multipliers": state._asdict()}
        return {"multipliers": state.whole._asdict(), "mixed_team_multipliers": state.mixed}

    def summarise(self, state: Multipliers | TeamMultipliers) -> dict[str, Any]:
        if isinstance(state, Multipliers):
            return {}
        return {"mixed_team_multipliers": np.round(np.asarray(state.mixed, float), 6).tolist()}

    def _growth(self, own: Float[Array, "K"], margin: float) -> Float[Array, "K"]:
        """Speed at which multipliers of each pair's constraints grow, 1 for the best pair once it earns the margin.

        Before a pair has learned to earn anything, its constraints cannot hold, and multipliers that grow regardless
        teach it to avoid everybody's rewards, its own included.
        """
        if self.multiplier_growth_exponent == 0.0:
            return jnp.ones_like(own)
        earned = jnp.maximum(own, 0.0)
        best = jnp.maximum(jnp.max(earned), margin + SMALLEST_VALUE)
        return (earned / best) ** self.multiplier_growth_exponent


def _over_seats(function: Callable[..., PairMatrix]) -> Callable[..., Array]:
    """A function of K x K matrices, for arrays that hold one for each seat too."""
    return lambda first, *others: (function if first.ndim == 2 else jax.vmap(function))(first, *others)
