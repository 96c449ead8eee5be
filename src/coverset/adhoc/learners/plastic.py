"""PLASTIC-Policy (Barrett et al. 2016): a library of best responses, and a belief about which teammate this one is.

The generated best responses are the library. After every episode the belief is updated by how likely the observed
return was under each type of teammate, given the best response in use (Bayes' rule on histograms of simulated returns):

    log b(j) <- log b(j) + log P(bin of the return | best response in use, teammate j)

The next episode is played with the best response to the most likely type.

Differs from Barrett et al.: likelihoods come from returns, which is all that our agents see of a teammate, and they are
simulated rather than learned from logged play.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.learner import AgentSpec, AgentWorld, FittedLearner
from coverset.checks import check_at_least, check_positive
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.policies.actor import ActorPolicy
from coverset.policies.stacked import count_members, take_member
from coverset.policies.team import build_networks
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree, Scalar

TIE_NOISE = 1e-3
EDGE_SLACK = 1e-3
"""By how much the outermost bins reach beyond the returns that were simulated."""


class Belief(NamedTuple):
    """What is remembered through a trial."""

    log_belief: Float[Array, "K"]
    using: Int[Array, ""]
    """The best response in use."""
    returns: Scalar
    """Return of the episode so far, without the reward that the next percept brings."""
    started: Bool[Array, ""]
    library: PyTree
    """Memory of the best response in use, which clears it at the start of every episode."""


class PlasticPolicy(Policy):
    """Plays the best response to the teammate that it believes it has."""

    library: ActorPolicy
    """K best responses, stacked."""
    edges: Float[Array, "*s b"]
    """Inner edges of the return bins."""
    log_likelihood: Float[Array, "*s K K bins"]
    """log P(bin of the episode's return | best response in use, type of the teammate)."""

    @property
    def observation_size(self) -> int:
        """How many numbers the policy reads."""
        return self.library.observation_size

    @property
    def num_actions(self) -> int:
        """Among how many actions it chooses."""
        return self.library.num_actions

    def initial_memory(self) -> Belief:
        size = self.log_likelihood.shape[0]
        remembered = take_member(self.library, 0).initial_memory()
        return Belief(jnp.zeros(size), jnp.int32(0), jnp.float32(0.0), jnp.bool_(False), remembered)

    def act(self, key: PRNGKey, percept: Percept, memory: Belief) -> tuple[Int[Array, ""], Belief]:
        choose_key, act_key = jax.random.split(key)
        returns = memory.returns + percept.reward
        bin_index = jnp.searchsorted(self.edges, returns)
        evidence = jnp.where(memory.started & percept.first, self.log_likelihood[memory.using, :, bin_index], 0.0)
        log_belief = jax.nn.log_softmax(memory.log_belief + evidence)
        tie_break = TIE_NOISE * jax.random.uniform(choose_key, log_belief.shape)
        using = jnp.where(percept.first, jnp.argmax(log_belief + tie_break), memory.using).astype(jnp.int32)
        chosen = jax.tree.map(lambda x: x[using], self.library)
        action, library = chosen.act(act_key, percept, memory.library)
        returns = jnp.where(percept.first, 0.0, returns)
        return action, Belief(log_belief, using, returns, jnp.bool_(True), library)

    def belief(self, memory: Belief) -> Float[Array, "K"]:
        """The belief with which the best response of the present episode was chosen."""
        return jax.nn.softmax(memory.log_belief)


@dataclass(frozen=True)
class Plastic(FittedLearner):
    """Simulates every best response with every teammate, and counts the returns."""

    needs_population: ClassVar[bool] = True

    bins: int = 40
    """Bins of the histograms of returns."""
    simulated_episodes: int = 1024
    """Episodes of each pair from which a histogram is made; fewer where episodes are very long."""
    pseudo_count: float = 1.0
    """Added to every bin, so that no type is ever ruled out by one surprising episode."""

    def __post_init__(self) -> None:
        check_at_least("bins", self.bins, 2)
        check_at_least("simulated_episodes", self.simulated_episodes, 1)
        check_positive("pseudo_count", self.pseudo_count)

    def build_policy(self, key: PRNGKey, spec: AgentSpec) -> PlasticPolicy:
        half = spec.best_responses
        assert half is not None, "plastic needs_population, so that its specification has the best responses"
        networks = build_networks(half.kind, jax.random.split(key, half.size), half.network)
        return PlasticPolicy(
            library=ActorPolicy(networks, half.kind, half.network),
            edges=jnp.zeros(self.bins - 1),
            log_likelihood=jnp.zeros((half.size, half.size, self.bins)),
        )

    def fit(self, key: PRNGKey, world: AgentWorld) -> PlasticPolicy:
        self.check(world)
        pairs = count_members(world.population.best_responses) * count_members(world.population.teammates)
        trials = limit_trials(self.simulated_episodes, world.environment.horizon, pairs=pairs)
        played = cross_play(key, world.environment, *world.population, trials=trials)
        returns = np.asarray(played.returns)[..., 0]
        edges = np.linspace(returns.min() - EDGE_SLACK, returns.max() + EDGE_SLACK, self.bins + 1)[1:-1]
        bins = np.searchsorted(edges, returns)
        counts = np.stack([[np.bincount(cell, minlength=self.bins) for cell in row] for row in bins])
        counts = counts + self.pseudo_count
        log_likelihood = np.log(counts / counts.sum(axis=-1, keepdims=True))
        return PlasticPolicy(
            library=world.population.best_responses,
            edges=jnp.asarray(edges, jnp.float32),
            log_likelihood=jnp.asarray(log_likelihood, jnp.float32),
        )

    def check(self, world: AgentWorld) -> None:
        """Raise unless every teammate has a best response that fits the agent's seat."""
        halves = world.spec.best_responses, world.spec.teammates
        rows, columns = (half.size if half else 0 for half in halves)
        if rows != columns:
            raise ValueError(
                f"plastic needs one best response to every teammate, got {rows} best responses and {columns} teammates."
            )
        if world.seat != 0 and not world.environment.seats_alike:
            raise ValueError(
                f"plastic plays best responses, which belong in seat 0, got seat {world.seat} of a game whose seats "
                "are not alike: choose another learner, such as `learner='rl2'`."
            )
