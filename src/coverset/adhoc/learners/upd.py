"""UPD, unsupervised partner design (2025): copies of the agent with drawn noise and habits, kept where it can learn.

    pi_k = (1 - e_k) sg(pi_agent) + e_k m_k,     e_k ~ U(0, 1),     m_k ~ Dirichlet(1) with chance b, else uniform

A candidate's learnability is the variance of the agent's returns with it: one that is always or never served teaches
nothing. After every `candidate_updates` updates the candidates with the lowest variance are drawn anew.
The policy is RL^2's. The pool's partners are never played with.

Source: reading notes of the paper, whose text was not at hand; how many candidates are kept, and for how long, is ours.

Differs from the source: memory lasts for the whole trial; in a game whose seats are not alike the copy plays a seat for
which it is not trained.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.learner import AgentNetworks, AgentSpec, EpisodeTally
from coverset.adhoc.perturbed import Traits, check_plays_itself, perturbed_pool
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.recurrent import RecurrentLearner
from coverset.checks import check_at_least, check_between
from coverset.types import PRNGKey


class Candidates(NamedTuple):
    """Partners under trial, and what the agent has earned with them since they were last judged."""

    traits: Traits
    tally: EpisodeTally
    """Summed over the episodes of a trial, [C]."""
    update: Int[Array, ""]


@dataclass(frozen=True)
class UPD(RecurrentLearner):
    """RL^2 that trains with perturbed copies of itself, chosen by learnability."""

    meets_partners: ClassVar[bool] = False

    candidates: int = 8
    """Rows of partners under trial at once."""
    replaced_share: float = 0.5
    """Share of the candidates, those whose returns vary least, that are replaced each time."""
    candidate_updates: int = 20
    """Updates between two replacements."""
    bias_chance: float = 0.5
    """Probability that a candidate's random actions follow a habit instead of being uniform: b."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("candidates", self.candidates, 1)
        check_at_least("candidate_updates", self.candidate_updates, 1)
        check_between("replaced_share", self.replaced_share, 0, 1)
        check_between("bias_chance", self.bias_chance, 0, 1)

    def num_rows(self, num_partners: int) -> int:
        del num_partners
        return self.candidates

    def init(self, key: PRNGKey, spec: AgentSpec) -> AgentNetworks:
        check_plays_itself("upd", spec)
        return super().init(key, spec)

    def init_state(self, key: PRNGKey, spec: AgentSpec) -> Candidates:
        zeros = jnp.zeros(self.candidates)
        return Candidates(self.draw_traits(key, spec), EpisodeTally(zeros, zeros, zeros), jnp.int32(0))

    def draw_traits(self, key: PRNGKey, spec: AgentSpec) -> Traits:
        """As many new candidates as there are."""
        noise_key, bias_key, chance_key = jax.random.split(key, 3)
        count, actions = self.candidates, spec.partner_num_actions
        habits = jax.random.dirichlet(bias_key, jnp.ones(actions), (count,))
        has_habit = jax.random.bernoulli(chance_key, self.bias_chance, (count, 1))
        return Traits(jax.random.uniform(noise_key, (count,)), jnp.where(has_habit, habits, 1.0 / actions))

    def partners(self, networks: AgentNetworks, state: Candidates, pool: PartnerPool, spec: AgentSpec) -> PartnerPool:
        return perturbed_pool(self.policy(jax.lax.stop_gradient(networks), spec), state.traits)

    def update_state(self, key: PRNGKey, state: Candidates, tally: EpisodeTally, spec: AgentSpec) -> Candidates:
        seen = jax.tree.map(lambda old, new: old + new.sum(axis=-1), state.tally, tally)
        update = state.update + 1
        due = update % self.candidate_updates == 0
        replaced = due & least_learnable(seen, round(self.replaced_share * self.candidates))
        traits = jax.tree.map(
            lambda old, new: jnp.where(replaced.reshape(-1, *[1] * (old.ndim - 1)), new, old),
            state.traits,
            self.draw_traits(key, spec),
        )
        return Candidates(traits, jax.tree.map(lambda x: jnp.where(due, 0.0, x), seen), update)


def return_variances(tally: EpisodeTally) -> Float[Array, "C"]:
    """Var R = E R^2 - (E R)^2 of every candidate's episodes; infinite for one that has ended none."""
    count = jnp.maximum(tally.episodes, 1.0)
    variance = tally.squares / count - jnp.square(tally.returns / count)
    return jnp.where(tally.episodes > 0, jnp.maximum(variance, 0.0), jnp.inf)


def least_learnable(tally: EpisodeTally, count: int) -> Bool[Array, "C"]:
    """The candidates with the lowest variances, so many of them."""
    ranks = jnp.argsort(jnp.argsort(return_variances(tally)))
    return ranks < count
