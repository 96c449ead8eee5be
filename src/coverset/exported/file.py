"""Export agents as files that run without coverset, and load such files: one step with weights, as programs in a zip.

`coverset.exported.archive` lists the entries of the file, `coverset.pipeline.export` writes agents and members of
populations. The programs come from `jax.export` and run with jax and flatbuffers alone; see
docs/how-to/export.md for an example. `done` means that the previous step ended an episode. At the first step with a
partner, memory is the initial memory, and `done` and `reward` are ignored. Memory is a tuple of arrays. In a game with
illegal actions a step also takes the legal ones, and in a policy that plays several seats, its present seat.

Reading a file runs nothing from it. Only the program is taken from the container that jax.export writes: argument
types, platforms and effects are always those of a step. `coverset.exported.sandbox` parses, checks and rewrites the
program, which is checked again for each batch size that it is compiled for; `coverset.exported.programs` defines what a
program may do.
"""

import json
import zipfile
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Int

from coverset.adhoc.saved import load_agent_policy
from coverset.checks import check_between, describe_exception
from coverset.envs import registry
from coverset.envs.seats import is_masked, sides
from coverset.exported import programs
from coverset.exported.archive import FURTHER, PROGRAMS, Inputs, pack, read_archive, read_inputs
from coverset.exported.sandbox import Signature, clean_programs
from coverset.policies.compatibility import check_policy
from coverset.policies.population import FORMAT as POPULATION_FORMAT
from coverset.policies.population import Population, load_population
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile, load_tensors, to_jsonable, write_bytes
from coverset.types import Percept, PRNGKey, PyTree

PLATFORMS = ("cpu", "cuda", "tpu")
MAX_CACHED_BYTES = 96 << 20
"""Estimated size of jax's caches, which keep every program that was called, at which they are cleared."""
EGO_SEAT = 0
"""What the ego's policy is told of its seat in games of three or more players."""
CACHED_BYTES_PER_SHAPE = 3 << 20
"""Measured size of what they keep for each shape of arguments: traces and lowered modules."""


def export_policy(
    policy: Policy, env: str, seat: int, path: str | Path, *, env_parameters: dict[str, Any] | None = None
) -> Path:
    """Write any policy as a file that runs with jax alone and can be named as a partner.

    Args:
      policy: the policy of one seat; it must be fully compiled, without callbacks to Python.
      env: the environment that it plays, as for `make`.
      seat: its seat, 0 for the ego's or 1 for the other; in games of more players 1 stands for all other seats.
      path: the file, such as `mine.zip`.
      env_parameters: parameters of the environment.
    Returns:
      The path of the file.
    """
    require_flatbuffers()
    check_between("seat", seat, 0, 1)
    environment = registry.make(env, **(env_parameters or {}))
    check_policy("policy", policy, environment, seat=seat)
    parameters = registry.parameters_to_record(env, environment, env_parameters or {})
    side, seats = sides(environment)[seat], environment.num_seats
    inputs = Inputs(side.observation_size, side.num_actions, legal=is_masked(environment), seat=side.num_seats > 1)
    about = {"env": env, "env_parameters": to_jsonable(parameters), "seat": seat, "num_seats": seats}
    return write_exported("path", Path(path), policy, inputs, about)


def write_exported(name: str, target: Path, policy: Policy, inputs: Inputs, about: dict[str, Any]) -> Path:
    """Write a policy and what it is for.

    Args:
      name: what the caller calls `target`, for messages.
      target: the file.
      policy: what acts.
      inputs: what one step reads.
      about: environment, parameters and seat that it is for, number of seats, and whatever else is to be kept.
    """
    if target.is_dir():
        raise ValueError(f"{name} must be a file, but {target} is a directory.")
    start, structure = _flatten_memory(policy)
    step = partial(_step, policy, structure, inputs, EGO_SEAT if about["num_seats"] > 2 else None)
    parts = _export_programs(step, inputs, start)
    memory = tuple(np.asarray(leaf, order="C") for leaf in start)
    write_bytes(target, pack(parts, memory, {**inputs.describe(), **about}))
    return target


def _export_programs(step: Callable[..., Any], inputs: Inputs, start: tuple) -> dict[str, bytes]:
    """The serialized programs of a step with these inputs."""
    one, many = _arguments((), inputs, start), _arguments(_symbolic_batch(), inputs, start)
    with _omit_source_locations():
        made = {"step.bin": _export_program(step, one), "steps.bin": _export_program(jax.vmap(step), many)}
    try:
        for program in made.values():
            programs.check_module(programs.read_module(program.mlir_module_serialized))
        _check_for_batch(made["steps.bin"], _arguments((1,), inputs, start), 1)
    except programs.ProgramRefused as error:
        raise ValueError(f"policy cannot be exported: its step {error}.") from error
    return {name: bytes(program.serialize()) for name, program in made.items()}


@cache
def _symbolic_batch() -> tuple:
    """The symbolic batch axis; one object for all programs, so that jax's caches work."""
    return tuple(export.symbolic_shape("n"))


def _export_program(function: Callable[..., Any], shapes: tuple) -> export.Exported:
    """Export a step; unused arguments are kept, so that all programs have the same signature."""
    try:
        return export.export(jax.jit(function, keep_unused=True), platforms=PLATFORMS)(*shapes)
    except Exception as error:  # a third-party policy may raise anything
        raise ValueError(
            f"policy cannot be compiled for {', '.join(PLATFORMS)}: {describe_exception(error)}."
        ) from error


@contextmanager
def _omit_source_locations() -> Iterator[None]:
    """Leave source locations out of the programs, so that the same agent gives the same bytes on any machine."""
    option = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, option)
    jax.config.update(option, 0)
    try:
        yield
    finally:
        jax.config.update(option, before)


def _flatten_memory(policy: Policy) -> tuple[tuple[Array, ...], Any]:
    """Initial memory as a tuple of arrays: first whether a step was taken, then the leaves of the policy's memory."""
    leaves, structure = jax.tree.flatten(policy.initial_memory())
    return (jnp.bool_(False), *map(jnp.asarray, leaves)), structure


def _step(
    policy: Policy,
    structure: Any,
    inputs: Inputs,
    own_seat: int | None,
    key: PRNGKey,
    observation: Array,
    reward: Array,
    done: Array,
    *rest: Any,
) -> tuple[Array, tuple]:
    """One step with plain arrays as arguments; `reward` and `done` are ignored at the first step.

    Args:
      policy: what acts.
      structure: of its memory.
      inputs: what a step reads.
      own_seat: what the policy is told of its seat where that is no argument.
      key: of the random numbers.
      observation: as in `Percept`.
      reward: of the step before.
      done: whether that step ended an episode.
      *rest: further arguments, as `inputs` names them, and the memory.
    """
    *further, (started, *leaves) = rest
    given = dict(zip(inputs.further, further, strict=True))
    seat = given.get("seat", None if own_seat is None else jnp.int32(own_seat))
    percept = Percept(observation, jnp.where(started, reward, 0.0), done | ~started, given.get("legal"), seat)
    action, after = policy.act(key, percept, jax.tree.unflatten(structure, leaves))
    return jnp.asarray(action, jnp.int32), (jnp.bool_(True), *jax.tree.leaves(after))


def _arguments(batch: tuple, inputs: Inputs, memory: tuple) -> tuple:
    """Shapes of the arguments of a step, each with the leading axes `batch`."""
    further = {"legal": jax.ShapeDtypeStruct((inputs.num_actions,), jnp.bool_), "seat": jnp.int32(0)}
    like = [
        jax.eval_shape(lambda: jax.random.key(0)),
        jax.ShapeDtypeStruct((inputs.observation_size,), jnp.float32),
        jnp.float32(0.0),
        jnp.bool_(False),
        *(further[name] for name in inputs.further),
    ]
    batched = [jax.ShapeDtypeStruct((*batch, *x.shape), x.dtype) for x in (*like, *memory)]
    return (*batched[: len(like)], tuple(batched[len(like) :]))


class Programs:
    """The programs of a file; two instances loaded from the same file are equal."""

    def __init__(self, data: bytes, step: Callable[..., Any]) -> None:
        self.data = data
        self.step = step

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Programs) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)


class ExportedPolicy(Policy):
    """An exported agent as a policy."""

    start: tuple[Array, ...]
    """Memory at the start of a trial."""
    programs: Programs = eqx.field(static=True)
    inputs: Inputs = eqx.field(static=True)
    description: str = eqx.field(static=True)

    @property
    def observation_size(self) -> int:
        """How many numbers the policy reads."""
        return self.inputs.observation_size

    @property
    def num_actions(self) -> int:
        """Among how many actions it chooses."""
        return self.inputs.num_actions

    @property
    def about(self) -> dict[str, Any]:
        """Environment, seat and origin of the agent."""
        return json.loads(self.description)

    def initial_memory(self) -> tuple[Array, ...]:
        return self.start

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        further = [getattr(percept, name) for name in self.inputs.further]
        for name, given in zip(self.inputs.further, further, strict=True):
            if given is None:
                raise ValueError(f"this exported agent must be told {FURTHER[name]}: its percept has no {name}.")
        seen = (percept.observation, percept.reward, percept.first, *further)
        one = jax.tree.map(lambda x: x[None], (key, *seen, memory))
        return jax.tree.map(lambda x: x[0], self.programs.step(*one))


def load_exported(path: str | Path) -> ExportedPolicy:
    """Load a file written by `export_agent` or `export_policy`, and check its programs.

    Raises:
      DamagedFile: the file is damaged, or its programs do something that no step of an agent does.
    """
    require_flatbuffers()
    path = Path(path)
    about, memory, parts = read_archive(path)
    start = tuple(jnp.asarray(leaf) for leaf in memory)
    inputs = read_inputs(about)
    step = _merge_batch_axes(_load_step(path, parts, inputs, start))
    data = b"".join((*parts.values(), *(leaf.tobytes() for leaf in memory)))
    return ExportedPolicy(start, Programs(data, step), inputs, json.dumps(about))


class _CacheLimit:
    """Estimates what jax's caches hold of programs from files, so that a process can read any number of them."""

    def __init__(self) -> None:
        self.sizes: dict[Hashable, int] = {}
        self.lock = Lock()

    def note(self, program: bytes, arguments: Hashable) -> None:
        """A program is about to be called; the same program, and the same shapes of arguments, count once."""
        with self.lock:
            self.sizes |= {sha256(program).digest(): len(program), arguments: CACHED_BYTES_PER_SHAPE}
            if sum(self.sizes.values()) > MAX_CACHED_BYTES:
                self.sizes.clear()
                _reference_program.cache_clear()
                jax.clear_caches()


_cache_limit = _CacheLimit()


def _load_step(path: Path, parts: dict[str, bytes], inputs: Inputs, start: tuple[Array, ...]) -> Callable[..., Any]:
    """The batched program as a function that checks the program's cost for each new batch size."""
    references = {
        name: _reference_program(_arguments(batch, inputs, start))
        for name, batch in zip(PROGRAMS, ((), _symbolic_batch()), strict=True)
    }
    try:
        modules = {name: _extract_module(name, part) for name, part in parts.items()}
        cleaned = clean_programs(modules, {name: _signature(program, inputs) for name, program in references.items()})
    except programs.ProgramRefused as error:
        raise DamagedFile(f"{path}: {error}.") from error
    _cache_limit.note(cleaned["steps.bin"], _arguments((), inputs, start))
    program = replace(references["steps.bin"], mlir_module_serialized=cleaned["steps.bin"])

    @cache
    def check(agents: int) -> None:
        try:
            _check_for_batch(program, _arguments((agents,), inputs, start), agents)
        except programs.ProgramRefused as error:
            raise DamagedFile(f"{path}: steps.bin {error}.") from error

    def steps(*arguments):
        if isinstance(agents := arguments[1].shape[0], int):  # symbolic while exporting again; checked on loading
            check(agents)
        return program.call(*arguments)

    check(1)
    return steps


def _extract_module(name: str, part: bytes) -> bytes:
    """The program inside a serialized `jax.export` container; the rest of the container is ignored."""
    from jax._src.export.serialization_generated import Exported

    try:
        return bytes(Exported.GetRootAs(part).MlirModuleSerializedAsNumpy())
    except Exception as error:  # flatbuffers may raise anything on damaged bytes
        raise programs.ProgramRefused(f"{name} cannot be read: {describe_exception(error)}") from error


@lru_cache(maxsize=16)
def _reference_program(shapes: tuple) -> export.Exported:
    """A trusted program with the signature of a step, whose container is used around programs from files."""
    return _export_program(lambda key, observation, reward, *rest: (reward.astype(jnp.int32), rest[-1]), shapes)


def _signature(program: export.Exported, inputs: Inputs) -> Signature:
    """Names and types of a step's arguments and results."""
    arguments, outputs = programs.signature(programs.read_module(program.mlir_module_serialized))
    memory = [f"memory[{number}]" for number in range(len(outputs) - 1)]
    names = ("platform", "key", "observation", "reward", "done", *inputs.further, *memory)
    named = [*zip(names, arguments, strict=True)]
    return named, [*zip(("action", *memory), outputs, strict=True)]


def _check_for_batch(program: export.Exported, shapes: tuple, agents: int) -> None:
    """Raise ProgramRefused unless a program is allowed for this number of agents, which fixes all its sizes."""
    from jax._src.interpreters.mlir import refine_polymorphic_shapes

    try:
        lowered: Any = jax.jit(program.call).lower(*shapes).compiler_ir("stablehlo")
        refined = refine_polymorphic_shapes(lowered)
    except Exception as error:  # jax and its compiler may raise anything
        raise programs.ProgramRefused(
            f"has sizes that cannot be found for {agents} agents: {describe_exception(error)}"
        ) from error
    programs.check_module(refined, agents)


def load_saved(path: Path) -> tuple[Population | Policy, dict[str, Any]]:
    """Load a population or an agent, exported or not, by the content of its file; also returns its description."""
    if _is_zip(path):
        policy = load_exported(path)
        return policy, policy.about
    if load_tensors(path)[1].get("format") == POPULATION_FORMAT:
        return load_population(path)
    return load_agent_policy(path)


def _is_zip(path: Path) -> bool:
    """Whether this is a zip file, even if its end, which holds the central directory, is missing."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(path)


def _merge_batch_axes(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one batch axis work under `vmap`, which merges further axes into that one."""

    @custom_vmap
    def step(*arguments):
        return call(*arguments)

    @step.def_vmap
    def _(size, batched, *arguments):
        full = jax.tree.map(lambda x, b: x if b else jnp.broadcast_to(x, (size, *x.shape)), arguments, tuple(batched))
        merged = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), full)
        split = jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), step(*merged))
        return split, jax.tree.map(lambda x: True, split)

    return step


def require_flatbuffers() -> None:
    """Raise ValueError unless exported agents can be written and read."""
    try:
        import flatbuffers  # noqa: F401
    except ImportError as error:
        raise ValueError("Exported agents need flatbuffers: install coverset[export].") from error
