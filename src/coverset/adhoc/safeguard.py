"""A bandit's guarantee for an agent that is otherwise free to choose: a budget of regret beyond which UCB plays.

Arms are best responses, played for a whole episode with one fixed partner; rewards of an arm are its returns, which lie
in [low, high] and are independent between episodes for a partner that forgets between them. Confidence intervals are
Hoeffding's, at level d over all arms and all numbers n of plays (Auer et al. 2002; the union over n is the usual one):

    c(n) = (high - low) sqrt(log(pi^2 K n^2 / (3 d)) / (2 n)),        U_i = min(high, mean_i + c(n_i)),  high if n_i = 0

A *suggestion* may be anything: an arm, or several within one episode. It is charged U - r, the largest U_i minus the
return that it earned, and is followed only while charges keep to the budget, whatever this episode brings:

    charged + (high - low) <= B(t) = (high - low) min{t, K + 2 sqrt(2 K t log(pi^2 K t^2 / (3 d)))}

Otherwise the arm of the largest U_i is played. The intervals use these episodes alone: those of suggestions may have
ended early or late because of what was seen in them, which would bias the means.

**Guarantee.** With probability at least 1 - 2 d, for every fixed partner and all T,

    sum_t (mu* - r_t) <= 2 B(T) + (high - low) sqrt(T log(1 / d) / 2),        mu* the mean return of the best arm

Proof. Where all intervals hold, mu* <= U. Suggestions: their sum of mu* - r is at most what was charged, at most B(T).
UCB: an arm played for the n-th time loses at most min(high - low, 2 c(n - 1)) on average, and sums of these over K arms
and T plays are at most B(T), by sum_n 1 / sqrt(n) <= 2 sqrt(N) and Cauchy and Schwarz. Returns of UCB's episodes stray
from their means by at most the last term, with probability 1 - d (Azuma and Hoeffding). This is O(sqrt(K T log T)). If
the arms are a coverage set with coverage regret e, mu* is at most e below the best response to the partner.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.types import Scalar


class ArmRecord(NamedTuple):
    """What the safeguard remembers of a trial."""

    counts: Float[Array, "K"]
    """Episodes in which UCB played an arm."""
    sums: Float[Array, "K"]
    """Their returns, minus `low`."""
    charged: Scalar
    episodes: Scalar


class Limits(NamedTuple):
    """What the guarantee is about."""

    low: Scalar | float
    high: Scalar | float
    confidence: float
    """d, the probability with which intervals may fail."""


def start_record(arms: int) -> ArmRecord:
    """The record before the first episode."""
    return ArmRecord(jnp.zeros(arms), jnp.zeros(arms), jnp.float32(0.0), jnp.float32(0.0))


def upper_bounds(record: ArmRecord, limits: Limits) -> Float[Array, "K"]:
    """U_i."""
    plays = jnp.maximum(record.counts, 1.0)
    logarithm = jnp.log(jnp.pi**2 * len(plays) * plays**2 / (3.0 * limits.confidence))
    reach = (limits.high - limits.low) * jnp.sqrt(logarithm / (2.0 * plays))
    upper = jnp.minimum(limits.high, limits.low + record.sums / plays + reach)
    return jnp.where(record.counts > 0.0, upper, limits.high)


def budget(episodes: Scalar | float, arms: int, limits: Limits) -> Scalar:
    """B(t)."""
    logarithm = jnp.log(jnp.pi**2 * arms * jnp.maximum(episodes, 1.0) ** 2 / (3.0 * limits.confidence))
    bandit = arms + 2.0 * jnp.sqrt(2.0 * arms * episodes * logarithm)
    return (limits.high - limits.low) * jnp.minimum(episodes, bandit)


def regret_bound(episodes: float, arms: int, limits: Limits) -> Scalar:
    """The guarantee's right-hand side."""
    noise = jnp.sqrt(episodes * jnp.log(1.0 / limits.confidence) / 2.0)
    return 2.0 * budget(episodes, arms, limits) + (limits.high - limits.low) * noise


def may_follow(record: ArmRecord, limits: Limits) -> Bool[Array, ""]:
    """Whether the next episode may be played by the suggestion."""
    allowed = budget(record.episodes + 1.0, len(record.counts), limits)
    return record.charged + (limits.high - limits.low) <= allowed * (1.0 + 1e-5)


def note_episode(
    record: ArmRecord, limits: Limits, arm: Int[Array, ""], returns: Scalar, suggested: Bool[Array, ""]
) -> ArmRecord:
    """The record after an episode, which a suggestion or UCB's `arm` has played."""
    played = jnp.where(suggested, 0.0, (jnp.arange(len(record.counts)) == arm).astype(jnp.float32))
    charge = jnp.where(suggested, jnp.max(upper_bounds(record, limits)) - returns, 0.0)
    return ArmRecord(
        counts=record.counts + played,
        sums=record.sums + played * (returns - limits.low),
        charged=record.charged + charge,
        episodes=record.episodes + 1.0,
    )
