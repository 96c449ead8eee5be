"""Dependence of the results of a traced program on its arguments.

A function is traced to a jaxpr, nested calls are inlined and constants folded (`simplify`). The outputs of an equation
depend on all of its inputs, except that loops and conditionals are analysed variable by variable:

    cond        an output depends on the index and on the sources of any branch
    scan        the dependence of a carry on its inputs is the least fixed point over iterations
    while       as scan; everything depends on the condition too

The analysis is conservative: it may report a dependence that does not exist (`0 * x`), but never misses one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun, jaxprs_in_params

Sources: TypeAlias = frozenset[int]
"""Indices of the arguments on which a value depends."""

CALLS = {"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call"}
"""Primitives that only call the program among their parameters."""
OPAQUE = ("callback", "ffi_call", "rng_uniform", "infeed")
"""Substrings of the names of primitives whose results a jaxpr does not determine."""


def simplify(function: Callable[..., Any], *arguments: Any) -> ClosedJaxpr:
    """Trace a function to one list of equations, with calls inlined and constants folded.

    Of a condition with a constant index, only the selected branch remains.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    return jax.make_jaxpr(lambda *inputs: _inline(traced.jaxpr, traced.consts, inputs))(*traced.in_avals)


def _inline(jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    values: dict[Var, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *inputs), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        outputs = _apply(jaxpr, equation, [read(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
    """Return the results of one equation: inlined if it is a call, evaluated if its inputs are constant."""
    name, called = equation.primitive.name, _get_called_program(equation)
    if called is not None:
        return _inline(*called, inputs)
    chosen = inputs[0] if name in ("select_n", "cond") and _is_constant(inputs[0]) else None
    if name == "cond" and chosen is not None:
        branches = equation.params["branches"]
        branch = branches[int(np.clip(chosen, 0, len(branches) - 1))]
        return _inline(branch.jaxpr, branch.consts, inputs[1:])
    if name == "select_n" and chosen is not None and np.unique(chosen).size == 1:
        return [inputs[1 + int(np.unique(chosen)[0])]]
    if all(map(_is_constant, inputs)) and not any(part in name for part in OPAQUE):
        with jax.ensure_compile_time_eval():
            return _run_equation(jaxpr, equation, inputs)
    return _run_equation(jaxpr, equation, inputs)


def _run_equation(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
    given = {atom: value for atom, value in zip(equation.invars, inputs, strict=True) if isinstance(atom, Var)}
    alone = jaxpr.replace(constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation])
    return jaxpr_as_fun(ClosedJaxpr(alone, []))(*given.values())


def _get_called_program(equation: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]] | None:
    """Return the program that an equation calls, with its constants; None if it is not a call."""
    if equation.primitive.name not in CALLS:
        return None
    program: Any = equation.params.get("call_jaxpr", equation.params.get("jaxpr"))
    return (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())


def _is_constant(value: Any) -> bool:
    return not isinstance(value, Tracer)


def find_sources(jaxpr: Jaxpr, inputs: Sequence[Sources]) -> list[Sources]:
    """Return the sources of each result of a program, given the sources of its inputs."""
    known = find_all_sources(jaxpr, inputs)
    return [known.get(atom, frozenset()) if isinstance(atom, Var) else frozenset() for atom in jaxpr.outvars]


def find_all_sources(jaxpr: Jaxpr, inputs: Sequence[Sources]) -> dict[Var, Sources]:
    """Return the sources of all variables of a program; constants have no entry."""
    known: dict[Var, Sources] = dict(zip(jaxpr.invars, inputs, strict=True))
    for equation in jaxpr.eqns:
        read = [known.get(atom, frozenset()) if isinstance(atom, Var) else frozenset() for atom in equation.invars]
        known.update(zip(equation.outvars, _equation_sources(equation, read), strict=True))
    return known


def _equation_sources(equation: JaxprEqn, inputs: list[Sources]) -> list[Sources]:
    called = _get_called_program(equation)
    if called is not None:
        return find_sources(called[0], inputs)
    match equation.primitive.name:
        case "cond":
            branches = [find_sources(branch.jaxpr, inputs[1:]) for branch in equation.params["branches"]]
            return [_union(inputs[:1], outputs) for outputs in zip(*branches, strict=True)]
        case "scan":
            return _scan_sources(equation.params, inputs)
        case "while":
            return _while_sources(equation.params, inputs)
    return [_union(inputs)] * len(equation.outvars)


def _scan_sources(parameters: dict[str, Any], inputs: list[Sources]) -> list[Sources]:
    first, carried = parameters["num_consts"], parameters["num_carry"]
    constants, carry, rest = inputs[:first], inputs[first : first + carried], inputs[first + carried :]
    while True:
        outputs = find_sources(parameters["jaxpr"].jaxpr, [*constants, *carry, *rest])
        grown = [_union([old], [new]) for old, new in zip(carry, outputs, strict=False)]
        if grown == carry:
            return [*carry, *outputs[carried:]]
        carry = grown


def _while_sources(parameters: dict[str, Any], inputs: list[Sources]) -> list[Sources]:
    tested, used = parameters["cond_nconsts"], parameters["body_nconsts"]
    for_test, for_body, carry = inputs[:tested], inputs[tested : tested + used], inputs[tested + used :]
    while True:
        test = find_sources(parameters["cond_jaxpr"].jaxpr, [*for_test, *carry])
        outputs = find_sources(parameters["body_jaxpr"].jaxpr, [*for_body, *carry])
        grown = [_union([old], [new], test) for old, new in zip(carry, outputs, strict=True)]
        if grown == carry:
            return carry
        carry = grown


def _union(*groups: Sequence[Sources]) -> Sources:
    return frozenset().union(*(source for group in groups for source in group))


def find_opaque_primitives(jaxpr: Jaxpr) -> list[str]:
    """Return the names of primitives, at any depth, with results that the program does not determine."""
    found = {
        equation.primitive.name
        for equation in _equations(jaxpr)
        if equation.outvars and any(part in equation.primitive.name for part in OPAQUE)
    }
    return sorted(found)


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)


def are_same_program(one: ClosedJaxpr, other: ClosedJaxpr) -> bool:
    """Whether two traces are equal, constants included, apart from addresses of functions."""
    texts = [re.sub(r"0x[0-9a-f]+", "", str(program.jaxpr)) for program in (one, other)]
    if texts[0] != texts[1] or len(one.consts) != len(other.consts):
        return False
    return all(_to_bytes(a) == _to_bytes(b) for a, b in zip(one.consts, other.consts, strict=True))


def _to_bytes(constant: Any) -> bytes:
    constant = jnp.asarray(constant)
    is_key = jnp.issubdtype(constant.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(constant) if is_key else constant).tobytes()
