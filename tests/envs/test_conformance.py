"""Built-in environments keep the contract, and each way of breaking it is named."""

import inspect
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.base import Environment
from coverset.envs.conformance import check_environment
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.overcooked import Overcooked
from coverset.envs.reaching import WEIGHTED, Reaching
from coverset.envs.signalling import Signalling
from coverset.types import Outcome

BUILT_IN = {
    "matrix": MatrixGame(),
    "matrix, rectangular": MatrixGame(payoffs=((1.0, 2.0, 0.0), (0.0, 1.0, 3.0)), horizon=4),
    "reaching": Reaching(),
    "weighted-reaching, both seen": Reaching(payoffs=WEIGHTED, ends_apart=True, sees_teammate=True),
    "reaching, coordinates": Reaching(encoding="coordinates", size=4, horizon=7, sees_teammate=True),
    "signalling": Signalling(),
    "signalling, two symbols": Signalling(symbols=2, horizon=3),
    "foraging": Foraging(),
    "foraging, coordinates, both seen": Foraging(sees_teammate=True, encoding="coordinates", horizon=20),
    "foraging, random, both seen": Foraging(objects="random", sees_teammate=True, horizon=20),
    "foraging, random, coordinates": Foraging(objects="random", encoding="coordinates", size=5, num_objects=4),
    "overcooked": Overcooked(horizon=30),
    "overcooked, random, image": Overcooked(
        "coord_ring", starts="random", random_objects=True, encoding="image", horizon=30
    ),
}


@pytest.mark.parametrize("environment", BUILT_IN.values(), ids=BUILT_IN)
def test_built_in_environments_conform(environment: Environment) -> None:
    check_environment(environment)


class CountState(NamedTuple):
    time: jax.Array


@dataclass(frozen=True)
class Counting(Environment):
    """The smallest environment there is: the reward says whether the actions agree, for four steps."""

    horizon: int = 4

    @property
    def observation_size(self):
        return 1

    @property
    def num_actions(self):
        return 2, 2

    def reset(self, key):
        del key
        return CountState(jnp.int32(0))

    def step(self, key, state, actions):
        del key
        time = state.time + 1
        reward = (actions[0] == actions[1]).astype(jnp.float32)
        return Outcome(CountState(time), reward, jnp.array(False), time >= self.horizon)

    def observe(self, state):
        return jnp.full((2, 1), state.time, jnp.float32)

    def render(self, state):
        return f"time {int(state.time)}"


def broken(**changes) -> Environment:
    """A `Counting` environment with some of its methods or properties replaced."""
    return type("Broken", (Counting,), changes)()


def stepping(**fields):
    """A `step` whose outcome has some fields replaced by functions of the honest outcome."""

    def step(self, key, state, actions):
        outcome = Counting.step(self, key, state, actions)
        return outcome._replace(**{name: change(outcome) for name, change in fields.items()})

    return step


class Counter:
    """State outside the state: the same call never gives the same twice."""

    calls = 0

    def reset(self, key):
        del self, key
        Counter.calls += 1
        return CountState(jnp.int32(Counter.calls % 1000))


def branching(self, key, state, actions):
    return Counting.step(self, key, state, actions) if state.time < 3 else None


def different_under_jit(self, state):
    return jnp.full((2, 1), float(isinstance(state.time, jax.core.Tracer))) + 0 * Counting.observe(self, state)


def only_traced(self, state):
    if not isinstance(state.time, jax.core.Tracer):
        raise ValueError("not traced")
    return Counting.observe(self, state)


def calling_back(vmap_method, fails_at=1):
    """A `step` whose reward comes from the host, which fails at a time of the episode."""

    def reward_of(reward, time):
        if np.any(np.asarray(time) == fails_at):
            raise RuntimeError("host failed")
        return np.asarray(reward)

    scalar = jax.ShapeDtypeStruct((), jnp.float32)

    def reward(outcome):
        return jax.pure_callback(reward_of, scalar, outcome.reward, outcome.state.time, vmap_method=vmap_method)

    return stepping(reward=reward)


def starting(times, chances) -> dict:
    """An `initial_states` of these times and probabilities."""
    return {"initial_states": lambda _: (CountState(times), chances)}


BREAKS = {
    "hash": ({"__hash__": None}, r"Broken\.__hash__ must return a hash"),
    "observation_size 0": ({"observation_size": 0}, r"observation_size must be an int of at least 1, got 0"),
    "observation_size float": ({"observation_size": 1.0}, r"observation_size must be an int .* got 1\.0"),
    "num_actions": (
        {"num_actions": (2,)},
        r"num_actions must be a tuple of two or more ints of at least 1, got \(2,\)",
    ),
    "no action": (
        {"num_actions": (2, 0)},
        r"num_actions must be a tuple of two or more ints of at least 1, got \(2, 0\)",
    ),
    "seats": ({"num_actions": (2, 3), "seats_alike": True}, "seats_alike must be False if"),
    "version": ({"version": 0}, "version must be an int of at least 1, got 0"),
    "conventions": ({"conventions": ["a"]}, r"conventions must be a tuple of strings, got \['a'\]"),
    "convention twice": ({"conventions": ("a", "a")}, "conventions must be distinct names"),
    "payoffs of another size": (
        {"conventions": ("a", "b"), "convention_payoffs": ((1.0,),)},
        "convention_payoffs must have a row or column for each of the 2 conventions, got 1 rows and 1 columns",
    ),
    "a property that fails": ({"num_actions": property(lambda self: self.grid)}, "num_actions must have a value"),
    "payoffs ragged": (
        {"conventions": ("a", "b"), "convention_payoffs": ((1.0, 0.0), (1.0,))},
        "convention_payoffs must be a rectangular tuple of tuples",
    ),
    "payoffs infinite": (
        {"conventions": ("a",), "convention_payoffs": ((float("inf"),),)},
        "convention_payoffs must hold finite numbers, got inf",
    ),
    "payoffs flat": (
        {"conventions": ("a", "b"), "convention_payoffs": (1.0, 0.0)},
        r"convention_payoffs must be a rectangular tuple of tuples, got \(1\.0, 0\.0\)",
    ),
    "payoffs of text": (
        {"conventions": ("a",), "convention_payoffs": (("1",),)},
        "convention_payoffs must hold finite numbers, got '1'",
    ),
    "conventions that nothing tells apart": (
        {"conventions": ("a", "b")},
        "convention must return which of a, b was followed, got no such method",
    ),
    "parameters that are no fields": (
        {"__init__": lambda self, scale=1.0, **fields: Counting.__init__(self, **fields)},
        r"__init__ must take the fields of the dataclass \(horizon\), got scale, fields",
    ),
    "starts without probabilities": (
        {"initial_states": lambda _: CountState(jnp.zeros(2, jnp.int32))},
        "initial_states must be None, or a tuple of states and probabilities",
    ),
    "starts that fail": ({"initial_states": lambda _: {}["all"]}, "initial_states must have a value, got KeyError"),
    "starts' probabilities": (
        starting(jnp.zeros(2, jnp.int32), [0.5, 0.4]),
        r"initial_states must give probabilities of at least 0 that sum to 1, got a sum of 0\.9",
    ),
    "starts below 0": (starting(jnp.zeros(2, jnp.int32), [1.5, -0.5]), "probabilities of at least 0 that sum to 1"),
    "starts' table": (starting(jnp.zeros(1, jnp.int32), [[1.0]]), r"a vector of probabilities, got float64\[1, 1\]"),
    "starts not stacked": (
        starting(jnp.int32(0), [1.0]),
        r"initial_states\.time must be int32\[1\], got int32\[\]",
    ),
    "starts of another number": (
        starting(jnp.zeros(3, jnp.int32), [0.5, 0.5]),
        r"initial_states\.time must be int32\[2\], got int32\[3\]",
    ),
    "starts' dtype": (starting(jnp.zeros(1), [1.0]), r"initial_states\.time must be int32\[1\], got float32\[1\]"),
    "starts' tree": (
        {"initial_states": lambda _: ((jnp.zeros(1, jnp.int32), jnp.zeros(1)), [1.0])},
        "initial_states must have the tree that reset returns",
    ),
    "empty state": ({"reset": lambda *_: ()}, r"reset must return a tree of arrays, got \(\)"),
    "not under jit": ({"step": branching}, "step must run under jit, got TracerBoolConversionError"),
    "not an outcome": ({"step": lambda *_: (1, 2)}, "step must return an Outcome, got tuple"),
    "state's tree": (
        {"step": stepping(state=lambda outcome: (outcome.state, 1))},
        "step state must have the tree that reset returns",
    ),
    "state's dtype": (
        {"step": stepping(state=lambda outcome: CountState(outcome.state.time.astype(jnp.float32)))},
        r"step state\.time must be int32\[\], got float32\[\]",
    ),
    "state's shape": (
        {"step": stepping(state=lambda outcome: CountState(outcome.state.time[None]))},
        r"step state\.time must be int32\[\], got int32\[1\]",
    ),
    "observation's shape": (
        {"observe": lambda *_: jnp.zeros((1, 2))},
        r"observe must be float32\[2, 1\], got float32\[1, 2\]",
    ),
    "observation's dtype": (
        {"observe": lambda *_: jnp.zeros((2, 1), jnp.int32)},
        r"observe must be float32\[2, 1\], got int32\[2, 1\]",
    ),
    "observation infinite": ({"observe": lambda *_: jnp.full((2, 1), jnp.inf)}, "observe must be finite, got inf"),
    "reward's dtype": (
        {"step": stepping(reward=lambda _: jnp.int32(1))},
        r"step reward must be a float scalar, or one float for each of the 2 seats, got int32\[\]",
    ),
    "reward's shape": (
        {"step": stepping(reward=lambda _: jnp.ones(3))},
        r"step reward must be a float scalar, or one float for each of the 2 seats, got float32\[3\]",
    ),
    "reward not a number": (
        {"step": stepping(reward=lambda _: jnp.float32(jnp.nan))},
        "reward must be finite, got nan",
    ),
    "reward not a number by hand": (
        {"step": stepping(reward=lambda outcome: outcome.reward * jnp.nan)},
        "step reward must be finite, got nan",
    ),
    "shaping's shape": (
        {"step": stepping(shaping=lambda _: jnp.ones(2))},
        r"step shaping must be float32\[\], got float32\[2\]",
    ),
    "shaping not a number": (
        {"step": stepping(shaping=lambda _: jnp.float32(jnp.nan))},
        "step shaping must be finite, got nan",
    ),
    "terminated's dtype": (
        {"step": stepping(terminated=lambda _: jnp.float32(0))},
        r"step terminated must be bool\[\], got float32\[\]",
    ),
    "truncated's shape": (
        {"step": stepping(truncated=lambda outcome: outcome.truncated[None])},
        r"step truncated must be bool\[\], got bool\[1\]",
    ),
    "both ends": (
        {"step": stepping(terminated=lambda outcome: outcome.truncated)},
        "step truncated must be False where terminated is True",
    ),
    "no end": (
        {"step": stepping(truncated=lambda _: jnp.array(False))},
        "horizon must end every episode by its last step, got 4 steps without an end",
    ),
    "not of the key": ({"reset": Counter.reset}, "reset must depend on nothing but its arguments"),
    "jit differs": ({"observe": different_under_jit}, "observe must give the same with and without jit"),
    "convention's dtype": ({"convention": lambda *_: jnp.float32(0)}, "convention must be an integer scalar"),
    "convention's range": ({"convention": lambda *_: jnp.int32(1)}, r"convention must lie in 0\.\.0 .* got 1"),
    "not without jit": ({"observe": only_traced}, "observe must run without jit, got ValueError: not traced"),
    "a callback that fails": (
        {"step": calling_back("sequential")},
        "step must run without jit, got RuntimeError: host failed",
    ),
    "render": ({"render": lambda *_: 3}, "render must return a str, got int"),
    "render fails": ({"render": lambda *_: {}["grid"]}, "render must return a str, got KeyError: 'grid'"),
}


@pytest.mark.parametrize(("changes", "message"), BREAKS.values(), ids=BREAKS)
def test_each_break_is_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as failure:
        check_environment(broken(**changes))
    assert str(failure.value).startswith("Broken.")
    assert "\n" not in str(failure.value)


def test_a_quick_check_leaves_out_what_needs_steps_by_hand() -> None:
    faulty = broken(render=lambda *_: 3)
    check_environment(faulty, quick=True)
    with pytest.raises(ValueError, match="observe must be finite"):
        check_environment(broken(observe=lambda *_: jnp.full((2, 1), jnp.inf)), quick=True)


class KeyedState(NamedTuple):
    time: jax.Array
    key: jax.Array


class Keyed(Counting):
    """Its state carries a random key."""

    def reset(self, key):
        return KeyedState(jnp.int32(0), key)

    def step(self, key, state, actions):
        outcome = Counting.step(self, key, CountState(state.time), actions)
        return outcome._replace(state=KeyedState(outcome.state.time, jax.random.split(state.key)[0]))


def convention_without_vmap(self, state, seat):
    del self, seat
    return jax.pure_callback(
        lambda key: np.int32(0), jax.ShapeDtypeStruct((), jnp.int32), jax.random.key_data(state.key)
    )


SIDE_BY_SIDE = {
    "step": (
        {"step": calling_back(None, fails_at=9)},
        "step must run under vmap and jit, got NotImplementedError: vmap",
    ),
    "step at the start": (
        {"step": calling_back("sequential")},
        "step must run under vmap and jit, got RuntimeError: host failed",
    ),
    "step later": (
        {"step": calling_back("sequential", fails_at=3)},
        "step must run under vmap and jit, got RuntimeError: host failed",
    ),
    "convention": (
        {"reset": Keyed.reset, "step": Keyed.step, "convention": convention_without_vmap},
        "convention must run under vmap and jit, got NotImplementedError: vmap",
    ),
}


@pytest.mark.parametrize(("changes", "message"), SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_what_does_not_run_side_by_side_is_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^Broken\.{message}") as failure:
        check_environment(broken(**changes), quick=True)
    assert "\n" not in str(failure.value)


def test_a_state_may_carry_a_random_key() -> None:
    check_environment(Keyed())


class Plain(Environment):
    """A whole environment, but no dataclass: nothing tells its parameters."""

    horizon, observation_size, num_actions = 4, 1, (2, 2)
    reset, step, observe, render = Counting.reset, Counting.step, Counting.observe, Counting.render


def test_a_class_that_is_no_dataclass_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Plain must be a frozen dataclass, with its parameters as fields, got a cl"):
        check_environment(Plain())


def test_a_class_and_other_things_are_refused() -> None:
    unchecked = inspect.unwrap(check_environment)  # as people have it: types are checked only while tests run
    with pytest.raises(
        ValueError, match=r"must be an instance of a class, such as Counting\(\), got the class Counting"
    ):
        unchecked(Counting)
    with pytest.raises(ValueError, match="environment must be a coverset Environment, got str"):
        unchecked("matrix")


def test_starts_that_are_right_pass() -> None:
    check_environment(broken(**starting(jnp.zeros(2, jnp.int32), [0.25, 0.75])), quick=True)


def test_horizon_is_checked_and_the_unbroken_passes() -> None:
    check_environment(Counting())
    check_environment(broken(conventions=("agree", "differ"), convention=lambda *_: jnp.int32(2)))
    with pytest.raises(ValueError, match=r"horizon must be an int of at least 1, got 0"):
        check_environment(Counting(horizon=0))
