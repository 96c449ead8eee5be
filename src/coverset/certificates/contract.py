"""What an exact solution of a game rests on, established before the game is enumerated.

- `step`, `observe` and `convention` follow from the state and the actions: their traced program has no path from the
  random key to any result and calls nothing outside itself.
- `reset` draws what `initial_states` lists: every one of many draws is listed, and as frequent as it should be.
- Which parts of the state are a clock: they do nothing but end the episode at the horizon, so that a recursion over
  the steps that are left may do without them. A game without such parts is enumerated with its time in the state.

The first and the last are proved from the program, whatever the state is made of and its parts are called. The second
is a test, since it concerns a distribution: `SIGNIFICANCE` is how often it refuses a correct game.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Var, jaxpr_as_fun
from jaxtyping import Array, Float, Int
from scipy.special import bdtr, bdtrc, chdtrc

from coverset.certificates.program import every_source, find_sources, opaque_primitives, same_program, simplify
from coverset.checks import describe_exception
from coverset.envs.base import Environment
from coverset.types import Flag, Observations, PyTree, Scalar

DRAWS = 20_000
"""Resets drawn at least; 20 for each listed state where that is more."""
SIGNIFICANCE = 1e-6
"""Probability of refusing a reset that is correct, for each of two tests."""
FEWEST_EXPECTED = 10
"""States expected less often than this are counted together in the chi-squared test, so that its tail is right."""


class Moment(NamedTuple):
    """All that an environment says about a state and a joint action."""

    state: PyTree
    """To which the step leads."""
    reward: Scalar
    ended: Flag
    observations: Observations
    conventions: Int[Array, "2"]


class Program(NamedTuple):
    """The traced moment: arguments are the key, the leaves of the state, and the actions, in this order."""

    traced: ClosedJaxpr
    leaves: int
    """Leaves of the state; they are the first of the results too."""


class Clock(NamedTuple):
    """Leaves of a state that do nothing but end the episode at the horizon."""

    leaves: tuple[int, ...]
    """Numbers among all leaves."""
    first: list[np.ndarray]
    """Their values before the first step."""
    last: list[np.ndarray]
    """Their values before the last step that the horizon allows."""

    def wind(self, states: PyTree, values: list[np.ndarray]) -> PyTree:
        """Stacked states with other values on the clock."""
        leaves, tree = jax.tree.flatten(states)
        for number, value in zip(self.leaves, values, strict=True):
            leaves[number] = np.broadcast_to(value, np.shape(leaves[number]))
        return jax.tree.unflatten(tree, leaves)


def read_program(environment: Environment) -> Program:
    """Trace an environment, and raise ValueError unless a step follows from the state and the actions alone."""
    name = type(environment).__name__
    start = jax.eval_shape(environment.reset, jax.random.key(0))
    for path, leaf in jax.tree.leaves_with_path(start):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise ValueError(
                f"{name} cannot be enumerated: its state{jax.tree_util.keystr(path)} is a random key, and "
                "initial_states cannot list all keys; draw in reset what is drawn from it, and keep that in the state."
            )
    traced, again = _trace(environment, start), _trace(environment, start)
    opaque = opaque_primitives(traced.jaxpr)
    if opaque:
        raise ValueError(
            f"{name} cannot be enumerated: its methods call {', '.join(opaque)}, whose results JAX does not determine; "
            "compute them with jax.numpy."
        )
    if not same_program(traced, again):
        raise ValueError(
            f"{name} cannot be enumerated: tracing it twice gives two programs; let its methods use no numbers but "
            "their arguments and the environment's fields."
        )
    drawn = _results_from_key(traced, start)
    if drawn:
        raise ValueError(
            f"{name} cannot be enumerated: its step must be deterministic, but {', '.join(drawn)} may depend on the "
            "random key; draw in reset, keep what was drawn in the state, and list it in initial_states."
        )
    return Program(traced, len(jax.tree.leaves(start)))


def _trace(environment: Environment, start: PyTree) -> ClosedJaxpr:
    def moment(key: Any, state: PyTree, actions: Any) -> Moment:
        outcome = environment.step(key, state, actions)
        if jax.tree.structure(outcome.state) != jax.tree.structure(state):
            raise ValueError("a state of step that is built unlike that of reset")
        return Moment(
            state=outcome.state,
            reward=outcome.reward,
            ended=outcome.terminated | outcome.truncated,
            observations=environment.observe(state),
            conventions=jnp.stack([environment.convention(state, seat) for seat in (0, 1)]),
        )

    try:
        return simplify(moment, jax.random.key(0), start, jax.ShapeDtypeStruct((2,), jnp.int32))
    except Exception as error:  # whatever an outside environment may raise
        name = type(environment).__name__
        raise ValueError(
            f"{name} cannot be enumerated: its methods must run under jit, got {describe_exception(error)}."
        ) from error


def _results_from_key(traced: ClosedJaxpr, start: PyTree) -> list[str]:
    """Names of the results of a step that may depend on its key."""
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(start)]
    names = [*(f"state{path}" for path in paths), "reward", "the end of the episode"]
    sources = find_sources(traced.jaxpr, _own_numbers(traced))
    return [name for name, found in zip(names, sources, strict=False) if 0 in found]


def _own_numbers(traced: ClosedJaxpr) -> list[frozenset[int]]:
    return [frozenset([number]) for number in range(len(traced.jaxpr.invars))]


def find_clock(program: Program, starts: PyTree, horizon: int) -> Clock | None:
    """The leaves that only end episodes, and not before the last step; None where there are none.

    Whether the last step ends every episode is left to the caller, who knows the states.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(starts)]
    alike = {number for number, leaf in enumerate(leaves) if (_rows(leaf) == _rows(leaf[:1])).all()}
    numbers = _ending_only(program, alike)
    run = _clockwork(program, numbers) if numbers else None
    if run is None:
        return None
    first = [np.asarray(leaves[number][0]) for number in numbers]

    def tick(values, _):
        after, seen = run(values)
        return after, (values, seen)

    _, (values, seen) = jax.lax.scan(tick, [jnp.asarray(value) for value in first], length=horizon)
    if not all((_rows(value)[:-1] == _rows(value)[:1]).all() for value in map(np.asarray, seen)):
        return None
    return Clock(tuple(numbers), first, [np.asarray(value[-1]) for value in values])


def _rows(leaf: np.ndarray) -> np.ndarray:
    """The bytes of each entry along the first axis."""
    return np.ascontiguousarray(leaf).reshape(len(leaf), -1).view(np.uint8)


def _ending_only(program: Program, candidates: set[int]) -> list[int]:
    """The most leaves that depend on each other alone, and on which nothing else depends but the end of the episode."""
    sources = [{number - 1 for number in found} for found in _sources(program)]
    after, (reward, _, observations, conventions) = sources[: program.leaves], sources[program.leaves :]
    clock, before = set(candidates), None
    while clock != before:
        before = set(clock)
        clock = {leaf for leaf in clock if after[leaf] <= clock}
        elsewhere = [found for leaf, found in enumerate(after) if leaf not in clock]
        clock -= set().union(reward, observations, conventions, *elsewhere)
    return sorted(clock)


def _sources(program: Program) -> list[frozenset[int]]:
    return find_sources(program.traced.jaxpr, _own_numbers(program.traced))


def _clockwork(program: Program, numbers: list[int]) -> Any | None:
    """A function from the clock to its next values, and to all that the end of the episode reads off it.

    What it reads are those values computed from the clock alone that meet others. As long as they stay the same, so
    does the end of the episode as a function of everything else. None where the clock cannot be run by itself.
    """
    jaxpr = program.traced.jaxpr
    inputs = [jaxpr.invars[1 + number] for number in numbers]
    ended = jaxpr.outvars[program.leaves + 1]
    computed, alone, mixed = {*inputs, *jaxpr.constvars}, [], []
    for equation in jaxpr.eqns:
        if computed.issuperset(_read(equation)):
            computed.update(equation.outvars)
            alone.append(equation)
        else:
            mixed.append(equation)
    after = [jaxpr.outvars[number] for number in numbers]
    if not computed.issuperset(atom for atom in after if isinstance(atom, Var)):
        return None
    timed = {variable for variable, found in every_source(jaxpr, _own_numbers(program.traced)).items() if found}
    seen = list(dict.fromkeys(v for v in _read_for(ended, mixed) if v in computed and v in timed))
    clockwork = ClosedJaxpr(
        jaxpr.replace(invars=inputs, outvars=[*after, *seen], eqns=alone, effects=frozenset()), program.traced.consts
    )

    def run(values):
        results = jaxpr_as_fun(clockwork)(*values)
        return results[: len(after)], results[len(after) :]

    return run


def _read(equation: JaxprEqn) -> list[Var]:
    return [atom for atom in equation.invars if isinstance(atom, Var)]


def _read_for(result: Any, equations: list[JaxprEqn]) -> list[Var]:
    """All variables on the way to a result through some equations, the result included."""
    needed = {result} if isinstance(result, Var) else set()
    for equation in reversed(equations):
        if needed.intersection(equation.outvars):
            needed.update(_read(equation))
    return sorted(needed, key=id)


def check_resets(environment: Environment, states: PyTree, probabilities: Float[np.ndarray, "n"]) -> None:
    """Raise ValueError unless `reset` draws the listed states as often as their probabilities say."""
    name = type(environment).__name__
    count = max(DRAWS, 20 * len(probabilities))
    keys = jax.random.split(jax.random.key(0), count)
    drawn = jax.tree.map(np.asarray, jax.jit(jax.vmap(environment.reset))(keys))
    both = np.concatenate([state_bytes(states), state_bytes(drawn)])
    numbers = np.unique(both, return_inverse=True)[1].reshape(-1)
    chances = np.bincount(numbers[: len(probabilities)], weights=probabilities, minlength=numbers.max() + 1)
    drawn_counts = np.bincount(numbers[len(probabilities) :], minlength=len(chances))
    unlisted = int(drawn_counts[chances == 0].sum())
    if unlisted:
        raise ValueError(
            f"{name} cannot be enumerated: {unlisted:,} of {count:,} draws of reset are states that initial_states "
            "does not list; list every state that reset may draw."
        )
    worst = _least_likely(drawn_counts, chances, count)
    if worst is not None:
        raise ValueError(
            f"{name} cannot be enumerated: of {count:,} draws of reset {drawn_counts[worst]:,} are a state whose "
            f"probability in initial_states, {chances[worst]:.4g}, stands for {count * chances[worst]:,.0f}; list the "
            "probabilities with which reset draws."
        )


def _least_likely(counts: Int[np.ndarray, "n"], chances: Float[np.ndarray, "n"], draws: int) -> int | None:
    """The state that was drawn too often or too seldom, if the draws do not fit the probabilities; else None.

    Two tests: the number of each state by itself, binomial, and all together, chi-squared.
    """
    tails = np.minimum(bdtr(counts, draws, chances), bdtrc(counts - 1, draws, chances))
    expected = draws * chances
    rare = expected < FEWEST_EXPECTED
    observed = np.append(counts[~rare], counts[rare].sum() if rare.any() else [])
    wanted = np.append(expected[~rare], expected[rare].sum() if rare.any() else [])
    together = chdtrc(max(len(wanted) - 1, 1), np.sum((observed - wanted) ** 2 / wanted))
    fits = 2 * tails.min() * len(counts) >= SIGNIFICANCE and together >= SIGNIFICANCE
    return None if fits else int(tails.argmin())


def state_bytes(states: PyTree) -> np.ndarray:
    """One opaque value for each of some stacked states."""
    rows = np.ascontiguousarray(np.concatenate([_rows(np.asarray(x)) for x in jax.tree.leaves(states)], axis=1))
    return rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
