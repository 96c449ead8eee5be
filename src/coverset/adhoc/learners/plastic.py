"""PLASTIC-Policy (Barrett et al. 2016): a library of best responses, and a belief about which teammate this one is.

The generated best responses are the library. The belief b is updated after every step by what followed it, o after the
context c (`adhoc.evidence`), with Bayes' rule or with Barrett's polynomial weights, which forgive more:

    bayes        b(j) <- b(j) P_j(o | c)
    polynomial   b(j) <- b(j) (1 - eta (1 - P_j(o | c)))

and is normalised. The agent plays the best response to the most likely type, and changes it within an episode once
another type is more likely by a factor. Before each episode the belief forgets a little, b <- (1 - f) b + f / K, so
that a partner who changes its ways is followed.

In games whose steps are too many to tabulate, most steps are unknown. An episode of that kind is judged by its return,
if it was played with one best response: b(j) <- b(j) P(bin of the return | best response in use, teammate j), from
histograms of simulated returns.

Differs from Barrett et al.: likelihoods are simulated rather than learned from logged play, and they are those of the
agent's own observations and rewards, which may not show the teammate.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from coverset.adhoc.evidence import StepEvidence, fit_table, hash_context, hash_step, look_up, take_drawn
from coverset.adhoc.learner import AgentSpec, AgentWorld, FittedLearner
from coverset.adhoc.library import build_library, count_pairs, simulate_returns
from coverset.checks import check_at_least, check_between, check_one_of, check_positive
from coverset.policies.actor import ActorPolicy
from coverset.policies.stacked import take_member
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree, Scalar

TIE_NOISE = 1e-3
CHANGE_ODDS = 2.0
"""By how much another type must be more likely before the best response changes within an episode."""


class Belief(NamedTuple):
    """What is remembered through a trial."""

    log_belief: Float[Array, "K"]
    using: Int[Array, ""]
    """The best response in use."""
    changed: Bool[Array, ""]
    """Whether it has changed in this episode."""
    returns: Scalar
    """Return of the episode so far, without the reward that the next percept brings."""
    known: Scalar
    """Steps of the episode that the table knows, minus the others."""
    context: UInt32[Array, ""]
    """What was last seen and done, hashed."""
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
    steps: Float[Array, "*s entries K"]
    """log P_j(o | c) by the hash of a step, `adhoc.evidence`."""
    learning_rate: float | None = eqx.field(static=True, default=None)
    """eta of polynomial weights; None for Bayes' rule."""
    forgetting: float = eqx.field(static=True, default=0.0)

    @property
    def observation_size(self) -> int:
        """How many numbers the policy reads."""
        return self.library.observation_size

    @property
    def num_actions(self) -> int:
        """Among how many actions it chooses."""
        return self.library.num_actions

    def initial_memory(self) -> Belief:
        nothing, no = jnp.float32(0.0), jnp.bool_(False)
        remembered = take_member(self.library, 0).initial_memory()
        belief = jnp.full(self.steps.shape[-1], -jnp.log(float(self.steps.shape[-1])))
        return Belief(belief, jnp.int32(0), no, nothing, nothing, jnp.uint32(0), no, remembered)

    def act(self, key: PRNGKey, percept: Percept, memory: Belief) -> tuple[Int[Array, ""], Belief]:
        choose_key, act_key = jax.random.split(key)
        memory = self._learn(percept, memory)
        using = self._choose(choose_key, percept, memory)
        action, library = take_drawn(self.library, using).act(act_key, percept, memory.library)
        return action, memory._replace(
            using=using,
            changed=~percept.first & (memory.changed | (using != memory.using)),
            returns=jnp.where(percept.first, 0.0, memory.returns),
            known=jnp.where(percept.first, 0.0, memory.known),
            context=hash_context(percept.observation, action),
            started=jnp.bool_(True),
            library=library,
        )

    def _learn(self, percept: Percept, memory: Belief) -> Belief:
        """Update the belief by the step that this percept completes, and forget a little where an episode starts."""
        seen = look_up(self.steps, hash_step(memory.context, percept))
        returns, known = memory.returns + percept.reward, memory.known + 2.0 * seen.known - 1.0
        by_return = self.log_likelihood[memory.using, :, jnp.searchsorted(self.edges, returns)]
        judged = percept.first & ~memory.changed & (known < 0.0)
        evidence = self._weigh(seen) + jnp.where(judged, by_return, 0.0)
        log_belief = jax.nn.log_softmax(memory.log_belief + jnp.where(memory.started, evidence, 0.0))
        forgotten = jnp.logaddexp(jnp.log1p(-self.forgetting) + log_belief, jnp.log(self.forgetting / len(log_belief)))
        log_belief = jnp.where(percept.first & memory.started, forgotten, log_belief)
        return memory._replace(log_belief=log_belief, returns=returns, known=known)

    def _weigh(self, seen: StepEvidence) -> Float[Array, "K"]:
        """The logarithm of the factors by which a step changes the belief."""
        if self.learning_rate is None:
            return seen.log_likelihood
        return seen.known * jnp.log1p(-self.learning_rate * -jnp.expm1(seen.log_likelihood))

    def _choose(self, key: PRNGKey, percept: Percept, memory: Belief) -> Int[Array, ""]:
        """The most likely type, ties broken at random; within an episode the one in use, unless far less likely."""
        tie_break = TIE_NOISE * jax.random.uniform(key, memory.log_belief.shape)
        in_use = jnp.arange(len(memory.log_belief)) == memory.using
        kept = jnp.where(in_use, jnp.log(CHANGE_ODDS), 0.0)
        bonus = jnp.where(percept.first, tie_break, kept)
        return jnp.argmax(memory.log_belief + bonus).astype(jnp.int32)

    def belief(self, memory: Belief) -> Float[Array, "K"]:
        """The belief with which the present best response was chosen."""
        return jax.nn.softmax(memory.log_belief)


@dataclass(frozen=True)
class Plastic(FittedLearner):
    """Simulates every best response with every teammate, and counts steps and returns."""

    needs_population: ClassVar[bool] = True

    update: str = "polynomial"
    """`polynomial` or `bayes`: how a step changes the belief."""
    eta: float = 0.5
    """Learning rate of polynomial weights, at most 0.5."""
    forgetting: float = 0.02
    """Share of the belief that is spread evenly before each episode."""
    table_size: int = 16384
    """Rows of the table of steps."""
    bins: int = 40
    """Bins of the histograms of returns."""
    simulated_episodes: int = 1024
    """Episodes of each pair from which histograms and table are made; fewer where episodes are very long."""
    pseudo_count: float = 1.0
    """Added to every count, so that no type is ever ruled out by one surprise."""

    def __post_init__(self) -> None:
        check_one_of("update", self.update, ("bayes", "polynomial"))
        check_between("eta", self.eta, 0.0, 0.5)
        check_between("forgetting", self.forgetting, 0.0, 1.0)
        check_at_least("table_size", self.table_size, 1)
        check_at_least("bins", self.bins, 2)
        check_at_least("simulated_episodes", self.simulated_episodes, 1)
        check_positive("pseudo_count", self.pseudo_count)

    def build_policy(self, key: PRNGKey, spec: AgentSpec) -> PlasticPolicy:
        library = build_library(key, spec)
        size = spec.best_responses.size if spec.best_responses else 0
        edges, counts = jnp.zeros(self.bins - 1), jnp.zeros((size, size, self.bins))
        return PlasticPolicy(
            library, edges, counts, jnp.zeros((self.table_size, size)), self._learning_rate, self.forgetting
        )

    def fit(self, key: PRNGKey, world: AgentWorld) -> PlasticPolicy:
        pairs = count_pairs("plastic", world)
        return_key, step_key = jax.random.split(key)
        counts = {"episodes": self.simulated_episodes, "pseudo_count": self.pseudo_count}
        model = simulate_returns(return_key, world, pairs=pairs, bins=self.bins, **counts)
        table = fit_table(step_key, world.environment, world.population, entries=self.table_size, **counts)
        return PlasticPolicy(
            world.population.best_responses,
            jnp.asarray(model.edges, jnp.float32),
            jnp.asarray(jnp.log(model.probabilities), jnp.float32),
            jnp.asarray(table),
            self._learning_rate,
            self.forgetting,
        )

    def check(self, world: AgentWorld) -> None:
        """Raise unless every teammate has a best response that fits the agent's seat."""
        count_pairs("plastic", world)

    @property
    def _learning_rate(self) -> float | None:
        """eta of the polynomial weights; None for Bayes' rule."""
        return self.eta if self.update == "polynomial" else None
