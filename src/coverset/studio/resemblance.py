"""Which best response an agent's actions resemble, for agents that keep no belief about their partner.

Over one episode with percepts o_t and actions a_t, the weight of best response i is the likelihood of the agent's own
actions under it, normalised:

    w_i = prod_t pi_i(a_t | o_1..t) / sum_k prod_t pi_k(a_t | o_1..t)

This says what the agent did, not what it thought: an agent that plays like best response i acts as if its partner were
teammate i.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from coverset.policies.stacked import count_members
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree

LEAST_PROBABILITY = 1e-6
"""Lower bound of an action's probability, so that one action rules out no best response for good."""


class ResemblanceMemory(NamedTuple):
    """What is carried from step to step."""

    agent: PyTree
    best_responses: PyTree
    """Memories of all best responses, had they perceived what the agent has."""
    log_likelihood: Float[Array, "K"]
    """Of the agent's actions in this episode."""


class Resemblance(Policy):
    """Plays as `agent` does, and compares its actions with those of stacked `best_responses`."""

    agent: Policy
    best_responses: Policy

    def initial_memory(self) -> ResemblanceMemory:
        members = jax.vmap(lambda member: member.initial_memory())(self.best_responses)
        return ResemblanceMemory(self.agent.initial_memory(), members, jnp.zeros(count_members(self.best_responses)))

    def act(
        self, key: PRNGKey, percept: Percept, memory: ResemblanceMemory
    ) -> tuple[Int[Array, ""], ResemblanceMemory]:
        action, agent = self.agent.act(key, percept, memory.agent)

        def compare(member: Policy, remembered: PyTree) -> tuple[Float[Array, ""], PyTree]:
            probabilities = member.action_probabilities(percept, remembered)
            assert probabilities is not None, "networks that were generated know their probabilities"
            return jnp.log(jnp.maximum(probabilities[action], LEAST_PROBABILITY)), member.act(key, percept, remembered)[
                1
            ]

        seen, members = jax.vmap(compare)(self.best_responses, memory.best_responses)
        before = jnp.where(percept.first, 0.0, memory.log_likelihood)
        return action, ResemblanceMemory(agent, members, before + seen)

    def belief(self, memory: ResemblanceMemory) -> Float[Array, "K"]:
        """The normalised likelihoods of this episode's actions."""
        return jax.nn.softmax(memory.log_likelihood)


def keeps_belief(policy: Policy) -> bool:
    """Whether a policy says what it believes."""
    return jax.eval_shape(lambda: policy.belief(policy.initial_memory())) is not None
