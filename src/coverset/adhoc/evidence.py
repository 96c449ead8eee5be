"""Evidence about a teammate from single steps: how likely what followed a step is with each generated teammate.

    P_j(o | c) = (n_j(c, o) + s p(o | c)) / (n_j(c) + s),        p(o | c) = sum_j n_j(c, o) / sum_j n_j(c)

The context c is what the agent saw and did, and the outcome o what it saw next: observation and reward, or the reward
and that the episode was over. A partner is evidence as far as the agent sees it: by its cell where that is part of the
observation, and otherwise by what its presence changes. The counts n_j come from simulated episodes with teammate j, in
which the agent changes its best response at random, so that what follows a change is known too; s is a pseudo-count. A
step that was never simulated with any teammate is no evidence.

This is P(s' | s, a, m_j) of Barrett et al. 2016, tabulated. Contexts and outcomes are hashed, because observations may
be of any length.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from coverset.envs.base import Environment
from coverset.evaluation.cross_play import limit_trials
from coverset.learning.rollout import play_episode, seat_policies
from coverset.policies.population import Population
from coverset.policies.stacked import count_members, take_member
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree

RESOLUTION = 64.0
"""Numbers that differ by less than about 1 / 64 count as the same."""
EPISODES_PER_TRIAL = 8
MAX_RECORDED = 1024
"""Most steps of one simulated trial that are counted."""
CERTAIN = -1e-6
"""Largest log-likelihood in a table: an outcome that is certain with all teammates differs from an unknown one."""
CHANGE_PROBABILITY = 0.1
"""Chance at every simulated step that the agent draws another best response."""


class StepEvidence(NamedTuple):
    """What one step says about the teammate."""

    log_likelihood: Float[Array, "K"]
    """log P_j(o | c); zeros where it is not known."""
    known: Float[Array, ""]
    """1 where such a step was simulated, else 0."""


def hash_context(observation: Float[Array, "d"], action: Int[Array, ""]) -> UInt32[Array, ""]:
    """A number for what the agent saw and did."""
    return _mix(_hash_numbers(observation) + jnp.uint32(1) + action.astype(jnp.uint32))


def hash_step(context: UInt32[Array, ""], percept: Percept) -> UInt32[Array, ""]:
    """A number for a context with what followed; the start of the next episode is no outcome of the last step."""
    seen = jnp.where(percept.first, jnp.uint32(1), _hash_numbers(percept.observation))
    return _mix(context + jnp.uint32(3) * _mix(seen + jnp.uint32(7) * _hash_numbers(percept.reward[None])))


def _hash_numbers(values: Float[Array, "d"]) -> UInt32[Array, ""]:
    whole = jnp.round(RESOLUTION * values).astype(jnp.int32).astype(jnp.uint32)
    place = jnp.arange(1, len(values) + 1, dtype=jnp.uint32) * jnp.uint32(0x9E3779B1)
    return jnp.sum(_mix(whole + place), dtype=jnp.uint32)


def _mix(number: UInt32[Array, "*b"]) -> UInt32[Array, "*b"]:
    """A bijection that spreads nearby numbers (the finaliser of MurmurHash3)."""
    number = (number ^ (number >> jnp.uint32(16))) * jnp.uint32(0x85EBCA6B)
    number = (number ^ (number >> jnp.uint32(13))) * jnp.uint32(0xC2B2AE35)
    return number ^ (number >> jnp.uint32(16))


def look_up(table: Float[Array, "entries K"], step: UInt32[Array, ""]) -> StepEvidence:
    """The evidence of a step; log-likelihoods in the table are below 0 wherever they are known."""
    row = table[(step % jnp.uint32(table.shape[0])).astype(jnp.int32)]
    return StepEvidence(row, jnp.any(row != 0.0).astype(jnp.float32))


def fit_table(
    key: PRNGKey, environment: Environment, population: Population, *, episodes: int, entries: int, pseudo_count: float
) -> Float[np.ndarray, "entries K"]:
    """Simulate every teammate and tabulate log P_j(o | c).

    Args:
      key: of the random numbers.
      environment: the game.
      population: best responses, among which the agent changes, and teammates.
      episodes: with each teammate; fewer where episodes are very long.
      entries: rows of the table; two steps that share a row count as the one that was seen more often.
      pseudo_count: s.
    """
    teammates = count_members(population.teammates)
    steps = environment.horizon * EPISODES_PER_TRIAL
    trials = limit_trials(-(-episodes // EPISODES_PER_TRIAL), steps, pairs=teammates)
    recorded = [
        _simulate(jax.random.split(one, trials), environment, population.best_responses, teammate)
        for j, one in enumerate(jax.random.split(key, teammates))
        for teammate in [take_member(population.teammates, j)]
    ]
    return tabulate(
        [(np.asarray(c)[np.asarray(k)], np.asarray(s)[np.asarray(k)]) for c, s, k in recorded], entries, pseudo_count
    )


def tabulate(
    recorded: list[tuple[np.ndarray, np.ndarray]], entries: int, pseudo_count: float
) -> Float[np.ndarray, "entries K"]:
    """The table from contexts and steps, both hashed, with each teammate."""
    contexts, of_context = np.unique(np.concatenate([c for c, _ in recorded]), return_inverse=True)
    steps, first, of_step = np.unique(np.concatenate([s for _, s in recorded]), return_index=True, return_inverse=True)
    teammate = np.repeat(np.arange(len(recorded)), [len(c) for c, _ in recorded])
    by_context, by_step = (np.zeros((len(found), len(recorded))) for found in (contexts, steps))
    np.add.at(by_context, (of_context, teammate), 1)
    np.add.at(by_step, (of_step, teammate), 1)
    met = by_context[of_context[first]]  # n_j(c) of the context of every step
    pooled = by_step.sum(axis=1, keepdims=True) / met.sum(axis=1, keepdims=True)
    log_likelihood = np.log((by_step + pseudo_count * pooled) / (met + pseudo_count))
    log_likelihood = np.minimum(log_likelihood, CERTAIN)
    table = np.zeros((entries, len(recorded)), np.float32)
    order = np.argsort(by_step.sum(axis=1), kind="stable")  # the most frequent is written last, and stays
    table[steps[order] % entries] = log_likelihood[order]
    return table


class _Recording(NamedTuple):
    using: Int[Array, ""]
    library: PyTree
    context: UInt32[Array, ""]
    contexts: UInt32[Array, "n"]
    steps: UInt32[Array, "n"]
    begun: Int[Array, ""]
    """Steps begun; the last of them has no outcome yet."""


class _Wanderer(Policy):
    """Changes its best response at random and records its steps."""

    library: Policy
    length: int = eqx.field(static=True)

    def initial_memory(self) -> _Recording:
        nothing = jnp.zeros(self.length, jnp.uint32)
        remembered = take_member(self.library, 0).initial_memory()
        return _Recording(jnp.int32(0), remembered, jnp.uint32(0), nothing, nothing, jnp.int32(0))

    def act(self, key: PRNGKey, percept: Percept, memory: _Recording) -> tuple[Int[Array, ""], _Recording]:
        change_key, draw_key, act_key = jax.random.split(key, 3)
        change = percept.first | jax.random.bernoulli(change_key, CHANGE_PROBABILITY)
        drawn = jax.random.randint(draw_key, (), 0, count_members(self.library))
        using = jnp.where(change, drawn, memory.using)
        action, library = take_drawn(self.library, using).act(act_key, percept, memory.library)
        place = jnp.where(memory.begun > 0, memory.begun - 1, self.length)
        contexts = memory.contexts.at[place].set(memory.context, mode="drop")
        steps = memory.steps.at[place].set(hash_step(memory.context, percept), mode="drop")
        context = hash_context(percept.observation, action)
        return action, _Recording(using, library, context, contexts, steps, memory.begun + 1)


def take_drawn(library: Policy, index: Int[Array, ""]) -> Policy:
    """The member of a stacked policy that a traced index names."""
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, library)


@eqx.filter_jit
def _simulate(keys, environment: Environment, library: Policy, teammate: Policy) -> tuple[Array, Array, Array]:
    """Contexts, steps, and which of them were recorded, all [trials, steps]."""
    length = min(MAX_RECORDED, EPISODES_PER_TRIAL * environment.horizon)
    policies = seat_policies(environment, (_Wanderer(library, length), teammate))
    play = partial(play_episode, environment=environment, policies=policies)

    def next_episode(carry, key):
        _, *carry = play(key, memories=carry[0], last_rewards=carry[1])
        return tuple(carry), None

    def trial(key):
        start = (tuple(policy.initial_memory() for policy in policies), jnp.zeros(environment.num_seats))
        (memories, _), _ = jax.lax.scan(next_episode, start, jax.random.split(key, EPISODES_PER_TRIAL))
        record: _Recording = memories[0]  # pyright: ignore[reportAssignmentType]
        return record.contexts, record.steps, jnp.arange(length) < record.begun - 1

    return jax.vmap(trial)(keys)
