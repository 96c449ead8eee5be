"""Somebody else's agent as a partner: `module:function` that makes a `Policy`, or a plain Python function that acts.

A plain function `(observation, reward, done) -> action` is called on the host, once for each environment at each step:
slow beside a compiled policy. It serves all environments at once and must therefore keep nothing between calls; an
agent with a memory is written as a `Policy`, whose memory coverset keeps for each environment.
"""

import inspect
import operator
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from coverset.adapters.host import call_host
from coverset.checks import raised
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
from coverset.policies.base import Policy
from coverset.types import Percept, PRNGKey, PyTree

Acts = Callable[[np.ndarray, float, bool], int]
"""A plain function: observation [d], the reward of the step before, whether an episode starts; gives an action."""


class HostPolicy(Policy):
    """A plain Python function as a policy without memory."""

    function: Acts = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        del key
        return call_host(self.checked, jax.ShapeDtypeStruct((), jnp.int32), *percept), memory

    def checked(self, observation: np.ndarray, reward: Any, first: Any) -> int:
        """The function's action, or a ValueError if it is none or the function fails."""
        try:
            action = self.function(observation, float(reward), bool(first))
        except Exception as error:
            raise ValueError(f"partner '{self.name}' failed: {raised(error)}.") from error
        try:
            number = operator.index(action)
        except TypeError:
            number = -1
        if not 0 <= number < self.num_actions:
            last = self.num_actions - 1
            raise ValueError(f"partner '{self.name}' must choose an action from 0 to {last}, got {action!r}.")
        return number


class Guest(Policy):
    """A policy of any make, marked by an array: whatever it holds itself, it can be stacked with its like."""

    policy: Policy
    marker: Float[Array, "*n"]

    def initial_memory(self) -> PyTree:
        return self.policy.initial_memory()

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        action, memory = self.policy.act(key, percept, memory)
        return jnp.asarray(action, jnp.int32), memory


def load_guest(name: str, environment: Environment, *, seat: int) -> Policy:
    """The partner that `module:function` names, stacked on a leading axis of one member.

    The name may stand for a `Policy`; for a function without parameters, or with the one parameter `environment`, that
    makes a `Policy` or a plain function; or for a plain function of three parameters itself.
    """
    made = _made(name, import_named("partner", name), environment)
    policy = made if isinstance(made, Policy) else HostPolicy(made, environment.num_actions[seat], name)
    _try(name, policy, environment, seat)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], Guest(policy, jnp.float32(0.0)))


def _made(name: str, found: Any, environment: Environment) -> Policy | Acts:
    """Follow makers to what they make."""
    if isinstance(found, Policy):
        return found
    wanted = "a Policy, a function (observation, reward, done) -> action, or a function that makes one of them"
    if not callable(found):
        raise ValueError(f"partner '{name}' must name {wanted}, got {type(found).__name__}.")
    match _required(name, found):
        case 3:
            return cast(Acts, found)
        case 0:
            return _made(name, call_named("partner", name, found), environment)
        case 1:
            return _made(name, call_named("partner", name, found, environment), environment)
        case number:
            raise ValueError(f"partner '{name}' must name {wanted}, got a function of {number} parameters.")


def _required(name: str, function: Callable[..., Any]) -> int:
    """Number of parameters without a default."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(f"partner '{name}' does not tell its parameters: {raised(error)}.") from error
    return sum(parameter.default is parameter.empty and parameter.kind not in kinds for parameter in parameters)


def _try(name: str, policy: Policy, environment: Environment, seat: int) -> None:
    """Let it act once at a start of an episode, so that a misfit is named before anything runs."""
    for leaf in jax.tree.leaves(policy):
        if not eqx.is_array_like(leaf):
            raise ValueError(
                f"partner '{name}' must hold nothing but arrays, numbers and static fields, got {type(leaf).__name__}."
            )
    key = jax.random.key(0)
    observation = environment.observe(environment.reset(key))[seat]
    percept = Percept(observation, jnp.float32(0.0), jnp.bool_(True))
    if isinstance(policy, HostPolicy):
        policy.checked(*map(np.asarray, percept))
        return
    try:
        memory = policy.initial_memory()
        _, remembered = jax.eval_shape(policy.act, key, percept, memory)
        action, _ = policy.act(key, percept, memory)
    except Exception as error:  # whatever an agent of others may raise
        raise ValueError(f"partner '{name}' does not fit the environment: {raised(error)}.") from error
    _check_memory(name, jax.eval_shape(policy.initial_memory), remembered)
    if jnp.shape(action) != () or not jnp.issubdtype(jnp.result_type(action), jnp.integer):
        raise ValueError(f"partner '{name}' must choose a whole number, got {action!r}.")
    if not 0 <= int(action) < environment.num_actions[seat]:
        last = environment.num_actions[seat] - 1
        raise ValueError(f"partner '{name}' must choose an action from 0 to {last}, got {int(action)}.")


def _check_memory(name: str, initial: PyTree, remembered: PyTree) -> None:
    """Raise unless memory keeps its tree, shapes and types over a step: no loop can carry another."""
    wanted = f"partner '{name}' must hand on a memory of the form that initial_memory gives"
    if jax.tree.structure(initial) != jax.tree.structure(remembered):
        raise ValueError(f"{wanted}, {jax.tree.structure(initial)}, got {jax.tree.structure(remembered)}.")
    for (path, before), after in zip(jax.tree.leaves_with_path(initial), jax.tree.leaves(remembered), strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in (before, after)]
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ValueError(f"{wanted}, {shapes[0]}{place}, got {shapes[1]}.")
