"""Partners that are the agent itself, perturbed: what learners without a population train with.

    pi(a | history) = (1 - e) pi_agent(a | history) + e m(a)

with noise e and a distribution m of the random actions. Both are traits of a partner, fixed for a trial.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.adhoc.learner import AdHocPolicy, AgentMemory, AgentSpec
from coverset.adhoc.pool import PartnerPool
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey

SMALLEST_SUM = 1e-9


class Traits(NamedTuple):
    """How a partner differs from the agent."""

    noise: Float[Array, "*r"]
    """e: the probability of a random action."""
    bias: Float[Array, "*r a"]
    """m: how random actions are distributed."""


class PerturbedMemory(NamedTuple):
    """What a perturbed partner carries through a trial."""

    agent: AgentMemory
    started: Bool[Array, ""]
    traits: Traits


class PerturbedPolicy(Policy):
    """The agent, some of whose actions are random. Traits that change take effect when a new trial starts."""

    agent: AdHocPolicy
    traits: Traits

    def initial_memory(self) -> PerturbedMemory:
        blank = jax.tree.map(jnp.zeros_like, self.traits)
        return PerturbedMemory(self.agent.initial_memory(), jnp.bool_(False), blank)

    def act(self, key: PRNGKey, percept: Percept, memory: PerturbedMemory) -> tuple[Int[Array, ""], PerturbedMemory]:
        traits = jax.tree.map(lambda old, new: jnp.where(memory.started, old, new), memory.traits, self.traits)
        logits, network = self.agent.logits(percept, memory.agent)
        probabilities = perturb(jax.nn.softmax(logits), traits, percept.legal)
        action = jax.random.categorical(key, jnp.log(probabilities)).astype(jnp.int32)
        return action, PerturbedMemory(AgentMemory(network, action), jnp.bool_(True), traits)


def perturb(
    probabilities: Float[Array, "a"], traits: Traits, legal: Bool[Array, "a"] | None = None
) -> Float[Array, "a"]:
    """(1 - e) pi + e m, with m restricted to legal actions."""
    bias = traits.bias if legal is None else jnp.where(legal, traits.bias + SMALLEST_SUM, 0.0)
    return (1.0 - traits.noise) * probabilities + traits.noise * bias / bias.sum()


def perturbed_pool(agent: Policy, traits: Traits) -> PartnerPool:
    """A row of copies of the agent for each of the stacked traits."""
    assert isinstance(agent, AdHocPolicy)
    rows = traits.noise.shape[0]
    copies = jax.tree.map(lambda x: jnp.broadcast_to(x, (rows, *x.shape)), agent)
    return PartnerPool((PerturbedPolicy(copies, traits),))


def check_plays_itself(name: str, spec: AgentSpec) -> None:
    """Raise ValueError unless the agent's networks fit the partner's seat."""
    own, other = (spec.observation_size, spec.num_actions), (spec.partner_observation_size, spec.partner_num_actions)
    if own != other:
        raise ValueError(
            f"{name} trains with copies of its agent, so that all seats need observations and actions of one size, got "
            f"{own[0]} and {own[1]} for the agent, {other[0]} and {other[1]} for its partners: choose another learner."
        )
