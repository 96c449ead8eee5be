"""Does an environment keep the contract of `envs.base`? Shipped, so that outside environments can be checked too.

    from coverset.envs.conformance import check_environment
    check_environment(MyEnvironment())

It returns nothing, or raises ValueError with one sentence: which field broke the contract, what was wanted, what came.
"""

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from coverset.checks import describe_exception
from coverset.envs.base import Environment, autoreset
from coverset.types import Actions, Flag, Observations, Outcome, PRNGKey, PyTree, Scalar

EPISODES = 8
"""Environments that are played at random, side by side, until the horizon."""
PIECE = 10_000
"""Steps that are played and looked at in one go, so that a long horizon does not fill the memory."""
MOST_STEPS = 1_000_000
"""Steps after which even a longer episode is left."""


def check_environment(environment: Environment, *, quick: bool = False) -> None:
    """Raise ValueError with one sentence on the first thing in which `environment` breaks the contract.

    Shapes and types are checked first, then a step with and without `jit`, then random episodes under `vmap`. What
    random play never reaches is not seen.

    Args:
      quick: leave out the steps without `jit`, which take longest: JAX compiles each of their operations by itself.
    """
    _check_instance(environment)
    _check_parameters(environment)
    _check_fields(environment)
    _check_conventions(environment)
    _check_types(environment)
    check_initial_states(environment)
    if not quick:
        _check_steps(environment)
    _check_episodes(environment)


def _fail(environment: Environment, field: str, wanted: str, came: object) -> NoReturn:
    raise ValueError(f"{type(environment).__name__}.{field} must {wanted}, got {came}.")


def _check_instance(environment: object) -> None:
    if isinstance(environment, type):
        name = environment.__name__
        raise ValueError(f"environment must be an instance of a class, such as {name}(), got the class {name} itself.")
    if not isinstance(environment, Environment):
        raise ValueError(f"environment must be a coverset Environment, got {type(environment).__name__}.")


def _check_parameters(environment: Environment) -> None:
    """A run records the fields, and later commands build the environment from them: they must be all there is."""
    name = type(environment).__name__
    if not dataclasses.is_dataclass(environment):
        raise ValueError(f"{name} must be a frozen dataclass, with its parameters as fields, got a class that is none.")
    fields = {field.name for field in dataclasses.fields(environment) if field.init}
    taken = inspect.signature(type(environment)).parameters
    if set(taken) != fields:
        wanted = f"take the fields of the dataclass ({', '.join(sorted(fields))})"
        _fail(environment, "__init__", wanted, ", ".join(taken) or "no parameters")


def _check_fields(environment: Environment) -> None:
    """The parts that are plain Python values."""
    try:
        hash(environment)
    except TypeError as error:
        _fail(environment, "__hash__", "give a hash, as of a frozen dataclass, to be static under jit", error)
    for field in ("observation_size", "horizon", "version"):
        value = _read(environment, field)
        if not _is_count(value):
            _fail(environment, field, "be an int of at least 1", repr(value))
    actions = _read(environment, "num_actions")
    if not (isinstance(actions, tuple) and len(actions) == 2 and all(map(_is_count, actions))):
        _fail(environment, "num_actions", "be a tuple of two ints of at least 1", repr(actions))
    alike = _read(environment, "seats_alike")
    if alike not in (True, False):
        _fail(environment, "seats_alike", "be a bool", repr(alike))
    if alike and actions[0] != actions[1]:
        _fail(environment, "seats_alike", "be False while the seats have different actions", f"True with {actions}")


def _read(environment: Environment, field: str) -> Any:
    """The value of a field, which outside environments may compute in any way."""
    try:
        return getattr(environment, field)
    except Exception as error:
        _fail(environment, field, "have a value", describe_exception(error))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_conventions(environment: Environment) -> None:
    """Names and payoffs of the conventions, which belong together; payoffs may be left out."""
    names, payoffs = _read(environment, "conventions"), _read(environment, "convention_payoffs")
    if not (isinstance(names, tuple) and all(isinstance(name, str) for name in names)):
        _fail(environment, "conventions", "be a tuple of strings", repr(names))
    if len(set(names)) != len(names):
        _fail(environment, "conventions", "be distinct names", names)
    rows = isinstance(payoffs, tuple) and all(isinstance(row, tuple) for row in payoffs)
    if not rows or len({len(row) for row in payoffs}) > 1:
        _fail(environment, "convention_payoffs", "be a rectangular tuple of tuples", repr(payoffs))
    shape = (len(payoffs), len(payoffs[0]) if payoffs else 0)
    if payoffs and max(shape) != len(names):
        wanted = f"have a row or column for each of the {len(names)} conventions"
        _fail(environment, "convention_payoffs", wanted, f"{shape[0]} rows and {shape[1]} columns")
    for value in itertools.chain(*payoffs):
        if not isinstance(value, int | float) or not math.isfinite(value):
            _fail(environment, "convention_payoffs", "hold finite numbers", repr(value))
    if names and type(environment).convention is Environment.convention:
        _fail(environment, "convention", f"tell which of {', '.join(names)} was followed", "no such method")


def _check_types(environment: Environment) -> None:
    """Shapes and dtypes under `jit`, without computing anything."""
    key, actions = jax.random.key(0), jnp.zeros(2, jnp.int32)
    state = _traced(environment, "reset", environment.reset, key)
    _check_arrays(environment, state)
    observations = _traced(environment, "observe", environment.observe, state)
    wanted = jax.ShapeDtypeStruct((2, environment.observation_size), jnp.float32)
    _check_array(environment, "observe", observations, wanted)
    outcome = _traced(environment, "step", environment.step, key, state, actions)
    if not isinstance(outcome, Outcome):
        _fail(environment, "step", "return an Outcome", type(outcome).__name__)
    _check_same_state(environment, state, outcome.state)
    if getattr(outcome.reward, "shape", None) != () or not jnp.issubdtype(outcome.reward.dtype, jnp.floating):
        _fail(environment, "step reward", "be a float scalar", _told(outcome.reward))
    for field in ("terminated", "truncated"):
        _check_array(environment, f"step {field}", getattr(outcome, field), jax.ShapeDtypeStruct((), jnp.bool_))
    for seat in range(2):
        index = _traced(environment, "convention", lambda state, seat=seat: environment.convention(state, seat), state)
        if getattr(index, "shape", None) != () or not jnp.issubdtype(index.dtype, jnp.integer):
            _fail(environment, "convention", "be an integer scalar", _told(index))


def _traced(environment: Environment, field: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns under `jit`, as shapes and dtypes."""
    return _ran(environment, field, "under jit", jax.eval_shape, function, *arguments)


def _ran(environment: Environment, field: str, how: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns, computed to the end: a callback fails no sooner."""
    try:
        return jax.block_until_ready(function(*arguments))
    except Exception as error:  # whatever an outside environment may raise
        _fail(environment, field, f"run {how}", _raised(error))


def _raised(error: Exception) -> str:
    """As `describe_exception`; of a failed callback JAX tells a whole traceback, and the error stands at its end."""
    end = str(error).rpartition("\n  ")[2].splitlines()
    return end[1].rstrip(". ") if "Traceback (most recent" in str(error) and len(end) > 1 else describe_exception(error)


def _check_arrays(environment: Environment, state: PyTree) -> None:
    if not jax.tree.leaves(state):
        _fail(environment, "reset", "return a tree of arrays", repr(state))


def _check_array(environment: Environment, field: str, came: Any, wanted: jax.ShapeDtypeStruct) -> None:
    if (getattr(came, "shape", None), getattr(came, "dtype", None)) != (wanted.shape, wanted.dtype):
        _fail(environment, field, f"be {_told(wanted)}", _told(came))


def _told(leaf: Any) -> str:
    if not hasattr(leaf, "shape"):
        return repr(leaf)
    return f"{leaf.dtype}{list(leaf.shape)}"


def _check_same_state(environment: Environment, reset: PyTree, stepped: PyTree) -> None:
    """The state of a step must be able to stand in for that of a reset, or no loop can carry it."""
    if jax.tree.structure(reset) != jax.tree.structure(stepped):
        wanted = f"have the tree that reset returns, {jax.tree.structure(reset)}"
        _fail(environment, "step state", wanted, jax.tree.structure(stepped))
    for (path, before), after in zip(jax.tree.leaves_with_path(reset), jax.tree.leaves(stepped), strict=True):
        _check_array(environment, f"step state{jax.tree_util.keystr(path)}", after, before)


def check_initial_states(environment: Environment) -> None:
    """Raise unless starts, where they are given, are states as `reset` gives them, stacked, and probabilities."""
    try:
        given = environment.initial_states()
    except Exception as error:
        _fail(environment, "initial_states", "have a value", describe_exception(error))
    if given is None:
        return
    if not (isinstance(given, tuple) and len(given) == 2):
        _fail(environment, "initial_states", "be None, or a tuple of states and probabilities", repr(given))
    states, chances = given[0], np.asarray(given[1])
    if chances.ndim != 1 or not np.issubdtype(chances.dtype, np.floating):
        _fail(environment, "initial_states", "give a vector of probabilities", _told(chances))
    if not ((chances >= 0).all() and math.isclose(chances.sum(), 1.0, abs_tol=1e-6)):
        _fail(
            environment, "initial_states", "give probabilities of at least 0 that sum to 1", f"a sum of {chances.sum()}"
        )
    start = jax.eval_shape(environment.reset, jax.random.key(0))
    if jax.tree.structure(start) != jax.tree.structure(states):
        wanted = f"have the tree that reset returns, {jax.tree.structure(start)}"
        _fail(environment, "initial_states", wanted, jax.tree.structure(states))
    for (path, one), several in zip(jax.tree.leaves_with_path(start), jax.tree.leaves(states), strict=True):
        stacked = jax.ShapeDtypeStruct((len(chances), *one.shape), one.dtype)
        _check_array(environment, f"initial_states{jax.tree_util.keystr(path)}", several, stacked)


class _Start(NamedTuple):
    """What the three pure methods give for one key, under their names."""

    reset: PyTree
    step: Outcome
    observe: Observations


def _start(environment: Environment, key: Key[Array, "..."], how: str, transform: Callable[..., Any]) -> _Start:
    """A reset, a step and a look, each method transformed by itself; `how` says so where one of them fails."""
    actions = transform(lambda key: _random_actions(environment, key))(key)
    state = _ran(environment, "reset", how, transform(environment.reset), key)
    outcome = _ran(environment, "step", how, transform(environment.step), key, state, actions)
    return _Start(state, outcome, _ran(environment, "observe", how, transform(environment.observe), outcome.state))


def _check_steps(environment: Environment) -> None:
    """A reset and a step twice by hand and once under `jit`: all must agree. Both states must render."""
    key = jax.random.key(1)
    by_hand, again = (_start(environment, key, "without jit", lambda method: method) for _ in range(2))
    jitted = _start(environment, key, "under jit", jax.jit)
    _check_finite(environment, "step reward", np.asarray(by_hand.step.reward))
    _check_finite(environment, "observe", np.asarray(by_hand.observe))
    for field, one, other in zip(_Start._fields, by_hand, again, strict=True):
        _check_equal(environment, field, "depend on nothing but its arguments", one, other)
    for field, one, other in zip(_Start._fields, by_hand, jitted, strict=True):
        _check_equal(environment, field, "give the same with and without jit", one, other)
    for state in (by_hand.reset, by_hand.step.state):
        try:
            text = environment.render(state)
        except Exception as error:
            _fail(environment, "render", "return a str", describe_exception(error))
        if not isinstance(text, str):
            _fail(environment, "render", "return a str", type(text).__name__)


def _check_equal(environment: Environment, field: str, wanted: str, one: PyTree, other: PyTree) -> None:
    one, other = jax.tree.map(_numbers, (one, other))
    for (path, left), right in zip(jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True):
        if not np.allclose(left, right, rtol=1e-5, atol=1e-6, equal_nan=True):
            where = f" in {jax.tree_util.keystr(path)}" if path else ""
            _fail(environment, field, wanted, f"{left.tolist()} and {right.tolist()}{where}")


def _numbers(leaf: Any) -> np.ndarray:
    """A leaf of a state in NumPy, random keys too."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _random_actions(environment: Environment, key: PRNGKey) -> Actions:
    return jax.random.randint(key, (2,), 0, jnp.array(environment.num_actions))


class _Moment(NamedTuple):
    """What one step of random play showed."""

    observations: Observations
    reward: Scalar
    terminated: Flag
    truncated: Flag
    conventions: Int[Array, "2"]


def _play(environment: Environment, state: PyTree, keys: Key[Array, "steps"]) -> tuple[PyTree, _Moment]:
    """A random step for each key, with resets at the ends."""

    def step(state, key):
        actions_key, step_key, reset_key = jax.random.split(key, 3)
        outcome = environment.step(step_key, state, _random_actions(environment, actions_key))
        conventions = jnp.stack([environment.convention(outcome.state, seat) for seat in range(2)])
        observations = environment.observe(outcome.state)
        moment = _Moment(observations, outcome.reward, outcome.terminated, outcome.truncated, conventions)
        return autoreset(outcome, environment.reset(reset_key)), moment

    return jax.lax.scan(step, state, keys)


def _check_episodes(environment: Environment) -> None:
    """Random episodes side by side: finite numbers, one kind of end at a time, and an end by the horizon."""
    keys = jax.random.split(jax.random.key(2), EPISODES)
    steps = min(environment.horizon, MOST_STEPS)
    reset_keys, play_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    step_keys = _side_by_side(lambda key: jax.random.split(key, steps))(play_keys)
    play = _side_by_side(lambda state, keys: _play(environment, state, keys))
    state, ended = None, np.zeros(EPISODES, bool)
    for start in range(0, steps, PIECE):
        try:
            state = _side_by_side(environment.reset)(reset_keys) if state is None else state
            state, moments = play(state, step_keys[:, start : start + PIECE])
            moments = jax.tree.map(np.asarray, moments)
        except Exception as error:  # whatever an outside environment may raise
            _fail_side_by_side(environment, keys, error)
        ended |= _check_moments(environment, moments)
    if not ended.all() and steps == environment.horizon:
        _fail(
            environment, "horizon", "end every episode by its last step", f"{environment.horizon} steps without an end"
        )


def _check_moments(environment: Environment, moments: Any) -> np.ndarray:
    """Check moments on the host, axes [environments, steps]; tells in which environments an episode has ended."""
    _check_finite(environment, "observe", moments.observations)
    _check_finite(environment, "step reward", moments.reward)
    if (moments.terminated & moments.truncated).any():
        _fail(environment, "step truncated", "be False where terminated is True", "both True")
    ended = moments.terminated | moments.truncated
    _check_followed(environment, moments.conventions[ended])
    return ended.any(axis=1)


def _side_by_side(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(function))


def _fail_side_by_side(environment: Environment, keys: Key[Array, "n"], error: Exception) -> NoReturn:
    """Name the method that does not run in many environments at once: `step` where all of them do at the start."""
    how = "under vmap and jit"
    state = _start(environment, keys, how, _side_by_side).step.state
    for seat in range(2):
        convention = _side_by_side(lambda state, seat=seat: environment.convention(state, seat))
        _ran(environment, "convention", how, convention, state)
    _fail(environment, "step", f"run {how}", _raised(error))


def _check_finite(environment: Environment, field: str, numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        _fail(environment, field, "be finite", numbers[~np.isfinite(numbers)][0])


def _check_followed(environment: Environment, followed: np.ndarray) -> None:
    """Conventions of ended episodes: an index, or the number of conventions for none."""
    none = len(environment.conventions)
    wrong = followed[(followed < 0) | (followed > none)]
    if wrong.size:
        _fail(environment, "convention", f"lie in 0..{none} when an episode has ended", wrong[0])
