"""Check what the programs of exported agents do, on the parsed program, before anything is compiled.

A program is a StableHLO module. Only operations that compute are allowed: no calls out of the module, no channels to
the host or to other devices. Loops must count up to a constant, functions must not be recursive, and the cost of one
step is bounded: instructions to compile, elementary operations to run, and total bytes of all results. A program that
passes terminates on every input.

jaxlib's parser can crash on damaged bytes, so `coverset.exported.sandbox` runs this file as a script in a process with
limits of memory and time. It imports only jaxlib, for a fast start.
"""

import json
import math
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

MAX_INSTRUCTIONS = 20_000
"""After inlining; compiling takes about a millisecond per instruction."""
MAX_WORK = 100_000_000
"""Elementary operations of a step, per agent."""
MAX_SIZE = 64 << 20
"""Total bytes of all constants and results of a step."""
MAX_SIZE_PER_AGENT = 8 << 20
"""Further bytes allowed per agent."""
MAX_DEPTH = 32
"""Nested regions and calls."""
MAX_ITERATIONS = 1_000_000
"""Iterations of a loop; the operations of all iterations count."""
MEMORY_LIMIT = 384 << 20
"""Bytes that the script may allocate; the largest programs that are allowed take 320 MB. Libraries add 120 MB."""
SECONDS_LIMIT = 30
"""Limit of the script's wall-clock time, on a machine that may be busy."""
READING_SECONDS = 0.6
"""Processor time for the programs of one file; those of the largest networks that are allowed take a tenth of it."""

HARMLESS_CALLS = frozenset({"shape_assertion", "cu_threefry2x32_ffi"})
"""Allowed custom calls: shape assertions, and random numbers on GPUs."""
COMPOSITES = "chlo."
"""Prefix of the composite operations that jax emits; the module defines each of them."""
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
STRUCTURE = frozenset({"func.call", "func.return", "sdy.sharding_constraint", "stablehlo.custom_call"})
COMPUTATIONS = """
    abs add and atan2 bitcast_convert broadcast_in_dim case cbrt ceil clamp compare complex composite
    concatenate constant convert convolution cosine count_leading_zeros divide dot_general
    dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice
    dynamic_update_slice exponential exponential_minus_one floor gather get_dimension_size if imag iota
    is_finite log log_plus_one logistic maximum minimum multiply negate not optimization_barrier or pad popcnt
    power real real_dynamic_slice reduce reduce_precision reduce_window remainder reshape return reverse
    rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select shift_left
    shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose while xor
"""
"""Allowed StableHLO operations."""
FUNCTIONS = """
    acos acosh asin asin_acos_kernel asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf
    is_neg_inf is_pos_inf lgamma next_after polygamma sinh square tan top_k zeta
"""
"""Allowed CHLO functions; jax's composites become these once their sizes are known."""
ALLOWED = (
    STRUCTURE | {f"stablehlo.{name}" for name in COMPUTATIONS.split()} | {f"chlo.{name}" for name in FUNCTIONS.split()}
)
MODULE_ATTRIBUTES = {"mhlo.num_partitions": 1, "mhlo.num_replicas": 1, "jax.uses_shape_polymorphism": None}
"""Allowed attributes of a module, and their only allowed value."""
INERT_ATTRIBUTES = frozenset({"jax.global_constant", "jax.result_info", "stablehlo.mesh"})
"""Allowed attributes of other operations, which have no effect."""
CALL_ATTRIBUTES = {"stablehlo.custom_call": frozenset({"mhlo.backend_config"})}
"""Further attributes allowed on custom calls."""


class ProgramRefused(ValueError):
    """A program is unreadable or does something that no exported agent does; a message without full stop."""


@dataclass(frozen=True)
class Cost:
    """Cost of a part of a program: instructions, elementary operations, bytes of its results, nesting depth."""

    instructions: int = 0
    work: int = 0
    size: int = 0
    depth: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.instructions + other.instructions,
            self.work + other.work,
            self.size + other.size,
            max(self.depth, other.depth),
        )

    def inside(self, times: int = 1) -> "Cost":
        """The cost inside another operation; a loop repeats the work but is compiled once and reuses its memory."""
        return Cost(self.instructions, self.work * times, self.size, self.depth + 1)


def read_module(data: bytes) -> ir.Module:
    """Parse the field `mlir_module_serialized` of jax.export."""
    context = ir.Context()
    context.enable_multithreading(False)
    for dialect in (stablehlo, sdy, chlo):
        dialect.register_dialect(context)
    try:
        module = stablehlo.deserialize_portable_artifact(context, data)
        module.operation.verify()
    except Exception as error:  # MLIRError, or anything else that the bindings raise
        raise ProgramRefused("cannot be read as StableHLO") from error
    return module


def check_module(module: ir.Module, agents: int = 1) -> Cost:
    """Return the cost of a program; raises ProgramRefused if it is too high or an operation is not allowed.

    Unknown sizes count as 1.
    """
    functions = dict(_functions(module))
    if "main" not in functions:
        raise ProgramRefused("has no function main")
    costs = _Costs(functions)
    for name in functions:
        _check_cost(costs.of_function(name), agents)
    return costs.of_function("main")


def _check_cost(cost: Cost, agents: int) -> None:
    for what, found, most in (
        ("instructions", cost.instructions, MAX_INSTRUCTIONS),
        ("operations for each agent", cost.work // agents, MAX_WORK),
        ("bytes", cost.size, MAX_SIZE + agents * MAX_SIZE_PER_AGENT),
        ("levels of nesting", cost.depth, MAX_DEPTH),
    ):
        if found > most:
            raise ProgramRefused(f"needs {found} {what} for one step, where at most {most} are allowed")


def signature(module: ir.Module) -> tuple[list[str], list[str]]:
    """Types of a program's arguments and results."""
    main = dict(_functions(module)).get("main")
    if main is None:
        raise ProgramRefused("has no function main")
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    return [str(given) for given in kind.inputs], [str(given) for given in kind.results]


def check_signature(module: ir.Module, wanted: list[list[tuple[str, str]]]) -> None:
    """Raise ProgramRefused unless arguments and results have the wanted types, given as (name, type) pairs."""
    for given, fields in zip(signature(module), wanted, strict=True):
        if len(given) != len(fields):
            raise ProgramRefused(f"has {len(given)} arrays where a step has {len(fields)}")
        for (name, kind), got in zip(fields, given, strict=True):
            if kind != got:
                raise ProgramRefused(f"does not fit: {name} must be {kind}, got {got}")


def _functions(module: ir.Module) -> Iterator[tuple[str, ir.Operation]]:
    """Functions of a module by name; raises on anything else except meshes of one device."""
    _check_attributes(module.operation)
    for entry in module.body.operations:
        operation = entry.operation
        _check_attributes(operation)
        if operation.name == "func.func":
            yield ir.StringAttr(operation.attributes["sym_name"]).value, operation
        elif operation.name != "sdy.mesh" or str(operation.attributes["mesh"]) != "#sdy.mesh<[]>":
            raise ProgramRefused(f"holds '{operation.name}' beside its functions")


class _Costs:
    """Checks every operation of a module and adds up the costs; each function is visited once."""

    def __init__(self, functions: dict[str, ir.Operation]) -> None:
        self.functions = functions
        self.known: dict[str, Cost | None] = {}
        """None while a function is being visited: meeting it again means that it is recursive."""

    def of_function(self, name: str) -> Cost:
        if name not in self.functions:
            raise ProgramRefused(f"calls '{name}', which it does not hold")
        if name not in self.known:
            blocks = self.functions[name].regions[0].blocks
            if len(blocks) != 1:
                raise ProgramRefused(f"has a function '{name}' of {len(blocks)} blocks where there should be 1")
            self.known[name] = None
            self.known[name] = self.of_block(blocks[0])
        cost = self.known[name]
        if cost is None:
            raise ProgramRefused(f"has a function '{name}' that calls itself")
        return cost

    def of_block(self, block: ir.Block) -> Cost:
        total = Cost(size=sum(_count_bytes(argument.type) for argument in block.arguments))
        for operation in block.operations:
            total += self.of_operation(operation.operation)
        return total

    def of_operation(self, operation: ir.Operation) -> Cost:
        _check_operation(operation)
        size = sum(_count_bytes(result.type) for result in operation.results)
        largest = max((_count_elements(value.type) for value in (*operation.operands, *operation.results)), default=1)
        own = Cost(1, _count_operations(operation, largest), size)
        if operation.name in CALLS:
            called = ir.FlatSymbolRefAttr(operation.attributes[CALLS[operation.name]]).value
            return own + self.of_function(called).inside()
        repeats = _count_repeats(operation, own.work)
        for region in operation.regions:
            for block in region.blocks:
                own += self.of_block(block).inside(repeats)
        return own


def _check_operation(operation: ir.Operation) -> None:
    """Raise unless an operation is allowed."""
    name = operation.name
    if name not in ALLOWED:
        raise ProgramRefused(f"uses '{name}', which no exported agent does")
    if name == "stablehlo.custom_call":
        target = _decode_text(operation.attributes["call_target_name"])
        if target not in HARMLESS_CALLS:
            raise ProgramRefused(f"calls {target!r}, which no exported agent does")
        if len(_array_attribute(operation, "called_computations")):
            raise ProgramRefused(f"has functions called by {target!r}, which no exported agent does")
    if name == "stablehlo.composite" and not _decode_text(operation.attributes["name"]).startswith(COMPOSITES):
        raise ProgramRefused(
            f"uses the composite {_decode_text(operation.attributes['name'])!r}, which no exported agent does"
        )
    _check_attributes(operation)


def _check_attributes(operation: ir.Operation) -> None:
    """Raise if an operation, an argument or a result has an attribute that may affect compilation."""
    for name, value in _attributes(operation.attributes):
        if name in ("arg_attrs", "res_attrs"):
            names = {key for one in ir.ArrayAttr(value) for key, _ in _attributes(ir.DictAttr(one))}
        else:
            names = {name} if "." in name else set()
        if operation.name == "builtin.module" and name in MODULE_ATTRIBUTES:
            only = MODULE_ATTRIBUTES[name]
            if only is not None and ir.IntegerAttr(value).value != only:
                raise ProgramRefused(f"has {name} {ir.IntegerAttr(value).value}, where only {only} is allowed")
        elif odd := names - INERT_ATTRIBUTES - CALL_ATTRIBUTES.get(operation.name, frozenset()):
            raise ProgramRefused(f"carries '{min(odd)}', which no exported agent does")


def _attributes(attributes: Any) -> Iterator[tuple[str, ir.Attribute]]:
    """Names and values; newer versions of the bindings iterate over names, older ones over pairs."""
    for entry in attributes:
        name = entry if isinstance(entry, str) else entry.name
        yield name, attributes[name]


def _decode_text(attribute: ir.Attribute) -> str:
    """A string attribute, with invalid bytes escaped."""
    return ir.StringAttr(attribute).value_bytes.decode("utf-8", "backslashreplace")


def _array_attribute(operation: ir.Operation, name: str) -> ir.ArrayAttr | tuple:
    return ir.ArrayAttr(operation.attributes[name]) if name in operation.attributes else ()


def _tensor_shape(kind: ir.Type) -> list[int]:
    """Shape of a tensor, with unknown sizes as 1; raises for other types."""
    if not isinstance(kind, ir.RankedTensorType) or kind.encoding is not None:
        raise ProgramRefused(f"uses values of type {kind}, which no exported agent does")
    return [1 if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank)]


def _count_elements(kind: ir.Type) -> int:
    return math.prod(_tensor_shape(kind))


def _count_bytes(kind: ir.Type) -> int:
    """Upper bound on the bytes of a tensor, with at least four per element."""
    elements = _count_elements(kind)
    element = ir.RankedTensorType(kind).element_type
    if isinstance(element, ir.ComplexType):
        return 16 * elements
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        raise ProgramRefused(f"uses values of type {kind}, which no exported agent does")
    return 4 * math.ceil(element.width / 32) * elements


def _count_operations(operation: ir.Operation, largest: int) -> int:
    """Elementary operations of an operation, without its regions."""
    if operation.name == "stablehlo.dot_general":
        shape = _tensor_shape(operation.operands[0].type)
        numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
        summed = math.prod(shape[axis] for axis in numbers.lhs_contracting_dimensions)
        return max(largest, summed * _count_elements(operation.results[0].type))
    if operation.name in ("stablehlo.convolution", "stablehlo.dynamic_conv"):
        return _count_elements(operation.operands[1].type) * _count_elements(operation.results[0].type)
    if operation.name == "stablehlo.reduce_window":
        window = math.prod(ir.DenseI64ArrayAttr(operation.attributes["window_dimensions"]))
        return largest * window * len(operation.results)
    if operation.name == "stablehlo.sort":
        return largest * 64
    return largest


def _count_repeats(operation: ir.Operation, work: int) -> int:
    """How many times the regions of an operation run."""
    if operation.name == "stablehlo.while":
        return _count_iterations(operation)
    return 1 if operation.name in ("stablehlo.case", "stablehlo.if") else work


def _count_iterations(loop: ir.Operation) -> int:
    """Iterations of a loop that adds 1 to an integer while it is below a constant; raises for any other loop."""
    test, body = (region.blocks[0] for region in loop.regions)
    compared = _defining_operation(_last_operation(test).operands[0], "stablehlo.compare")
    with suppress(_NotACounter, ValueError):
        if compared is not None and str(compared.attributes["comparison_direction"]).endswith(" LT>"):
            counter = _argument_index(compared.operands[0], test)
            added = _defining_operation(_last_operation(body).operands[counter], "stablehlo.add")
            if (
                added is not None
                and _argument_index(added.operands[0], body) == counter
                and _constant_integer(added.operands[1]) == 1
            ):
                start, end = _constant_integer(loop.operands[counter]), _constant_integer(compared.operands[1])
                if 0 <= start <= end <= MAX_ITERATIONS:
                    return end - start
    raise ProgramRefused(f"has a loop that does not count up by 1 to a constant of at most {MAX_ITERATIONS}")


class _NotACounter(Exception):
    """A value does not belong to a counting loop."""


def _last_operation(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def _defining_operation(value: ir.Value, name: str) -> ir.Operation | None:
    """The operation that defines a value, if it has this name."""
    owner = value.owner
    return owner.operation if not isinstance(owner, ir.Block) and owner.operation.name == name else None


def _argument_index(value: ir.Value, block: ir.Block) -> int:
    """Index of a value among the arguments of a block."""
    for number, argument in enumerate(block.arguments):
        if argument == value:
            return number
    raise _NotACounter


def _constant_integer(value: ir.Value) -> int:
    """The value of an integer constant."""
    constant = _defining_operation(value, "stablehlo.constant")
    kind = ir.RankedTensorType(value.type)
    if constant is None or kind.rank or not isinstance(kind.element_type, ir.IntegerType):
        raise _NotACounter
    return int(ir.DenseIntElementsAttr(constant.attributes["value"])[0])


def clean(data: bytes, wanted: list[list[tuple[str, str]]]) -> bytes:
    """Parse, check and serialize again, so that the result is well-formed whatever was read."""
    module = read_module(data)
    check_module(module)
    check_signature(module, wanted)
    return bytes(stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True))


def _limit_resources() -> None:
    """Limit memory and processor time of this process, if the system supports it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_LIMIT, SECONDS_LIMIT))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    with suppress(AttributeError, OSError):
        signal.setitimer(signal.ITIMER_PROF, READING_SECONDS)  # ends the process, even amid the parser


def _main() -> None:
    """Clean the programs on standard input: a JSON line with names, lengths and signatures, then the bytes."""
    _limit_resources()
    cleaned = []
    for name, length, wanted in json.loads(sys.stdin.buffer.readline()):
        try:
            cleaned.append(clean(sys.stdin.buffer.read(length), wanted))
        except ProgramRefused as error:
            print(json.dumps({"refused": f"{name} {error}"}))
            return
        except Exception as error:  # damage that the bindings notice only when reading attributes
            print(json.dumps({"refused": f"{name} cannot be read: {type(error).__name__}"}))
            return
    sys.stdout.buffer.write(json.dumps({"lengths": [len(program) for program in cleaned]}).encode() + b"\n")
    sys.stdout.buffer.write(b"".join(cleaned))


if __name__ == "__main__":
    _main()
