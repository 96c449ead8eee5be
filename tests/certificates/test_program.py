"""Dependencies read off programs: by hand for every rule, and against perturbation for random programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.certificates.program import are_same_program, find_opaque_primitives, find_sources, simplify

INPUTS = 3


def depends(function, *arguments) -> list[set[int]]:
    traced = simplify(function, *arguments)
    numbers = [frozenset([number]) for number in range(len(traced.jaxpr.invars))]
    return [set(found) for found in find_sources(traced.jaxpr, numbers)]


@jax.custom_jvp
def squared(x):
    return x * x


squared.defjvp(lambda primals, tangents: (squared(*primals), tangents[0]))


def rotating(x, y, z):
    """In three rounds every place has seen every other."""
    return jax.lax.fori_loop(0, 3, lambda _, at: (at[1], at[2], at[0]), (x, y, z))


def running(x, y, z):
    def body(carry, row):
        return (carry[0] + row, carry[1]), carry[1] * 2

    return jax.lax.scan(body, (x, y), jnp.stack([z, z]))


CASES = {
    "unused": (lambda x, y, z: (x + y, jnp.float32(1.0)), [{0, 1}, set()]),
    "calls": (lambda x, y, z: (jax.jit(lambda a, b: (b, a))(x, y), squared(z)), [{1}, {0}, {2}]),
    "checkpoint": (lambda x, y, z: jax.checkpoint(lambda a, b: (jnp.sin(a), b))(x, y), [{0}, {1}]),
    "where": (lambda x, y, z: jnp.where(x > 0, y, z), [{0, 1, 2}]),
    "constant where": (lambda x, y, z: jnp.where(jnp.arange(3)[1] > 0, y, z), [{1}]),
    "cond": (lambda x, y, z: jax.lax.cond(x > 0, lambda: (y + 1, z), lambda: (y - 1, y + 2)), [{0, 1}, {0, 1, 2}]),
    "constant cond": (lambda x, y, z: jax.lax.cond(False, lambda: y, lambda: z), [{2}]),
    "constant switch": (lambda x, y, z: jax.lax.switch(7, [lambda: x, lambda: y, lambda: z]), [{2}]),
    "scan": (running, [{0, 2}, {1}, {1}]),
    "loop": (rotating, [{0, 1, 2}] * 3),
    "while": (
        lambda x, y, z: jax.lax.while_loop(lambda at: at[0] < x, lambda at: (at[0] + 1, at[1] / 2), (y, z)),
        [{0, 1}, {0, 1, 2}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rules(name) -> None:
    function, expected = CASES[name]
    assert depends(function, *[jnp.float32(1.0)] * INPUTS) == expected


def test_keys_are_followed_through_draws() -> None:
    def draw(key, x):
        first, second = jax.random.split(key)
        return jax.random.uniform(first) + x, jax.random.key_data(second), jnp.sum(jnp.ones(3)) * x

    assert depends(draw, jax.random.key(0), jnp.float32(0.0)) == [{0, 1}, {0}, {1}]


def test_what_a_program_does_not_determine_is_found_at_any_depth() -> None:
    def outside(x):
        return jax.pure_callback(lambda value: value, jax.ShapeDtypeStruct((), jnp.float32), x)

    def looped(x):
        return jax.lax.fori_loop(0, 2, lambda _, at: jax.lax.cond(at > 0, outside, lambda y: y, at), x)

    assert find_opaque_primitives(simplify(looped, jnp.float32(1.0)).jaxpr) == ["pure_callback"]
    assert find_opaque_primitives(simplify(lambda: jax.lax.rng_uniform(0.0, 1.0, ())).jaxpr) == ["rng_uniform"]

    def printing(x):
        jax.debug.print("{}", x)
        return x

    assert find_opaque_primitives(simplify(printing, jnp.float32(1.0)).jaxpr) == []


def test_programs_are_compared_with_their_constants() -> None:
    def adding(table):
        return simplify(lambda x: x + jnp.asarray(table), jnp.float32(0.0))

    assert are_same_program(adding([1.0, 2.0]), adding([1.0, 2.0]))
    assert not are_same_program(adding([1.0, 2.0]), adding([1.0, 3.0]))
    assert not are_same_program(adding(1.0), adding(1.0 + 1e-7))


OPERATIONS = (
    lambda a, b, c: a + b,
    lambda a, b, c: jnp.maximum(a, c),
    lambda a, b, c: jnp.where(a > b, b, c),
    lambda a, b, c: jax.jit(lambda x, y: (x * 2.0, y))(a, b)[1],
    lambda a, b, c: jax.lax.cond(c > 0, lambda: a, lambda: b),
    lambda a, b, c: jax.lax.fori_loop(0, 2, lambda _, at: (at[1], at[0] + c), (a, b))[0],
    lambda a, b, c: jax.lax.scan(lambda at, x: (at + x, at), a, jnp.stack([b, c]))[1][1],
    lambda a, b, c: jax.lax.while_loop(lambda at: at[0] < 3.0, lambda at: (at[0] + 1.0, at[1] * 0.5), (a, b))[1],
)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), *[st.integers(0, 9)] * 3), min_size=1, max_size=5))
def test_an_argument_that_changes_a_result_is_among_its_sources(lines) -> None:
    def program(*inputs):
        values = list(inputs)
        for operation, *places in lines:
            values.append(OPERATIONS[operation](*(values[place % len(values)] for place in places)))
        return values[INPUTS:]

    found = depends(program, *[jnp.float32(0.0)] * INPUTS)
    run = jax.jit(jax.vmap(program))
    points = np.random.default_rng(0).normal(size=(INPUTS, 64)).astype(np.float32)
    before = run(*points)
    for changed in range(INPUTS):
        moved = points.copy()
        moved[changed] += np.linspace(-3, 3, 64, dtype=np.float32)
        for sources, old, new in zip(found, before, run(*moved), strict=True):
            assert changed in sources or np.array_equal(old, new)
