"""A planner over mixtures of the generated teammates: a belief on the simplex, and a look ahead over the episodes left.

A partner may be none of the generated teammates but behave like one of them in one episode and like another in the
next. The belief is therefore about the mixture w, the probabilities with which the partner plays as teammate 1, ..., K
in an episode. It is kept on particles of the simplex, whose weights q are updated after every episode:

    q(w) <- q(w) sum_j w_j L_j,        L_j = prod_t P_j(o_t | c_t)  over the steps of the episode (`adhoc.evidence`)

or, in games whose steps are mostly unknown, with the likelihood of the episode's return as L_j. The prior draws the
size of the support evenly, then the support, then w from a symmetric Dirichlet distribution on it.

**Choice.** With n episodes left, this one included, and R[i, w] = sum_j w_j R_ij the mean return of best response i,

    i = argmax_i  E_q R[i, w] + (n - 1) sum_o max_k E_q( P(o | i, w) R[k, w] )

looks one episode ahead: play i, see its return o (in bins), and keep to what is best then. Within an episode the
posterior of the present teammate is proportional to E_q(w_j) L_j, and the agent changes to the best response that this
favours once that gains more than a tenth of the range of returns over what the episode began with.

**Guarantee.** The choice is a suggestion to a safeguard: it is followed within a budget of regret, and beyond it UCB
plays best responses for whole episodes. With any fixed partner who forgets between episodes and whose returns lie in
the range of those simulated, the regret against the best of the library's best responses in T episodes is at most

    2 B(T) + (high - low) sqrt(T log(1 / d) / 2) = O(sqrt(K T log T))    with probability at least 1 - 2 d;

`adhoc.safeguard` has B and the proof. In trials of 20 episodes the budget allows every suggestion: no bandit has a
bound below T (high - low) there.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from coverset.adhoc.evidence import fit_table, hash_context, hash_step, look_up, take_drawn
from coverset.adhoc.learner import AgentSpec, AgentWorld, FittedLearner
from coverset.adhoc.library import build_library, count_pairs, simulate_returns
from coverset.adhoc.safeguard import ArmRecord, Limits, may_follow, note_episode, start_record, upper_bounds
from coverset.checks import check_at_least, check_between, check_positive
from coverset.policies.actor import ActorPolicy
from coverset.policies.stacked import take_member
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree, Scalar

TIE_NOISE = 1e-4
CHANGE_GAIN = 0.1
"""Share of the range of returns that a change of the best response must gain within an episode."""
SLIPS = 0.02
"""Share of every particle that is spread evenly: a partner may always do something else once."""


class PlannerMemory(NamedTuple):
    """What is remembered through a trial."""

    log_weights: Float[Array, "P"]
    log_likelihood: Float[Array, "K"]
    """log L_j of the episode so far."""
    using: Int[Array, ""]
    """The best response in use."""
    changed: Bool[Array, ""]
    """Whether it has changed in this episode."""
    suggested: Bool[Array, ""]
    """Whether the planner chose it, rather than the safeguard."""
    lead: Scalar
    """By how much the best response that looked best when it was chosen was ahead of the one in use."""
    returns: Scalar
    """Return of the episode so far, without the reward that the next percept brings."""
    known: Scalar
    """Steps of the episode that the table knows, minus the others."""
    context: UInt32[Array, ""]
    """What was last seen and done, hashed."""
    started: Bool[Array, ""]
    record: ArmRecord
    library: PyTree
    """Memory of the best response in use, which clears it at the start of every episode."""


class PlannerPolicy(Policy):
    """Believes in a mixture of teammates, and looks ahead."""

    library: ActorPolicy
    """K best responses, stacked."""
    particles: Float[Array, "*s P K"]
    log_prior: Float[Array, "*s P"]
    edges: Float[Array, "*s b"]
    """Inner edges of the return bins."""
    forecast: Float[Array, "*s K K bins"]
    """P(bin of the episode's return | best response, teammate)."""
    means: Float[Array, "*s K K"]
    """R_ij."""
    limits: Float[Array, "*s 2"]
    """Smallest and largest return that was simulated."""
    steps: Float[Array, "*s entries K"]
    """log P_j(o | c) by the hash of a step."""
    episodes: int = eqx.field(static=True, default=20)
    confidence: float = eqx.field(static=True, default=0.1)

    @property
    def observation_size(self) -> int:
        """How many numbers the policy reads."""
        return self.library.observation_size

    @property
    def num_actions(self) -> int:
        """Among how many actions it chooses."""
        return self.library.num_actions

    def initial_memory(self) -> PlannerMemory:
        arms, nothing, no = self.means.shape[-1], jnp.float32(0.0), jnp.bool_(False)
        return PlannerMemory(
            log_weights=self.log_prior,
            log_likelihood=jnp.zeros(arms),
            using=jnp.int32(0),
            changed=no,
            suggested=jnp.bool_(True),
            lead=nothing,
            returns=nothing,
            known=nothing,
            context=jnp.uint32(0),
            started=no,
            record=start_record(arms),
            library=take_member(self.library, 0).initial_memory(),
        )

    def act(self, key: PRNGKey, percept: Percept, memory: PlannerMemory) -> tuple[Int[Array, ""], PlannerMemory]:
        choose_key, act_key = jax.random.split(key)
        memory = self._learn(percept, memory)
        over = self._begin(choose_key, self._close(memory))
        memory = jax.tree.map(lambda new, old: jnp.where(percept.first, new, old), over, self._reconsider(memory))
        action, library = take_drawn(self.library, memory.using).act(act_key, percept, memory.library)
        context = hash_context(percept.observation, action)
        return action, memory._replace(context=context, started=jnp.bool_(True), library=library)

    def belief(self, memory: PlannerMemory) -> Float[Array, "K"]:
        """The probability that the partner plays as each of the teammates in the present episode."""
        mixture = jax.nn.softmax(memory.log_weights) @ self.particles
        return jax.nn.softmax(jnp.log(mixture) + memory.log_likelihood)

    def _learn(self, percept: Percept, memory: PlannerMemory) -> PlannerMemory:
        """Take in the step that this percept completes."""
        seen = look_up(self.steps, hash_step(memory.context, percept))
        return memory._replace(
            log_likelihood=memory.log_likelihood + jnp.where(memory.started, seen.log_likelihood, 0.0),
            returns=memory.returns + percept.reward,
            known=memory.known + 2.0 * seen.known - 1.0,
        )

    def _close(self, memory: PlannerMemory) -> PlannerMemory:
        """Update the belief about the mixture by a whole episode, and tell the safeguard what it earned."""
        by_return = jnp.log(self.forecast[memory.using, :, jnp.searchsorted(self.edges, memory.returns)])
        judged = (memory.known < 0.0) & ~memory.changed
        log_likelihood = jnp.where(judged, by_return, memory.log_likelihood)
        evidence = jax.nn.logsumexp(jnp.log(self.particles) + log_likelihood[None], axis=-1)
        record = note_episode(memory.record, self._limits(), memory.using, memory.returns, memory.suggested)
        return memory._replace(
            log_weights=jnp.where(
                memory.started, jax.nn.log_softmax(memory.log_weights + evidence), memory.log_weights
            ),
            record=jax.tree.map(lambda new, old: jnp.where(memory.started, new, old), record, memory.record),
        )

    def _begin(self, key: PRNGKey, memory: PlannerMemory) -> PlannerMemory:
        """Choose the best response with which an episode begins."""
        values = self._look_ahead(memory)
        noise = TIE_NOISE * (self.limits[1] - self.limits[0]) * jax.random.uniform(key, values.shape)
        suggested = may_follow(memory.record, self._limits())
        cautious = jnp.argmax(upper_bounds(memory.record, self._limits()))
        nothing = jnp.zeros_like(memory.log_likelihood)
        memory = memory._replace(
            log_likelihood=nothing,
            using=jnp.where(suggested, jnp.argmax(values + noise), cautious).astype(jnp.int32),
            changed=jnp.bool_(False),
            suggested=suggested,
            returns=jnp.float32(0.0),
            known=jnp.float32(0.0),
        )
        return memory._replace(lead=self._lead(memory)[1])

    def _look_ahead(self, memory: PlannerMemory) -> Float[Array, "K"]:
        """What each best response promises, now and in the episodes after this one."""
        weights = jax.nn.softmax(memory.log_weights)
        values = self.particles @ self.means.T  # R[i, w], [P, K]
        outcomes = jnp.einsum("pj,ijo->iop", self.particles, self.forecast)  # P(o | i, w)
        after = jnp.max(jnp.einsum("iop,pk->iok", outcomes, weights[:, None] * values), axis=-1).sum(axis=-1)
        left = jnp.maximum(self.episodes - 1.0 - memory.record.episodes, 0.0)
        return weights @ values + left * after

    def _reconsider(self, memory: PlannerMemory) -> PlannerMemory:
        """Change the best response within an episode if what was seen in it says so."""
        best, lead = self._lead(memory)
        gained = lead - memory.lead > CHANGE_GAIN * (self.limits[1] - self.limits[0])
        change = gained & memory.suggested
        return memory._replace(
            using=jnp.where(change, best, memory.using),
            changed=memory.changed | change,
            lead=jnp.where(change, 0.0, memory.lead),
        )

    def _lead(self, memory: PlannerMemory) -> tuple[Int[Array, ""], Scalar]:
        """The best response that the present belief favours, and how far it is ahead of the one in use."""
        values = self.means @ self.belief(memory)
        return jnp.argmax(values).astype(jnp.int32), jnp.max(values) - values[memory.using]

    def _limits(self) -> Limits:
        return Limits(self.limits[0], self.limits[1], self.confidence)


@dataclass(frozen=True)
class Planner(FittedLearner):
    """Simulates every best response with every teammate, and plans over their mixtures."""

    needs_population: ClassVar[bool] = True

    particles: int = 192
    """Mixtures of several teammates that the belief is kept on, beside the teammates themselves."""
    concentration: float = 2.0
    """Of the Dirichlet distribution of the mixtures: above 1 they mix rather evenly."""
    planned_episodes: int = 20
    """Episodes of a trial, over which the planner looks ahead."""
    confidence: float = 0.1
    """d of the safeguard: the probability with which its intervals may fail."""
    table_size: int = 16384
    """Rows of the table of steps."""
    bins: int = 16
    """Bins of the histograms of returns."""
    simulated_episodes: int = 1024
    """Episodes of each pair from which histograms and table are made; fewer where episodes are very long."""
    pseudo_count: float = 1.0
    """Added to every count, so that no teammate is ever ruled out by one surprise."""

    def __post_init__(self) -> None:
        for name, least in {"particles": 0, "planned_episodes": 1, "table_size": 1, "bins": 2}.items():
            check_at_least(name, getattr(self, name), least)
        check_at_least("simulated_episodes", self.simulated_episodes, 1)
        check_positive("concentration", self.concentration)
        check_positive("pseudo_count", self.pseudo_count)
        check_positive("confidence", self.confidence)
        check_between("confidence", self.confidence, 0.0, 0.5)

    def build_policy(self, key: PRNGKey, spec: AgentSpec) -> PlannerPolicy:
        size = spec.best_responses.size if spec.best_responses else 0
        number = size + self.particles
        return PlannerPolicy(
            library=build_library(key, spec),
            particles=jnp.zeros((number, size)),
            log_prior=jnp.zeros(number),
            edges=jnp.zeros(self.bins - 1),
            forecast=jnp.zeros((size, size, self.bins)),
            means=jnp.zeros((size, size)),
            limits=jnp.zeros(2),
            steps=jnp.zeros((self.table_size, size)),
            episodes=self.planned_episodes,
            confidence=self.confidence,
        )

    def check(self, world: AgentWorld) -> None:
        """Raise unless every teammate has a best response that fits the agent's seat."""
        count_pairs("planner", world)

    def fit(self, key: PRNGKey, world: AgentWorld) -> PlannerPolicy:
        pairs = count_pairs("planner", world)
        particle_key, return_key, step_key = jax.random.split(key, 3)
        counts = {"episodes": self.simulated_episodes, "pseudo_count": self.pseudo_count}
        model = simulate_returns(return_key, world, pairs=pairs, bins=self.bins, **counts)
        table = fit_table(step_key, world.environment, world.population, entries=self.table_size, **counts)
        particles, prior = draw_mixtures(particle_key, len(model.means), self.particles, self.concentration)
        return PlannerPolicy(
            library=world.population.best_responses,
            particles=particles,
            log_prior=jnp.log(prior),
            edges=jnp.asarray(model.edges, jnp.float32),
            forecast=jnp.asarray(model.probabilities, jnp.float32),
            means=jnp.asarray(model.means, jnp.float32),
            limits=jnp.array([model.low, model.high], jnp.float32),
            steps=jnp.asarray(table),
            episodes=self.planned_episodes,
            confidence=self.confidence,
        )


def draw_mixtures(
    key: PRNGKey, size: int, number: int, concentration: float
) -> tuple[Float[Array, "P K"], Float[Array, "P"]]:
    """Particles on the simplex and their prior weights.

    The K corners have the probability 1 / K of a support of one teammate; all others are drawn and share the rest.
    """
    chance = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    mixtures = np.zeros((number, size))
    for mixture in mixtures:
        support = chance.permutation(size)[: chance.integers(min(2, size), size + 1)]
        mixture[support] = chance.dirichlet(np.full(len(support), concentration))
    particles = (1.0 - SLIPS) * np.concatenate([np.eye(size), mixtures]) + SLIPS / size
    alone = 1.0 / size if number else 1.0
    prior = np.concatenate([np.full(size, alone / size), np.full(number, (1.0 - alone) / max(number, 1))])
    prior = np.maximum(prior, np.finfo(np.float32).tiny)
    return jnp.asarray(particles, jnp.float32), jnp.asarray(prior / prior.sum(), jnp.float32)
