"""Whether somebody's policy fits an environment, found out before anything runs."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coverset.checks import describe_exception
from coverset.envs.base import Environment
from coverset.envs.seats import perceive
from coverset.policy import Policy
from coverset.types import Percept, PyTree


def check_policy(who: str, policy: Policy, environment: Environment, *, seat: int) -> None:
    """Let a policy act once at the start of an episode; a ValueError that starts with `who` tells of a misfit."""
    key, percept = jax.random.key(0), first_percept(environment, seat)
    try:
        memory = policy.initial_memory()
        _, remembered = jax.eval_shape(policy.act, key, percept, memory)
        action, _ = policy.act(key, percept, memory)
    except Exception as error:  # whatever an agent of others may raise
        raise ValueError(f"{who} does not fit the environment: {describe_exception(error)}.") from error
    _check_memory(who, jax.eval_shape(policy.initial_memory), remembered)
    if jnp.shape(action) != () or not jnp.issubdtype(jnp.result_type(action), jnp.integer):
        raise ValueError(f"{who} must choose a whole number, got {action!r}.")
    check_action(who, int(action), environment.num_actions[seat], percept.legal)


def first_percept(environment: Environment, seat: int) -> Percept:
    """What a seat perceives at the start of a trial."""
    rewards = jnp.zeros(environment.num_seats)
    return perceive(environment, environment.reset(jax.random.key(0)), rewards, jnp.bool_(True))[seat]


def check_action(who: str, action: Any, num_actions: int, legal: Any = None) -> int:
    """The number of an action, which an array of one element may hold; raises unless it exists and is legal."""
    alone = isinstance(action, np.ndarray | jax.Array) and action.size == 1
    try:
        number = operator.index(action.item() if alone else action)
    except TypeError:
        number = -1
    if not 0 <= number < num_actions:
        raise ValueError(f"{who} must choose an action from 0 to {num_actions - 1}, got {action!r}.")
    if legal is not None and not legal[number]:
        allowed = ", ".join(str(choice) for choice in np.flatnonzero(legal))
        raise ValueError(f"{who} must choose a legal action, here one of {allowed}, got {number}.")
    return number


def _check_memory(who: str, initial: PyTree, remembered: PyTree) -> None:
    """Raise unless memory keeps its tree, shapes and types over a step: no loop can carry another."""
    wanted = f"{who} must hand on a memory of the form that initial_memory gives"
    if jax.tree.structure(initial) != jax.tree.structure(remembered):
        raise ValueError(f"{wanted}, {jax.tree.structure(initial)}, got {jax.tree.structure(remembered)}.")
    for (path, before), after in zip(jax.tree.leaves_with_path(initial), jax.tree.leaves(remembered), strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in (before, after)]
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ValueError(f"{wanted}, {shapes[0]}{place}, got {shapes[1]}.")


def policy_shape(policy: Any) -> tuple[int, int]:
    """How many numbers a saved policy reads, and among how many actions it chooses; stacked or not."""
    try:
        return policy.observation_size, policy.num_actions
    except AttributeError as error:
        raise ValueError(
            f"a policy that is saved must have observation_size and num_actions, and {type(policy).__name__} lacks one."
        ) from error
