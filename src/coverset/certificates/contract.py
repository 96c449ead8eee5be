"""Preconditions of an exact solution, checked before a game is enumerated.

- There are two players, and all actions are always legal.
- `step`, `observe` and `convention` are functions of the state and the actions: their traced program has no path from
  the random key to any result and no calls outside itself.
- `reset` draws the states of `initial_states` with the listed probabilities.
- Leaves of the state that form a step counter do nothing but end the episode at the horizon, so that a recursion over
  the remaining steps can omit them. A game without such leaves is enumerated with time in the state.

The first and the last are proved from the program, independently of the structure of the state. The second is a
statistical test, which rejects a correct game with probability `SIGNIFICANCE`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Var, jaxpr_as_fun
from jaxtyping import Array, Float, Int
from scipy.special import bdtr, bdtrc, chdtrc

from coverset.certificates.program import (
    are_same_program,
    find_all_sources,
    find_opaque_primitives,
    find_sources,
    simplify,
)
from coverset.checks import describe_exception
from coverset.envs.base import Environment
from coverset.envs.seats import is_masked, reward_of
from coverset.types import Flag, Observations, PyTree, Scalar

EGO = 0
"""The seat whose rewards count where seats have rewards of their own."""
DRAWS = 20_000
"""Fewest resets to draw; at least 20 per listed state."""
SIGNIFICANCE = 1e-6
"""Probability of rejecting a correct reset, for each of two tests."""
MIN_EXPECTED = 10
"""States with fewer expected draws are pooled in the chi-squared test, so that its approximation holds."""


class TracedStep(NamedTuple):
    """All results of an environment for a state and a joint action."""

    state: PyTree
    """The next state."""
    reward: Scalar
    """The ego's, in seat 0."""
    ended: Flag
    observations: Observations
    conventions: Int[Array, "2"]


class Program(NamedTuple):
    """The traced step; its arguments are the key, the leaves of the state, and the actions, in this order."""

    traced: ClosedJaxpr
    leaves: int
    """Number of leaves of the state, which are also the first results."""


class StepCounter(NamedTuple):
    """Leaves of a state that do nothing but end the episode at the horizon."""

    leaves: tuple[int, ...]
    """Indices among all leaves."""
    first: list[np.ndarray]
    """Their values before the first step."""
    last: list[np.ndarray]
    """Their values before the last step that the horizon allows."""

    def write(self, states: PyTree, values: list[np.ndarray]) -> PyTree:
        """Return stacked states with the counter set to `values`."""
        leaves, tree = jax.tree.flatten(states)
        for number, value in zip(self.leaves, values, strict=True):
            leaves[number] = np.broadcast_to(value, np.shape(leaves[number]))
        return jax.tree.unflatten(tree, leaves)


def check_solvable(environment: Environment) -> None:
    """Raise ValueError for games of a kind that has no exact solution here."""
    name = type(environment).__name__
    if environment.num_seats > 2:
        raise ValueError(
            f"{name} cannot be solved exactly: certificates exist for two players, and it has {environment.num_seats}; "
            "measure its policies by simulation instead (`coverset crossplay`)."
        )
    if is_masked(environment):
        raise ValueError(
            f"{name} cannot be solved exactly: certificates exist for games whose actions are always legal; measure "
            "its policies by simulation instead (`coverset crossplay`)."
        )


def read_program(environment: Environment) -> Program:
    """Trace an environment; raises ValueError unless a step depends on the state and the actions alone."""
    name = type(environment).__name__
    start = jax.eval_shape(environment.reset, jax.random.key(0))
    for path, leaf in jax.tree.leaves_with_path(start):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise ValueError(
                f"{name} cannot be enumerated: its state{jax.tree_util.keystr(path)} is a random key, and "
                "initial_states cannot list all keys; draw in reset, and keep the results in the state."
            )
    traced, again = _trace(environment, start), _trace(environment, start)
    opaque = find_opaque_primitives(traced.jaxpr)
    if opaque:
        raise ValueError(
            f"{name} cannot be enumerated: its methods call {', '.join(opaque)}, whose results JAX does not determine; "
            "compute them with jax.numpy."
        )
    if not are_same_program(traced, again):
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
    def moment(key: Any, state: PyTree, actions: Any) -> TracedStep:
        outcome = environment.step(key, state, actions)
        if jax.tree.structure(outcome.state) != jax.tree.structure(state):
            raise ValueError("a state of step whose structure differs from that of reset")
        return TracedStep(
            state=outcome.state,
            reward=reward_of(outcome.reward, EGO),
            ended=outcome.terminated | outcome.truncated,
            observations=environment.observe(state),
            conventions=jnp.stack([environment.convention(state, seat) for seat in (0, 1)]),
        )

    try:
        return simplify(moment, jax.random.key(0), start, jax.ShapeDtypeStruct((2,), jnp.int32))
    except Exception as error:  # third-party code may raise anything
        name = type(environment).__name__
        raise ValueError(
            f"{name} cannot be enumerated: its methods must run under jit, got {describe_exception(error)}."
        ) from error


def _results_from_key(traced: ClosedJaxpr, start: PyTree) -> list[str]:
    """Return the names of the results of a step that may depend on its key."""
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(start)]
    names = [*(f"state{path}" for path in paths), "reward", "the end of the episode"]
    sources = find_sources(traced.jaxpr, _identity_sources(traced))
    return [name for name, found in zip(names, sources, strict=False) if 0 in found]


def _identity_sources(traced: ClosedJaxpr) -> list[frozenset[int]]:
    return [frozenset([number]) for number in range(len(traced.jaxpr.invars))]


def find_step_counter(program: Program, starts: PyTree, horizon: int) -> StepCounter | None:
    """Return the leaves that only end episodes, and not before the last step; None if there are none.

    The caller, who knows the states, checks that the last step ends every episode.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(starts)]
    alike = {number for number, leaf in enumerate(leaves) if (_to_byte_rows(leaf) == _to_byte_rows(leaf[:1])).all()}
    numbers = _find_counter_leaves(program, alike)
    run = _isolate_counter(program, numbers) if numbers else None
    if run is None:
        return None
    first = [np.asarray(leaves[number][0]) for number in numbers]

    def tick(values, _):
        after, seen = run(values)
        return after, (values, seen)

    _, (values, seen) = jax.lax.scan(tick, [jnp.asarray(value) for value in first], length=horizon)
    if not all((_to_byte_rows(value)[:-1] == _to_byte_rows(value)[:1]).all() for value in map(np.asarray, seen)):
        return None
    return StepCounter(tuple(numbers), first, [np.asarray(value[-1]) for value in values])


def _to_byte_rows(leaf: np.ndarray) -> np.ndarray:
    """Return the bytes of each entry along the first axis."""
    return np.ascontiguousarray(leaf).reshape(len(leaf), -1).view(np.uint8)


def _find_counter_leaves(program: Program, candidates: set[int]) -> list[int]:
    """Return the largest set of leaves that depend only on each other and affect only the end of the episode."""
    sources = [{number - 1 for number in found} for found in _find_program_sources(program)]
    after, (reward, _, observations, conventions) = sources[: program.leaves], sources[program.leaves :]
    counter, before = set(candidates), None
    while counter != before:
        before = set(counter)
        counter = {leaf for leaf in counter if after[leaf] <= counter}
        elsewhere = [found for leaf, found in enumerate(after) if leaf not in counter]
        counter -= set().union(reward, observations, conventions, *elsewhere)
    return sorted(counter)


def _find_program_sources(program: Program) -> list[frozenset[int]]:
    return find_sources(program.traced.jaxpr, _identity_sources(program.traced))


def _isolate_counter(program: Program, numbers: list[int]) -> Any | None:
    """Return a function from the counter to its next values and to the values that the end of the episode uses.

    These are computed from the counter alone and combined with other values. While they are constant, the end of the
    episode is a fixed function of everything else. None if the counter depends on other values.
    """
    jaxpr = program.traced.jaxpr
    inputs = [jaxpr.invars[1 + number] for number in numbers]
    ended = jaxpr.outvars[program.leaves + 1]
    computed, alone, mixed = {*inputs, *jaxpr.constvars}, [], []
    for equation in jaxpr.eqns:
        if computed.issuperset(_list_inputs(equation)):
            computed.update(equation.outvars)
            alone.append(equation)
        else:
            mixed.append(equation)
    after = [jaxpr.outvars[number] for number in numbers]
    if not computed.issuperset(atom for atom in after if isinstance(atom, Var)):
        return None
    timed = {
        variable for variable, found in find_all_sources(jaxpr, _identity_sources(program.traced)).items() if found
    }
    seen = list(dict.fromkeys(v for v in _list_ancestors(ended, mixed) if v in computed and v in timed))
    isolated = ClosedJaxpr(
        jaxpr.replace(invars=inputs, outvars=[*after, *seen], eqns=alone, effects=frozenset()), program.traced.consts
    )

    def run(values):
        results = jaxpr_as_fun(isolated)(*values)
        return results[: len(after)], results[len(after) :]

    return run


def _list_inputs(equation: JaxprEqn) -> list[Var]:
    return [atom for atom in equation.invars if isinstance(atom, Var)]


def _list_ancestors(result: Any, equations: list[JaxprEqn]) -> list[Var]:
    """Return all variables on which a result depends through some equations, the result included."""
    needed = {result} if isinstance(result, Var) else set()
    for equation in reversed(equations):
        if needed.intersection(equation.outvars):
            needed.update(_list_inputs(equation))
    return sorted(needed, key=id)


def check_resets(environment: Environment, states: PyTree, probabilities: Float[np.ndarray, "n"]) -> None:
    """Raise ValueError unless `reset` draws the listed states with their probabilities."""
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
    worst = _find_misfit(drawn_counts, chances, count)
    if worst is not None:
        raise ValueError(
            f"{name} cannot be enumerated: of {count:,} draws of reset {drawn_counts[worst]:,} are a state whose "
            f"probability in initial_states, {chances[worst]:.4g}, stands for {count * chances[worst]:,.0f}; list the "
            "probabilities with which reset draws."
        )


def _find_misfit(counts: Int[np.ndarray, "n"], chances: Float[np.ndarray, "n"], draws: int) -> int | None:
    """Return the least likely count's state if the draws do not fit the probabilities; else None.

    Two tests: binomial for the count of each state, chi-squared for all counts.
    """
    tails = np.minimum(bdtr(counts, draws, chances), bdtrc(counts - 1, draws, chances))
    expected = draws * chances
    rare = expected < MIN_EXPECTED
    observed = np.append(counts[~rare], counts[rare].sum() if rare.any() else [])
    wanted = np.append(expected[~rare], expected[rare].sum() if rare.any() else [])
    together = chdtrc(max(len(wanted) - 1, 1), np.sum((observed - wanted) ** 2 / wanted))
    fits = 2 * tails.min() * len(counts) >= SIGNIFICANCE and together >= SIGNIFICANCE
    return None if fits else int(tails.argmin())


def state_bytes(states: PyTree) -> np.ndarray:
    """Return one opaque value per stacked state, equal for equal states."""
    rows = np.ascontiguousarray(np.concatenate([_to_byte_rows(np.asarray(x)) for x in jax.tree.leaves(states)], axis=1))
    return rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
