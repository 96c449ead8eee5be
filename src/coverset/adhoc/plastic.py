"""PLASTIC-Policy (Barrett et al. 2016): a library of best responses, and a belief about which teammate this one is.

The generated best responses are the library. After every episode the belief is updated by how likely the observed
return was under each type, given the best response in use (Bayes' rule on histograms of simulated returns); the next
episode is played with the best response to the most likely type.

Differs from Barrett et al.: likelihoods come from returns, which is all that our agents see of a teammate, and they are
simulated rather than learned from logged play.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.envs.base import Environment
from coverset.evaluation.cross_play import cross_play, limit_trials, member_count
from coverset.policies.networks import NetworkPolicy
from coverset.policies.population import Population
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, Scalar

BINS = 40
SIMULATED_EPISODES = 1024
PSEUDO_COUNT = 1.0
"""Added to every bin: no type is ever ruled out by one surprising episode."""
TIE_NOISE = 1e-3


class Belief(NamedTuple):
    """What is remembered through a trial."""

    log_belief: Float[Array, "K"]
    using: Int[Array, ""]
    """The best response in use."""
    returns: Scalar
    """Return of the episode so far, without the reward that the next percept brings."""
    started: Bool[Array, ""]


class PlasticPolicy(Policy):
    """Plays the best response to the teammate that it believes it has."""

    library: NetworkPolicy
    """K best responses, stacked."""
    edges: Float[Array, "b"]
    """Inner edges of the return bins."""
    log_likelihood: Float[Array, "K K bins"]
    """log P(bin of the episode's return | best response in use, type of the teammate)."""

    def initial_memory(self) -> Belief:
        size = self.log_likelihood.shape[0]
        return Belief(jnp.zeros(size), jnp.int32(0), jnp.float32(0.0), jnp.bool_(False))

    def act(self, key: PRNGKey, percept: Percept, memory: Belief) -> tuple[Int[Array, ""], Belief]:
        choose_key, act_key = jax.random.split(key)
        returns = memory.returns + percept.reward
        bin_index = jnp.searchsorted(self.edges, returns)
        evidence = jnp.where(memory.started & percept.first, self.log_likelihood[memory.using, :, bin_index], 0.0)
        log_belief = jax.nn.log_softmax(memory.log_belief + evidence)
        tie_break = TIE_NOISE * jax.random.uniform(choose_key, log_belief.shape)
        using = jnp.where(percept.first, jnp.argmax(log_belief + tie_break), memory.using).astype(jnp.int32)
        chosen = jax.tree.map(lambda x: x[using], self.library)
        action, _ = chosen.act(act_key, percept, ())
        return action, Belief(log_belief, using, jnp.where(percept.first, 0.0, returns), jnp.bool_(True))


def make_plastic(key: PRNGKey, environment: Environment, population: Population) -> PlasticPolicy:
    """Simulate every best response with every teammate and count the returns."""
    pairs = member_count(population.teammates) ** 2
    trials = limit_trials(SIMULATED_EPISODES, environment.horizon, pairs=pairs)
    played = cross_play(key, environment, *population, trials=trials)
    returns = np.asarray(played.returns)[..., 0]
    edges = np.linspace(returns.min() - 1e-3, returns.max() + 1e-3, BINS + 1)[1:-1]
    bins = np.searchsorted(edges, returns)
    counts = np.stack([[np.bincount(cell, minlength=BINS) for cell in row] for row in bins]) + PSEUDO_COUNT
    log_likelihood = np.log(counts / counts.sum(axis=-1, keepdims=True))
    return PlasticPolicy(
        population.best_responses, jnp.asarray(edges, jnp.float32), jnp.asarray(log_likelihood, jnp.float32)
    )
