"""Third-party agents as partners: `module:function` that makes a `Policy`, or a plain Python function that acts.

A plain function `(observation, reward, done) -> action`, in games with illegal actions `(observation, reward, done,
legal) -> action`, is called on the host once per environment and step, which is much slower than a compiled policy. All
environments share the function, so it must not keep state between calls; an agent with memory must be a `Policy`, whose
memory coverset keeps for each environment.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int

from coverset.checks import describe_exception
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.envs.registry import call_named, import_named
from coverset.envs.seats import is_masked, sides
from coverset.policies.compatibility import check_action, check_policy, first_percept
from coverset.policies.host_calls import call_host
from coverset.policy import Policy
from coverset.types import Percept, PRNGKey, PyTree

PlainFunction = Callable[..., Any]
"""A function of the observation [d], the previous reward, whether an episode starts, and if it has a fourth parameter
the legal actions [a], that returns an action."""
WANTED = "a Policy, a function (observation, reward, done) -> action, or a function that makes one of them"
MAX_MAKERS = 8
"""How many functions that make functions may be nested."""


class HostPolicy(Policy):
    """A plain Python function as a policy without memory."""

    function: PlainFunction = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    takes_legal: bool = eqx.field(static=True, default=False)
    """Whether the function has a fourth parameter, the legal actions."""

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key: PRNGKey, percept: Percept, memory: tuple[()]) -> tuple[Int[Array, ""], tuple[()]]:
        del key
        seen = (percept.observation, percept.reward, percept.first, legal_or_all(percept, self.num_actions))
        return call_host(self.checked_action, jax.ShapeDtypeStruct((), jnp.int32), *seen), memory

    def checked_action(self, observation: np.ndarray, reward: Any, first: Any, legal: np.ndarray) -> int:
        """The function's action; raises ValueError if it is invalid or the function fails."""
        rest = (legal,) if self.takes_legal else ()
        try:
            action = self.function(observation, float(reward), bool(first), *rest)
        except Exception as error:
            raise ValueError(f"partner '{self.name}' failed: {describe_exception(error)}.") from error
        return check_action(f"partner '{self.name}'", action, self.num_actions, legal)


class CheckedPolicy(Policy):
    """A third-party policy whose every action is checked.

    `number` gives it at least one array leaf, so that it can be stacked even if the policy holds no arrays.
    """

    policy: Policy
    number: Int[Array, "*n"]
    """Its place in `names`, so that policies of several names can be stacked."""
    num_actions: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    """What messages call the policies, such as `partner 'mine:make'`."""

    def initial_memory(self) -> PyTree:
        return self.policy.initial_memory()

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        action, memory = self.policy.act(key, percept, memory)
        legal = legal_or_all(percept, self.num_actions)
        return _check_actions(self.names, self.number, jnp.asarray(action, jnp.int32), legal), memory


def legal_or_all(percept: Percept, num_actions: int) -> Bool[Array, "a"]:
    """The legal actions; all of them where the game masks none."""
    return jnp.ones(num_actions, bool) if percept.legal is None else percept.legal


def _check_actions(
    names: tuple[str, ...], numbers: Int[Array, "*n"], actions: Int[Array, "*n"], legal: Bool[Array, "*n a"]
) -> Int[Array, "*n"]:
    """Return the actions; raises ValueError if one is not legal. The host is called only in that case."""
    num_actions = legal.shape[-1]

    def check_on_host(numbers: np.ndarray, actions: np.ndarray, legal: np.ndarray) -> np.ndarray:
        for number, action, allowed in zip(numbers.flat, actions.flat, legal.reshape(-1, num_actions), strict=True):
            check_action(names[number], int(action), num_actions, allowed)
        return actions

    @custom_vmap
    def check(numbers, actions, legal):
        chosen = jnp.clip(actions, 0, num_actions - 1)
        allowed = jnp.take_along_axis(legal, chosen[..., None], axis=-1)[..., 0]
        wrong = jnp.any((actions != chosen) | ~allowed)
        call = partial(call_host, check_on_host, jax.ShapeDtypeStruct(actions.shape, actions.dtype))
        return jax.lax.cond(wrong, call, lambda _, same, __: same, numbers, actions, legal)

    @check.def_vmap
    def _(size, batched, *given):
        numbers, actions, legal = (
            x if is_batched else jnp.broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip(given, batched, strict=True)
        )
        return check(numbers, actions, legal), True

    return check(numbers, actions, legal)


def checked_heuristics(environment: Environment) -> Mapping[str, Policy]:
    """The heuristics of an environment; in a game with illegal actions, one that plays such an action is named."""
    known = heuristics(environment)
    if not known or not is_masked(environment):
        return known
    names = tuple(f"heuristic '{name}'" for name in known)
    num_actions = sides(environment)[1].num_actions
    return {
        name: CheckedPolicy(policy, jnp.int32(number), num_actions, names)
        for number, (name, policy) in enumerate(known.items())
    }


def wrap_checked(name: str, stacked: Policy, environment: Environment, *, seat: int) -> CheckedPolicy:
    """Wrap a stack of one policy so that every action is checked."""
    num_actions = sides(environment)[min(seat, 1)].num_actions
    return CheckedPolicy(stacked, jnp.zeros(1, jnp.int32), num_actions, (f"partner '{name}'",))


def load_third_party(name: str, environment: Environment, *, seat: int) -> Policy:
    """Load the partner named by `module:function`, stacked on a leading axis of one member.

    The name may refer to a `Policy`; to a function with no parameter, or with the single parameter `environment`, that
    makes a `Policy` or a plain function; or to a plain function of three parameters.
    """
    made = _resolve_makers(name, import_named("partner", name), environment)
    policy = made if isinstance(made, Policy) else _host_policy(name, made, environment, seat)
    _check_acts(name, policy, environment, seat)
    return wrap_checked(name, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], policy), environment, seat=seat)


def _host_policy(name: str, function: PlainFunction, environment: Environment, seat: int) -> HostPolicy:
    """A plain function as the policy of a seat; in a game with illegal actions it must ask for the legal ones."""
    takes_legal = _count_required_parameters(name, function) == 4
    if is_masked(environment) and not takes_legal:
        raise ValueError(
            f"partner '{name}' must take the legal actions as its fourth parameter, "
            "(observation, reward, done, legal), because this game has illegal ones."
        )
    return HostPolicy(function, sides(environment)[min(seat, 1)].num_actions, name, takes_legal)


def _resolve_makers(name: str, found: Any, environment: Environment) -> Policy | PlainFunction:
    """Call functions that make policies until one returns a policy or a plain function."""
    for _ in range(MAX_MAKERS):
        if isinstance(found, Policy):
            return found
        if not callable(found):
            raise ValueError(f"partner '{name}' must name {WANTED}, got {type(found).__name__}.")
        match _count_required_parameters(name, found):
            case 3 | 4:
                return cast(PlainFunction, found)
            case 0:
                found = call_named("partner", name, found)
            case 1:
                found = call_named("partner", name, found, environment)
            case number:
                raise ValueError(f"partner '{name}' must name {WANTED}, got a function of {number} parameters.")
    raise ValueError(f"partner '{name}' must name {WANTED}, got makers nested more than {MAX_MAKERS} deep.")


def _count_required_parameters(name: str, function: Callable[..., Any]) -> int:
    """Number of parameters without a default."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(f"partner '{name}' must have a signature: {describe_exception(error)}.") from error
    required = sum(parameter.default is parameter.empty and parameter.kind not in kinds for parameter in parameters)
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL and required < 3 and not isinstance(function, type):
            written = "(observation, reward, done)"
            raise ValueError(f"partner '{name}' must name its parameters, as {written}, got *{parameter.name}.")
    return required


def _check_acts(name: str, policy: Policy, environment: Environment, seat: int) -> None:
    """Let the policy act once at the start of an episode, so that errors surface before training."""
    for leaf in jax.tree.leaves(policy):
        if not eqx.is_array_like(leaf):
            raise ValueError(
                f"partner '{name}' must hold nothing but arrays, numbers and static fields, got {type(leaf).__name__}."
            )
    if isinstance(policy, HostPolicy):
        percept = first_percept(environment, seat)
        legal = legal_or_all(percept, policy.num_actions)
        policy.checked_action(np.asarray(percept.observation), 0.0, True, np.asarray(legal))
    else:
        check_policy(f"partner '{name}'", policy, environment, seat=seat)
