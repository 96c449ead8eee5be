"""What the programs of exported agents may do, decided on the parsed program before anything is compiled.

A program is a StableHLO module. Only operations that compute are allowed: no calls out of the module, no channels to
the host or to other devices. Loops must count up to a constant, functions must not call themselves, and what one step
of an agent may cost is bounded: instructions to compile, elementary operations to run, bytes of all results together.
A program that passes ends, whatever it is given.

The parser of this format in jaxlib can crash on damaged bytes, so `coverset.adhoc.guard` runs this file as a script in
a process of its own, with limits of memory and time. For a quick start it imports jaxlib only.
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
"""After functions are inlined; compiling takes about a millisecond for each."""
MAX_WORK = 100_000_000
"""Elementary operations of a step, for each agent."""
MAX_SIZE = 64 << 20
"""Bytes of all constants and results of a step together."""
MAX_SIZE_PER_AGENT = 8 << 20
"""What further bytes there may be for each agent."""
MAX_DEPTH = 32
"""Regions and calls within each other."""
MAX_TURNS = 1_000_000
"""Turns of a loop; the work of all turns counts."""
MEMORY_LIMIT = 448 << 20
"""Bytes that the script may allocate."""
SECONDS_LIMIT = 30
"""How long the script is waited for, on a machine that may have other things to do."""
READING_SECONDS = 0.6
"""Processor time for the programs of one file; those of the largest networks that are allowed take a tenth of it."""

HARMLESS_CALLS = frozenset({"shape_assertion", "cu_threefry2x32_ffi"})
"""What a program may call that is not part of it: checks of shapes, and random numbers on graphics cards."""
COMPOSITES = "chlo."
"""How names of composite operations begin which jax makes; each comes with its definition in the module."""
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
"""Operations of StableHLO that compute."""
FUNCTIONS = """
    acos acosh asin asin_acos_kernel asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf
    is_neg_inf is_pos_inf lgamma next_after polygamma sinh square tan top_k zeta
"""
"""Functions of the dialect CHLO; composites of jax become these once their sizes are known."""
ALLOWED = (
    STRUCTURE | {f"stablehlo.{name}" for name in COMPUTATIONS.split()} | {f"chlo.{name}" for name in FUNCTIONS.split()}
)
ATTRIBUTES = {"mhlo.num_partitions": 1, "mhlo.num_replicas": 1, "jax.uses_shape_polymorphism": None}
"""What jax writes at a module, and the only value allowed."""
NOTES = frozenset({"jax.global_constant", "jax.result_info", "stablehlo.mesh"})
"""What jax writes elsewhere and nothing acts upon."""
CALL_NOTES = {"stablehlo.custom_call": frozenset({"mhlo.backend_config"})}
"""What calls carry that are allowed by their name."""


class Refused(ValueError):
    """A program does something that no exported agent does, or is none; one sentence without its end."""


@dataclass(frozen=True)
class Cost:
    """What a part of a program needs: instructions to compile, elementary operations, bytes of its results, levels."""

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
        """The same within another operation, in a loop perhaps, which is compiled once and reuses its memory."""
        return Cost(self.instructions, self.work * times, self.size, self.depth + 1)


def read_module(data: bytes) -> ir.Module:
    """Parse what jax.export calls `mlir_module_serialized`."""
    context = ir.Context()
    context.enable_multithreading(False)
    for dialect in (stablehlo, sdy, chlo):
        dialect.register_dialect(context)
    try:
        module = stablehlo.deserialize_portable_artifact(context, data)
        module.operation.verify()
    except Exception as error:  # MLIRError and whatever the bindings make of bytes
        raise Refused("cannot be read as StableHLO") from error
    return module


def check_module(module: ir.Module, agents: int = 1) -> Cost:
    """Raise Refused unless a program keeps to itself and ends soon; unknown sizes count as 1. Gives what it costs."""
    functions = dict(_functions(module))
    if "main" not in functions:
        raise Refused("has no function main")
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
            raise Refused(f"needs {found} {what} for one step, where at most {most} are allowed")


def signature(module: ir.Module) -> tuple[list[str], list[str]]:
    """Types of the arguments and of the results of a program."""
    main = dict(_functions(module)).get("main")
    if main is None:
        raise Refused("has no function main")
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    return [str(given) for given in kind.inputs], [str(given) for given in kind.results]


def check_signature(module: ir.Module, wanted: list[list[tuple[str, str]]]) -> None:
    """Raise Refused unless arguments and results have these types, each given with its name."""
    for given, fields in zip(signature(module), wanted, strict=True):
        if len(given) != len(fields):
            raise Refused(f"has {len(given)} arrays where a step has {len(fields)}")
        for (name, kind), got in zip(fields, given, strict=True):
            if kind != got:
                raise Refused(f"does not fit: {name} must be {kind}, got {got}")


def _functions(module: ir.Module) -> Iterator[tuple[str, ir.Operation]]:
    """Functions of a module by their names; raises if anything else stands there but meshes of one device."""
    _check_notes(module.operation)
    for entry in module.body.operations:
        operation = entry.operation
        _check_notes(operation)
        if operation.name == "func.func":
            yield ir.StringAttr(operation.attributes["sym_name"]).value, operation
        elif operation.name != "sdy.mesh" or str(operation.attributes["mesh"]) != "#sdy.mesh<[]>":
            raise Refused(f"holds '{operation.name}' beside its functions")


class _Costs:
    """Walks every operation of a module, checks it, and adds up what it costs; functions are walked once."""

    def __init__(self, functions: dict[str, ir.Operation]) -> None:
        self.functions = functions
        self.known: dict[str, Cost | None] = {}
        """None while a function is walked: to meet it then means that it calls itself."""

    def of_function(self, name: str) -> Cost:
        if name not in self.functions:
            raise Refused(f"calls '{name}', which it does not hold")
        if name not in self.known:
            blocks = self.functions[name].regions[0].blocks
            if len(blocks) != 1:
                raise Refused(f"has a function '{name}' of {len(blocks)} blocks where there should be 1")
            self.known[name] = None
            self.known[name] = self.of_block(blocks[0])
        cost = self.known[name]
        if cost is None:
            raise Refused(f"has a function '{name}' that calls itself")
        return cost

    def of_block(self, block: ir.Block) -> Cost:
        total = Cost(size=sum(_bytes(argument.type) for argument in block.arguments))
        for operation in block.operations:
            total += self.of_operation(operation.operation)
        return total

    def of_operation(self, operation: ir.Operation) -> Cost:
        _check_operation(operation)
        size = sum(_bytes(result.type) for result in operation.results)
        largest = max((_elements(value.type) for value in (*operation.operands, *operation.results)), default=1)
        own = Cost(1, _work(operation, largest), size)
        if operation.name in CALLS:
            called = ir.FlatSymbolRefAttr(operation.attributes[CALLS[operation.name]]).value
            return own + self.of_function(called).inside()
        turns = _turns(operation, own.work)
        for region in operation.regions:
            for block in region.blocks:
                own += self.of_block(block).inside(turns)
        return own


def _check_operation(operation: ir.Operation) -> None:
    """Raise unless an operation computes, or calls what is harmless by that very name."""
    name = operation.name
    if name not in ALLOWED:
        raise Refused(f"uses '{name}', which no exported agent does")
    if name == "stablehlo.custom_call":
        target = _text(operation.attributes["call_target_name"])
        if target not in HARMLESS_CALLS:
            raise Refused(f"calls {target!r}, which no exported agent does")
        if len(_array(operation, "called_computations")):
            raise Refused(f"has functions called by {target!r}, which no exported agent does")
    if name == "stablehlo.composite" and not _text(operation.attributes["name"]).startswith(COMPOSITES):
        raise Refused(f"uses the composite {_text(operation.attributes['name'])!r}, which no exported agent does")
    _check_notes(operation)


def _check_notes(operation: ir.Operation) -> None:
    """Raise if an operation, an argument or a result carries a note that compilers may act upon."""
    for name, value in _attributes(operation.attributes):
        if name in ("arg_attrs", "res_attrs"):
            names = {key for one in ir.ArrayAttr(value) for key, _ in _attributes(ir.DictAttr(one))}
        else:
            names = {name} if "." in name else set()
        if operation.name == "builtin.module" and name in ATTRIBUTES:
            only = ATTRIBUTES[name]
            if only is not None and ir.IntegerAttr(value).value != only:
                raise Refused(f"has {name} {ir.IntegerAttr(value).value}, where only {only} is allowed")
        elif odd := names - NOTES - CALL_NOTES.get(operation.name, frozenset()):
            raise Refused(f"carries '{min(odd)}', which no exported agent does")


def _attributes(attributes: Any) -> Iterator[tuple[str, ir.Attribute]]:
    """Names and values; the bindings give names in newer versions, pairs in older ones."""
    for entry in attributes:
        name = entry if isinstance(entry, str) else entry.name
        yield name, attributes[name]


def _text(attribute: ir.Attribute) -> str:
    """A string attribute; bytes that are no text stay visible."""
    return ir.StringAttr(attribute).value_bytes.decode("utf-8", "backslashreplace")


def _array(operation: ir.Operation, name: str) -> ir.ArrayAttr | tuple:
    return ir.ArrayAttr(operation.attributes[name]) if name in operation.attributes else ()


def _shape(kind: ir.Type) -> list[int]:
    """Sizes of a tensor, 1 where they are not known; raises for everything that is no plain tensor."""
    if not isinstance(kind, ir.RankedTensorType) or kind.encoding is not None:
        raise Refused(f"uses values of type {kind}, which no exported agent does")
    return [1 if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank)]


def _elements(kind: ir.Type) -> int:
    return math.prod(_shape(kind))


def _bytes(kind: ir.Type) -> int:
    """Bytes of a tensor at most: no element takes less than four here."""
    elements = _elements(kind)
    element = ir.RankedTensorType(kind).element_type
    if isinstance(element, ir.ComplexType):
        return 16 * elements
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        raise Refused(f"uses values of type {kind}, which no exported agent does")
    return 4 * math.ceil(element.width / 32) * elements


def _work(operation: ir.Operation, largest: int) -> int:
    """Elementary operations, without those of regions."""
    if operation.name == "stablehlo.dot_general":
        shape = _shape(operation.operands[0].type)
        numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
        summed = math.prod(shape[axis] for axis in numbers.lhs_contracting_dimensions)
        return max(largest, summed * _elements(operation.results[0].type))
    if operation.name in ("stablehlo.convolution", "stablehlo.dynamic_conv"):
        return _elements(operation.operands[1].type) * _elements(operation.results[0].type)
    if operation.name == "stablehlo.reduce_window":
        window = math.prod(ir.DenseI64ArrayAttr(operation.attributes["window_dimensions"]))
        return largest * window * len(operation.results)
    if operation.name == "stablehlo.sort":
        return largest * 64
    return largest


def _turns(operation: ir.Operation, work: int) -> int:
    """How often the regions of an operation run."""
    if operation.name == "stablehlo.while":
        return _while_turns(operation)
    return 1 if operation.name in ("stablehlo.case", "stablehlo.if") else work


def _while_turns(loop: ir.Operation) -> int:
    """Turns of a loop that adds 1 to a whole number while it is below a constant; raises for any other loop."""
    test, body = (region.blocks[0] for region in loop.regions)
    compared = _owner(_last(test).operands[0], "stablehlo.compare")
    with suppress(_NoCounter, ValueError):
        if compared is not None and str(compared.attributes["comparison_direction"]).endswith(" LT>"):
            counter = _argument(compared.operands[0], test)
            added = _owner(_last(body).operands[counter], "stablehlo.add")
            if added is not None and _argument(added.operands[0], body) == counter and _number(added.operands[1]) == 1:
                start, end = _number(loop.operands[counter]), _number(compared.operands[1])
                if 0 <= start <= end <= MAX_TURNS:
                    return end - start
    raise Refused(f"has a loop that does not count up by 1 to a constant of at most {MAX_TURNS}")


class _NoCounter(Exception):
    """A value is not what it is in a loop that counts."""


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def _owner(value: ir.Value, name: str) -> ir.Operation | None:
    """The operation that gives a value, if it is of this name."""
    owner = value.owner
    return owner.operation if not isinstance(owner, ir.Block) and owner.operation.name == name else None


def _argument(value: ir.Value, block: ir.Block) -> int:
    """Which argument of a block a value is."""
    for number, argument in enumerate(block.arguments):
        if argument == value:
            return number
    raise _NoCounter


def _number(value: ir.Value) -> int:
    """A whole number that is known."""
    constant = _owner(value, "stablehlo.constant")
    kind = ir.RankedTensorType(value.type)
    if constant is None or kind.rank or not isinstance(kind.element_type, ir.IntegerType):
        raise _NoCounter
    return int(ir.DenseIntElementsAttr(constant.attributes["value"])[0])


def clean(data: bytes, wanted: list[list[tuple[str, str]]]) -> bytes:
    """Read, check, and write again: what comes out is well-formed, whatever was read."""
    module = read_module(data)
    check_module(module)
    check_signature(module, wanted)
    return bytes(stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True))


def _limit() -> None:
    """Bound what this process may take, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_LIMIT, SECONDS_LIMIT))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    with suppress(AttributeError, OSError):
        signal.setitimer(signal.ITIMER_PROF, READING_SECONDS)  # ends the process, even amid the parser


def _main() -> None:
    """Clean the programs on standard input: a line of JSON that says their names and lengths, then their bytes."""
    _limit()
    cleaned = []
    for name, length, wanted in json.loads(sys.stdin.buffer.readline()):
        try:
            cleaned.append(clean(sys.stdin.buffer.read(length), wanted))
        except Refused as error:
            print(json.dumps({"refused": f"{name} {error}"}))
            return
        except Exception as error:  # damage that only shows where the bindings look at attributes
            print(json.dumps({"refused": f"{name} cannot be read: {type(error).__name__}"}))
            return
    sys.stdout.buffer.write(json.dumps({"lengths": [len(program) for program in cleaned]}).encode() + b"\n")
    sys.stdout.buffer.write(b"".join(cleaned))


if __name__ == "__main__":
    _main()
