"""Maximum entropy population-based training (Zhao et al. 2023): self-play with a bonus for what the others do not do.

    r'_t = r_t - alpha log pibar(a_t | o_t)        pibar = (1/K) sum_k pi_k

In expectation over a member drawn at random, the bonus is the entropy of the population's mean policy. An action that
few members take earns more, whoever takes it. Reported returns leave the bonus out.

Differs from the source: the bonus of a step is the mean over all seats, with the mean policy of the best responses in
the ego's seat and that of the teammates, for their joint action, in all others; both policies of a pair earn it. This
is the paper's first stage. Its second draws partners of the ad hoc agent by the rank of their returns;
`coverset train` draws them uniformly.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.checks import check_at_least, check_finite
from coverset.teammates.method import Rollout, World
from coverset.teammates.self_play import SelfPlay, check_memoryless, self_play_likelihoods
from coverset.types import PairMatrix, PyTree

LEAST_PROBABILITY = 1e-5
"""Below which probabilities are counted as this, as in the public implementation."""


def population_surprise(log_p: Float[Array, "K *b"]) -> Float[Array, "*b"]:
    """-log of the mean over members of exp(log_p)."""
    least = jnp.log(jnp.float32(LEAST_PROBABILITY))
    mean = jax.scipy.special.logsumexp(log_p, axis=0) - jnp.log(jnp.float32(log_p.shape[0]))
    return -jnp.maximum(mean, least)


@dataclass(frozen=True)
class MEP(SelfPlay):
    """Self-play with the entropy of the population's mean policy as a bonus."""

    alpha: float = 0.01
    """Weight of the bonus, in units of reward for each nat."""

    def __post_init__(self) -> None:
        check_at_least("alpha", self.alpha, 0)
        check_finite("alpha", self.alpha)

    def check(self, world: World) -> None:
        super().check(world)
        check_memoryless(world, "mep")

    def bonus(self, parameters: PyTree, state: PairMatrix, rollout: Rollout) -> Float[Array, "T R B"]:
        del parameters, state
        ego, team = map(population_surprise, self_play_likelihoods(rollout))
        return self.alpha / rollout.world.environment.num_seats * (ego + team)
