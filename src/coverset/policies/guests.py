"""Somebody else's agent as a partner: `module:function` that makes a `Policy`, or a plain Python function that acts.

A plain function `(observation, reward, done) -> action` is called on the host, once for each environment at each step:
slow beside a compiled policy. It serves all environments at once and must therefore keep nothing between calls; an
agent with a memory is written as a `Policy`, whose memory coverset keeps for each environment.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

from coverset.checks import describe_exception
from coverset.envs.base import Environment
from coverset.envs.registry import call_named, import_named
from coverset.policies.compatibility import check_action, check_policy
from coverset.policies.host_calls import call_host
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree

Acts = Callable[[np.ndarray, float, bool], Any]
"""A plain function: observation [d], the reward of the step before, whether an episode starts; gives an action."""
WANTED = "a Policy, a function (observation, reward, done) -> action, or a function that makes one of them"
MOST_MAKERS = 8
"""How many makers may follow each other."""


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
            raise ValueError(f"partner '{self.name}' failed: {describe_exception(error)}.") from error
        return check_action(f"partner '{self.name}'", action, self.num_actions)


class Guest(Policy):
    """A policy of any make whose every action is checked.

    It is marked by an array: whatever it holds itself, it can be stacked with its like.
    """

    policy: Policy
    marker: Float[Array, "*n"]
    num_actions: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def initial_memory(self) -> PyTree:
        return self.policy.initial_memory()

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        action, memory = self.policy.act(key, percept, memory)
        return _existing(self.name, jnp.asarray(action, jnp.int32), self.num_actions), memory


def _existing(name: str, actions: Int[Array, "*n"], num_actions: int) -> Int[Array, "*n"]:
    """The same actions, or a ValueError from the host, which is asked only if one of a batch does not exist."""

    def refuse(actions: np.ndarray) -> np.ndarray:
        for action in actions.flat:
            check_action(f"partner '{name}'", int(action), num_actions)
        return actions

    @custom_vmap
    def existing(actions):
        unknown = jnp.any((actions < 0) | (actions >= num_actions))
        ask = partial(call_host, refuse, jax.ShapeDtypeStruct(actions.shape, actions.dtype))
        return jax.lax.cond(unknown, ask, lambda same: same, actions)

    @existing.def_vmap
    def _(size, batched, actions):
        del size, batched
        return existing(actions), True

    return existing(actions)


def as_guest(name: str, stacked: Policy, environment: Environment, *, seat: int) -> Guest:
    """A stack of one policy whose every action is checked."""
    return Guest(stacked, jnp.zeros(1), environment.num_actions[seat], name)


def load_guest(name: str, environment: Environment, *, seat: int) -> Policy:
    """The partner that `module:function` names, stacked on a leading axis of one member.

    The name may stand for a `Policy`; for a function without parameters, or with the one parameter `environment`, that
    makes a `Policy` or a plain function; or for a plain function of three parameters itself.
    """
    made = _made(name, import_named("partner", name), environment)
    policy = made if isinstance(made, Policy) else HostPolicy(made, environment.num_actions[seat], name)
    _try(name, policy, environment, seat)
    return as_guest(name, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], policy), environment, seat=seat)


def _made(name: str, found: Any, environment: Environment) -> Policy | Acts:
    """Follow makers to what they make."""
    for _ in range(MOST_MAKERS):
        if isinstance(found, Policy):
            return found
        if not callable(found):
            raise ValueError(f"partner '{name}' must name {WANTED}, got {type(found).__name__}.")
        match _required(name, found):
            case 3:
                return cast(Acts, found)
            case 0:
                found = call_named("partner", name, found)
            case 1:
                found = call_named("partner", name, found, environment)
            case number:
                raise ValueError(f"partner '{name}' must name {WANTED}, got a function of {number} parameters.")
    raise ValueError(f"partner '{name}' must name {WANTED}, got makers of makers, more than {MOST_MAKERS} deep.")


def _required(name: str, function: Callable[..., Any]) -> int:
    """Number of parameters without a default."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(f"partner '{name}' does not tell its parameters: {describe_exception(error)}.") from error
    required = sum(parameter.default is parameter.empty and parameter.kind not in kinds for parameter in parameters)
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL and required < 3 and not isinstance(function, type):
            written = "(observation, reward, done)"
            raise ValueError(f"partner '{name}' must write its parameters out, as {written}, got *{parameter.name}.")
    return required


def _try(name: str, policy: Policy, environment: Environment, seat: int) -> None:
    """Let it act once at a start of an episode, so that a misfit is named before anything runs."""
    for leaf in jax.tree.leaves(policy):
        if not eqx.is_array_like(leaf):
            raise ValueError(
                f"partner '{name}' must hold nothing but arrays, numbers and static fields, got {type(leaf).__name__}."
            )
    if isinstance(policy, HostPolicy):
        observation = environment.observe(environment.reset(jax.random.key(0)))[seat]
        policy.checked(np.asarray(observation), 0.0, True)
    else:
        check_policy(f"partner '{name}'", policy, environment, seat=seat)
