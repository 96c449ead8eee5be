"""Check that an environment satisfies the contract of `envs.base`, third-party environments included.

    from coverset.envs.conformance import check_environment
    check_environment(MyEnvironment())

It raises ValueError for the first violation, naming the field, what it must be, and what was found.
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
from jaxtyping import Array, Bool, Float, Int, Key

from coverset.checks import describe_exception
from coverset.envs.base import Environment, autoreset, takes_seat
from coverset.envs.seats import action_mask
from coverset.envs.symmetry_checks import check_symmetries
from coverset.types import Actions, Flag, Observations, Outcome, PRNGKey, PyTree, Scalar

NUM_ENVIRONMENTS = 8
"""Environments that play random actions in parallel until the horizon."""
STEPS_PER_CHUNK = 10_000
"""Steps simulated and checked at once, which bounds the memory for long horizons."""
MAX_STEPS = 1_000_000
"""Most steps to simulate; longer episodes are checked up to here."""


def check_environment(environment: Environment, *, quick: bool = False) -> None:
    """Raise ValueError for the first violation of the environment contract.

    Shapes and types are checked first, then a step with and without `jit`, then random episodes under `vmap`. States
    that random play does not reach are not checked.

    Args:
      quick: skip the steps without `jit`, which take longest because JAX compiles each operation separately.
    """
    _check_instance(environment)
    check_declarations(environment)
    _check_types(environment)
    check_initial_states(environment)
    check_symmetries(environment)
    if not quick:
        _check_steps(environment)
    _check_episodes(environment)


def check_declarations(environment: Environment) -> None:
    """Raise ValueError for the first attribute that is not what it must be, without playing."""
    _check_parameters(environment)
    _check_fields(environment)
    _check_conventions(environment)


def _fail(environment: Environment, field: str, wanted: str, found: object) -> NoReturn:
    raise ValueError(f"{type(environment).__name__}.{field} must {wanted}, got {found}.")


def _check_instance(environment: object) -> None:
    if isinstance(environment, type):
        name = environment.__name__
        raise ValueError(f"environment must be an instance of a class, such as {name}(), got the class {name} itself.")
    if not isinstance(environment, Environment):
        raise ValueError(f"environment must be a coverset Environment, got {type(environment).__name__}.")


def _check_parameters(environment: Environment) -> None:
    """Check that the dataclass fields are all parameters: later commands rebuild the environment from them."""
    name = type(environment).__name__
    if not dataclasses.is_dataclass(environment):
        raise ValueError(
            f"{name} must be a frozen dataclass, with its parameters as fields, got a class that is not a dataclass."
        )
    fields = {field.name for field in dataclasses.fields(environment) if field.init}
    taken = inspect.signature(type(environment)).parameters
    if set(taken) != fields:
        wanted = f"take the fields of the dataclass ({', '.join(sorted(fields))})"
        _fail(environment, "__init__", wanted, ", ".join(taken) or "no parameters")


def _check_fields(environment: Environment) -> None:
    """Check the attributes that are plain Python values."""
    try:
        hash(environment)
    except TypeError as error:
        _fail(environment, "__hash__", "return a hash, as a frozen dataclass does, to be static under jit", error)
    for field in ("observation_size", "horizon", "version"):
        value = _read(environment, field)
        if not _is_positive_int(value):
            _fail(environment, field, f"be an int of at least 1{_advise(field, value)}", repr(value))
    actions = _read(environment, "num_actions")
    if not (isinstance(actions, tuple) and len(actions) >= 2 and all(map(_is_positive_int, actions))):
        _fail(environment, "num_actions", "be a tuple of two or more ints of at least 1", repr(actions))
    _check_observation_shapes(environment)
    alike = _read(environment, "seats_alike")
    if alike not in (True, False):
        _fail(environment, "seats_alike", "be a bool", repr(alike))
    if alike and len(set(actions)) > 1:
        wanted = "be False if the seats have different numbers of actions"
        _fail(environment, "seats_alike", wanted, f"True with {actions}")


def _advise(field: str, value: object) -> str:
    """How to say that seats observe different numbers of things, to whoever gives several sizes."""
    if field != "observation_size" or not isinstance(value, tuple | list):
        return ""
    return f", the longest where seats differ, beside observation_shapes = {tuple((size,) for size in value)}"


def _check_observation_shapes(environment: Environment) -> None:
    """Check that every seat has a shape, and that the longest is as long as `observe` makes them all."""
    shapes, size = _read(environment, "observation_shapes"), _read(environment, "observation_size")
    valid = isinstance(shapes, tuple) and all(
        isinstance(shape, tuple) and shape and all(map(_is_positive_int, shape)) for shape in shapes
    )
    if not valid or len(shapes) != environment.num_seats:
        wanted = f"be a tuple of {environment.num_seats} shapes, one for each seat"
        _fail(environment, "observation_shapes", wanted, repr(shapes))
    if max(map(math.prod, shapes)) != size:
        wanted = f"hold {size} numbers, observation_size, in the largest"
        _fail(environment, "observation_shapes", wanted, repr(shapes))


def _read(environment: Environment, field: str) -> Any:
    """Read an attribute, which a third-party environment may compute in any way."""
    try:
        return getattr(environment, field)
    except Exception as error:
        _fail(environment, field, "have a value", describe_exception(error))


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_conventions(environment: Environment) -> None:
    """Check names and payoffs of the conventions against each other; payoffs are optional."""
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
        _fail(environment, "convention", f"return which of {', '.join(names)} was followed", "no such method")


def _check_types(environment: Environment) -> None:
    """Check shapes and dtypes under `jit` without running anything."""
    key, actions, seats = jax.random.key(0), jnp.zeros(environment.num_seats, jnp.int32), environment.num_seats
    state = _trace(environment, "reset", environment.reset, key)
    _check_arrays(environment, state)
    observations = _trace(environment, "observe", environment.observe, state)
    if isinstance(observations, tuple | list):
        wanted = "be one array with a row for each seat, as coverset.pad_observations(*rows) makes it"
        _fail(environment, "observe", wanted, f"{len(observations)} arrays")
    wanted = jax.ShapeDtypeStruct((seats, environment.observation_size), jnp.float32)
    _check_array(environment, "observe", observations, wanted)
    legal = _trace(environment, "legal_actions", environment.legal_actions, state)
    if legal is not None:
        wanted = jax.ShapeDtypeStruct((seats, max(environment.num_actions)), jnp.bool_)
        _check_array(environment, "legal_actions", legal, wanted)
    outcome = _trace(environment, "step", environment.step, key, state, actions)
    if not isinstance(outcome, Outcome):
        _fail(environment, "step", "return an Outcome", type(outcome).__name__)
    _check_same_state(environment, state, outcome.state)
    shape, by_seat = getattr(outcome.reward, "shape", None), (seats,)
    if shape not in ((), by_seat) or not jnp.issubdtype(outcome.reward.dtype, jnp.floating):
        wanted = f"be a float scalar, or one float for each of the {seats} seats"
        _fail(environment, "step reward", wanted, _describe_array(outcome.reward))
    for field in ("terminated", "truncated"):
        _check_array(environment, f"step {field}", getattr(outcome, field), jax.ShapeDtypeStruct((), jnp.bool_))
    if outcome.shaping is not None:
        _check_array(environment, "step shaping", outcome.shaping, jax.ShapeDtypeStruct((), jnp.float32))
    for seat in range(environment.num_seats):
        index = _trace(environment, "convention", lambda state, seat=seat: environment.convention(state, seat), state)
        if getattr(index, "shape", None) != () or not jnp.issubdtype(index.dtype, jnp.integer):
            _fail(environment, "convention", "be an integer scalar", _describe_array(index))


def _trace(environment: Environment, field: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the shapes and dtypes of the result of `function` under `jit`."""
    return _run(environment, field, "under jit", jax.eval_shape, function, *arguments)


def _run(environment: Environment, field: str, how: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` and wait for its result, so that failures of callbacks surface."""
    try:
        return jax.block_until_ready(function(*arguments))
    except Exception as error:  # third-party code may raise anything
        _fail(environment, field, f"run {how}", _raised(error))


def _raised(error: Exception) -> str:
    """As `describe_exception`; of a failed callback JAX tells a whole traceback, and the error stands at its end."""
    end = str(error).rpartition("\n  ")[2].splitlines()
    return end[1].rstrip(". ") if "Traceback (most recent" in str(error) and len(end) > 1 else describe_exception(error)


def _check_arrays(environment: Environment, state: PyTree) -> None:
    if not jax.tree.leaves(state):
        _fail(environment, "reset", "return a tree of arrays", repr(state))


def _check_array(environment: Environment, field: str, found: Any, wanted: jax.ShapeDtypeStruct) -> None:
    if (getattr(found, "shape", None), getattr(found, "dtype", None)) != (wanted.shape, wanted.dtype):
        _fail(environment, field, f"be {_describe_array(wanted)}", _describe_array(found))


def _describe_array(leaf: Any) -> str:
    if not hasattr(leaf, "shape"):
        return repr(leaf)
    return f"{leaf.dtype}{list(leaf.shape)}"


def _check_same_state(environment: Environment, reset: PyTree, stepped: PyTree) -> None:
    """Check that `step` returns states like those of `reset`, so that a scan can carry them."""
    if jax.tree.structure(reset) != jax.tree.structure(stepped):
        wanted = f"have the tree that reset returns, {jax.tree.structure(reset)}"
        _fail(environment, "step state", wanted, jax.tree.structure(stepped))
    for (path, before), after in zip(jax.tree.leaves_with_path(reset), jax.tree.leaves(stepped), strict=True):
        _check_array(environment, f"step state{jax.tree_util.keystr(path)}", after, before)


def check_initial_states(environment: Environment) -> None:
    """Raise unless `initial_states` is None, or stacked states like those of `reset` with probabilities."""
    try:
        given = environment.initial_states()
    except Exception as error:
        _fail(environment, "initial_states", "have a value", describe_exception(error))
    if given is None:
        return
    if not (isinstance(given, tuple) and len(given) == 2):
        _fail(environment, "initial_states", "be None, or a tuple of states and probabilities", repr(given))
    states, probabilities = given[0], np.asarray(given[1])
    if probabilities.ndim != 1 or not np.issubdtype(probabilities.dtype, np.floating):
        _fail(environment, "initial_states", "give a vector of probabilities", _describe_array(probabilities))
    if not ((probabilities >= 0).all() and math.isclose(probabilities.sum(), 1.0, abs_tol=1e-6)):
        wanted = "give probabilities of at least 0 that sum to 1"
        _fail(environment, "initial_states", wanted, f"a sum of {probabilities.sum()}")
    start = jax.eval_shape(environment.reset, jax.random.key(0))
    if jax.tree.structure(start) != jax.tree.structure(states):
        wanted = f"have the tree that reset returns, {jax.tree.structure(start)}"
        _fail(environment, "initial_states", wanted, jax.tree.structure(states))
    for (path, one), several in zip(jax.tree.leaves_with_path(start), jax.tree.leaves(states), strict=True):
        stacked = jax.ShapeDtypeStruct((len(probabilities), *one.shape), one.dtype)
        _check_array(environment, f"initial_states{jax.tree_util.keystr(path)}", several, stacked)


class _FirstStep(NamedTuple):
    """Results of the three pure methods for one key, by method name."""

    reset: PyTree
    step: Outcome
    observe: Observations


def _run_first_step(
    environment: Environment, key: Key[Array, "..."], how: str, transform: Callable[..., Any]
) -> _FirstStep:
    """Reset, step and observe, each method transformed separately; `how` describes the transform in errors."""
    state = _run(environment, "reset", how, transform(environment.reset), key)
    act = transform(lambda key, state: _random_legal_actions(environment, key, state))
    actions = _run(environment, "legal_actions", how, act, key, state)
    outcome = _run(environment, "step", how, transform(environment.step), key, state, actions)
    return _FirstStep(state, outcome, _run(environment, "observe", how, transform(environment.observe), outcome.state))


def _check_steps(environment: Environment) -> None:
    """Check that two calls without `jit` and one with it agree, and that the states render."""
    key = jax.random.key(1)
    plain, again = (_run_first_step(environment, key, "without jit", lambda method: method) for _ in range(2))
    jitted = _run_first_step(environment, key, "under jit", jax.jit)
    _check_finite(environment, "step reward", np.asarray(plain.step.reward))
    _check_finite(environment, "observe", np.asarray(plain.observe))
    for field, one, other in zip(_FirstStep._fields, plain, again, strict=True):
        _check_equal(environment, field, "depend on nothing but its arguments", one, other)
    for field, one, other in zip(_FirstStep._fields, plain, jitted, strict=True):
        _check_equal(environment, field, "give the same with and without jit", one, other)
    for state in (plain.reset, plain.step.state):
        _check_render(environment, state)


def _check_render(environment: Environment, state: PyTree) -> None:
    """Check the text of a state, for everybody and for each seat."""
    views: list[tuple] = [()]
    if takes_seat(type(environment).render):
        views += [(seat,) for seat in range(environment.num_seats)]
    for view in views:
        try:
            text = environment.render(state, *view)
        except Exception as error:
            _fail(environment, "render", "return a str", describe_exception(error))
        if not isinstance(text, str):
            _fail(environment, "render", "return a str", type(text).__name__)


def _check_equal(environment: Environment, field: str, wanted: str, one: PyTree, other: PyTree) -> None:
    one, other = jax.tree.map(_to_numpy, (one, other))
    for (path, left), right in zip(jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True):
        if not np.allclose(left, right, rtol=1e-5, atol=1e-6, equal_nan=True):
            where = f" in {jax.tree_util.keystr(path)}" if path else ""
            _fail(environment, field, wanted, f"{left.tolist()} and {right.tolist()}{where}")


def _to_numpy(leaf: Any) -> np.ndarray:
    """Convert a leaf of a state, which may be a random key, to NumPy."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _random_actions(environment: Environment, key: PRNGKey) -> Actions:
    return jax.random.randint(key, (environment.num_seats,), 0, jnp.array(environment.num_actions))


def _random_legal_actions(environment: Environment, key: PRNGKey, state: PyTree) -> Actions:
    """One legal action for each seat."""
    mask = action_mask(environment, state)
    if mask is None:
        return _random_actions(environment, key)
    return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)).astype(jnp.int32)


class _PlayedStep(NamedTuple):
    """Results of one step of random play."""

    observations: Observations
    reward: Scalar | Float[Array, "seats"]
    terminated: Flag
    truncated: Flag
    shaping: Scalar | None
    conventions: Int[Array, "seats"]
    legal: Bool[Array, "seats a"] | None


def _play_random_steps(
    environment: Environment, state: PyTree, keys: Key[Array, "steps"]
) -> tuple[PyTree, _PlayedStep]:
    """Play one random step per key, with a reset after each episode."""

    def step(state, key):
        actions_key, step_key, reset_key = jax.random.split(key, 3)
        legal = environment.legal_actions(state)
        outcome = environment.step(step_key, state, _random_legal_actions(environment, actions_key, state))
        conventions = jnp.stack([environment.convention(outcome.state, seat) for seat in range(environment.num_seats)])
        observations = environment.observe(outcome.state)
        played = _PlayedStep(observations, *outcome[1:], conventions, legal)
        return autoreset(outcome, environment.reset(reset_key)), played

    return jax.lax.scan(step, state, keys)


def _check_episodes(environment: Environment) -> None:
    """Check random episodes under `vmap`: finite numbers, not both terminated and truncated, ended by the horizon."""
    keys = jax.random.split(jax.random.key(2), NUM_ENVIRONMENTS)
    steps = min(environment.horizon, MAX_STEPS)
    reset_keys, play_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    step_keys = _vectorise(lambda key: jax.random.split(key, steps))(play_keys)
    play = _vectorise(lambda state, keys: _play_random_steps(environment, state, keys))
    state, ended = None, np.zeros(NUM_ENVIRONMENTS, bool)
    for start in range(0, steps, STEPS_PER_CHUNK):
        try:
            state = _vectorise(environment.reset)(reset_keys) if state is None else state
            state, played = play(state, step_keys[:, start : start + STEPS_PER_CHUNK])
            played = jax.tree.map(np.asarray, played)
        except Exception as error:  # third-party code may raise anything
            _fail_vectorised(environment, keys, error)
        ended |= _check_played_steps(environment, played)
    if not ended.all() and steps == environment.horizon:
        _fail(
            environment, "horizon", "end every episode by its last step", f"{environment.horizon} steps without an end"
        )


def _check_played_steps(environment: Environment, played: Any) -> np.ndarray:
    """Check played steps, axes [environments, steps]; returns which environments have ended an episode."""
    _check_finite(environment, "observe", played.observations)
    _check_padding(environment, played.observations)
    _check_finite(environment, "step reward", played.reward)
    if played.shaping is not None:
        _check_finite(environment, "step shaping", played.shaping)
    _check_legal(environment, played.legal)
    if (played.terminated & played.truncated).any():
        _fail(environment, "step truncated", "be False where terminated is True", "both True")
    ended = played.terminated | played.truncated
    _check_convention_indices(environment, played.conventions[ended])
    return ended.any(axis=1)


def _check_padding(environment: Environment, observations: np.ndarray) -> None:
    """Check that observations of seats which see less end in zeros."""
    for seat, shape in enumerate(environment.observation_shapes):
        if observations[..., seat, math.prod(shape) :].any():
            wanted = f"be zero beyond the {math.prod(shape)} numbers of seat {seat}"
            _fail(environment, "observe", wanted, "other numbers")


def _check_legal(environment: Environment, legal: np.ndarray | None) -> None:
    """Check that no seat may choose an action which it does not have, and that somebody may always act."""
    if legal is None:
        return
    for seat, number in enumerate(environment.num_actions):
        if legal[..., seat, number:].any():
            wanted = f"be False beyond the {number} actions of seat {seat}"
            _fail(environment, "legal_actions", wanted, "True")
    if not legal.any(axis=(-2, -1)).all():
        _fail(environment, "legal_actions", "allow an action to at least one seat", "none in a state of random play")


def _vectorise(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(function))


def _fail_vectorised(environment: Environment, keys: Key[Array, "n"], error: Exception) -> NoReturn:
    """Raise an error that names the method that fails under `vmap`; `step` if each runs by itself."""
    how = "under vmap and jit"
    state = _run_first_step(environment, keys, how, _vectorise).step.state
    for seat in range(environment.num_seats):
        convention = _vectorise(lambda state, seat=seat: environment.convention(state, seat))
        _run(environment, "convention", how, convention, state)
    _fail(environment, "step", f"run {how}", _raised(error))


def _check_finite(environment: Environment, field: str, numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        _fail(environment, field, "be finite", numbers[~np.isfinite(numbers)][0])


def _check_convention_indices(environment: Environment, followed: np.ndarray) -> None:
    """Check conventions of ended episodes: each is an index, or the number of conventions for none."""
    none = len(environment.conventions)
    wrong = followed[(followed < 0) | (followed > none)]
    if wrong.size:
        _fail(environment, "convention", f"lie in 0..{none} when an episode has ended", wrong[0])
