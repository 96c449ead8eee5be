"""Trajectory diversity (Lupu et al. 2021): self-play plus a Jensen-Shannon divergence between the pairs' trajectories.

    J = sum_i R_ii + lambda T JSD_gamma

    JSD_gamma = (1/K) sum_i E_{tau ~ pi_i} (1/T) sum_t log(delta_it(tau) / deltahat_t(tau))
    delta_it(tau) = prod_s pi_i(a_s | o_s)^(gamma^|t - s|)        deltahat_t = (1/K) sum_k delta_kt

With gamma = 0 it compares policies action by action, with gamma = 1 the probabilities of whole trajectories. pi_i is
the joint policy of pair i: its probability is the product over all seats. Everything is computed in logarithms.

The divergence enters as a reward. Write D_t for the sum over s <= t of log(delta_is / deltahat_s), with the actions up
to t alone. Step t earns lambda (D_t - D_{t-1}): these rewards add up to the divergence of the trajectory, and none of
them depends on later actions, so that their policy gradient is the score-function gradient of the divergence for
every gamma. For gamma = 0 a step earns log pi_i(a_t | o_t) - log pibar(a_t | o_t).

The other part of the gradient, that of deltahat at fixed trajectories, is left out. Its expectation is zero for
gamma = 1, and for every gamma in games of one step: the mean over all members of their trajectories' distributions is
that of deltahat, and the expected score of a distribution is zero.

Differs from the source: the gradient above; divergences are summed over steps instead of averaged, so that lambda is in
units of reward; trajectories are cut where rollouts end (`rollout_length`). There is no common best response: agents
are trained afterwards, with `coverset train`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.checks import check_at_least, check_between, check_finite
from coverset.teammates.method import Rollout, World
from coverset.teammates.self_play import SelfPlay, check_memoryless, self_play_likelihoods
from coverset.types import PairMatrix, PyTree


def divergence_rewards(
    log_p: Float[Array, "K T R B"], fresh: Bool[Array, "T R B"], gamma: float
) -> Float[Array, "T R B"]:
    """D_t - D_{t-1} of every row i under policy i, where `fresh` steps start new trajectories.

    `log_p[k]` holds log pi_k(a_t | o_t) of what row i did. The scan carries log delta_ks of all s with the actions so
    far: O(T^2) in the length of the rollout, O(T) in memory.
    """
    length = log_p.shape[1]
    episode = jnp.cumsum(fresh, axis=0)
    times = jnp.arange(length)

    def advance(log_delta: Float[Array, "K T R B"], t: Int[Array, ""]):
        kernel = jnp.where(times == t, 1.0, gamma ** jnp.abs(times - t).astype(jnp.float32))
        same = (episode == episode[t][None]) & (times <= t)[:, None, None]
        reach = jnp.where(episode == episode[t][None], kernel[:, None, None], 0.0)
        log_delta = log_delta + reach[None] * log_p[:, t][:, None]
        total = jnp.sum(jnp.where(same, own_log_ratio(log_delta), 0.0), axis=0)
        return log_delta, total

    _, totals = jax.lax.scan(advance, jnp.zeros_like(log_p), times)
    before = jnp.concatenate([jnp.zeros_like(totals[:1]), totals[:-1]])
    return totals - jnp.where(fresh, 0.0, before)


def own_log_ratio(log_delta: Float[Array, "K T R B"]) -> Float[Array, "T R B"]:
    """log(delta_i / deltahat) of every row i."""
    own = jnp.einsum("ktkb->tkb", log_delta)
    mean = jax.scipy.special.logsumexp(log_delta, axis=0) - jnp.log(jnp.float32(log_delta.shape[0]))
    return own - mean


@dataclass(frozen=True)
class TrajeDi(SelfPlay):
    """Self-play with the divergence of the pairs' trajectories as a bonus."""

    diversity_weight: float = 0.1
    """Weight of the divergence, in units of reward for each nat and step: lambda."""
    kernel_discount: float = 0.5
    """How far actions reach into the divergence of other steps: gamma, 0 for single actions, 1 for trajectories."""

    def __post_init__(self) -> None:
        check_at_least("diversity_weight", self.diversity_weight, 0)
        check_finite("diversity_weight", self.diversity_weight)
        check_between("kernel_discount", self.kernel_discount, 0, 1)

    def check(self, world: World) -> None:
        super().check(world)
        check_memoryless(world, "trajedi")

    def bonus(self, parameters: PyTree, state: PairMatrix, rollout: Rollout) -> Float[Array, "T R B"]:
        del parameters, state
        ego, team = self_play_likelihoods(rollout)
        rewards = divergence_rewards(ego + team, rollout.steps.fresh, self.kernel_discount)
        return self.diversity_weight * rewards
