"""Agents for people without coverset: one step of an agent, weights baked in, as compiled programs in a zip file.

`coverset.adhoc.archive` lists what stands in the file. The programs are those of `jax.export` and run with jax and
flatbuffers alone; see docs/study.md for an example. `done` says that the step before ended an episode; at the first
step with a partner memory is the initial one, and neither `done` nor `reward` matters. Memory is a plain tuple of
arrays.

Reading a file runs nothing from it. Of what jax.export writes around a program only the program is looked at: types of
arguments, platforms and effects are those of a step, whatever the file says. The program itself is read, checked and
written anew by `coverset.adhoc.guard`, and checked again for each number of agents that it is to play for, before it is
compiled: see `coverset.adhoc.programs` for what it may do.
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

from coverset.adhoc import programs
from coverset.adhoc.agent import AdHocPolicy, feature_size
from coverset.adhoc.archive import PROGRAMS, pack, read_archive
from coverset.adhoc.guard import Signature, clean_programs
from coverset.adhoc.plastic import PlasticPolicy
from coverset.adhoc.saved import load_agent_policy
from coverset.checks import between, one_of, raised
from coverset.envs import registry
from coverset.policies.base import Policy
from coverset.policies.fitting import check_policy
from coverset.policies.networks import NetworkPolicy
from coverset.policies.population import FORMAT as POPULATION_FORMAT
from coverset.policies.population import Population, load_population
from coverset.storage import DamagedFile, jsonable, load_tensors, write_bytes
from coverset.types import Percept, PRNGKey, PyTree

EXPORT_FILE = "agent.zip"
SEATS = {"best-responses": 0, "teammates": 1}
"""Halves of a population, and where they sit."""
PLATFORMS = ("cpu", "cuda", "tpu")
MOST_KEPT = 96 << 20
"""Bytes of programs after which jax's caches, which never let go of a program that was called, are emptied."""
KEPT_BY_SHAPE = 3 << 20
"""What they keep, as far as we measured, for each shape of arguments: traces and lowered modules."""


def export_agent(
    agent: str | Path, out: str | Path | None = None, *, role: str | None = None, member: int | None = None
) -> Path:
    """Write an agent, or one member of a population, as a file that runs with jax alone.

    Args:
      agent: the directory or the file of an agent that `train` has written; with `role` and `member`, those of one seed
        that `generate` has written.
      out: where to; if not given `agent.zip` beside the agent, or such as `teammate-1.zip` beside the population.
      role: half of a population, `teammates` or `best-responses`.
      member: which of them, counted from 1.
    Returns:
      The path of the file.
    """
    _require_flatbuffers()
    if (role is None) != (member is None):
        raise ValueError(f"role and member must be given together or not at all, got {role!r} and {member!r}.")
    path = Path(agent)
    if role is None or member is None:
        file, name = _file(path, "agent.safetensors", "agent", "coverset train"), EXPORT_FILE
        policy, about = load_agent_policy(file)
    else:
        file = _file(path, "policies.safetensors", "population", "coverset generate")
        name = f"{role.removesuffix('s')}-{member}.zip"
        policy, about = _member(file, role, member)
    target = Path(out) if out is not None else file.parent / name
    return _write("out", target, policy, shape_of(policy), _origin(about))


def export_policy(
    policy: Policy, env: str, seat: int, path: str | Path, *, env_parameters: dict[str, Any] | None = None
) -> Path:
    """Write any policy as a file that runs with jax alone, and is a partner wherever partners are named.

    Args:
      policy: whatever acts in one seat; it may call nothing outside of compiled programs, as plain Python would be.
      env: the environment that it plays, as for `make`.
      seat: where it sits, 0 or 1.
      path: the file, such as `mine.zip`.
      env_parameters: parameters of the environment.
    Returns:
      The path of the file.
    """
    _require_flatbuffers()
    between("seat", seat, 0, 1)
    environment = registry.make(env, **(env_parameters or {}))
    check_policy("policy", policy, environment, seat=seat)
    parameters = registry.recorded_parameters(env, environment, env_parameters or {})
    about = {"env": env, "env_parameters": jsonable(parameters), "seat": seat}
    return _write("path", Path(path), policy, (environment.observation_size, environment.num_actions[seat]), about)


def _write(name: str, target: Path, policy: Policy, shape: tuple[int, int], about: dict[str, Any]) -> Path:
    """Write a policy that reads and chooses among so many, and what it is for."""
    if target.is_dir():
        raise ValueError(f"{name} must be a file, but {target} is a directory.")
    shapes = {"observation_size": shape[0], "num_actions": shape[1]}
    start, structure = _flat_memory(policy)
    parts = _programs(policy, shape[0], start, structure)
    write_bytes(target, pack(parts, tuple(np.asarray(leaf, order="C") for leaf in start), {**shapes, **about}))
    return target


def _file(path: Path, name: str, content: str, command: str) -> Path:
    """The file that a path means, itself or within a directory."""
    file = path / name if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no {content}: make one with `{command}`.")
    return file


def _member(file: Path, role: str, member: int) -> tuple[Policy, dict[str, Any]]:
    """One policy of a population, and what it is for: best responses sit in seat 0, teammates in seat 1."""
    one_of("role", role, SEATS)
    population, about = load_population(file)
    stacked: NetworkPolicy = getattr(population, role.replace("-", "_"))
    between("member", member, 1, stacked.mlp.weights[0].shape[0])
    policy = jax.tree.map(lambda x: x[member - 1], stacked)
    return policy, {**about, "seat": SEATS[role], "role": role, "member": member}


def _origin(about: dict[str, Any]) -> dict[str, Any]:
    names = ("env", "env_parameters", "seat", "seed", "learner", "role", "member")
    return {name: about[name] for name in names if name in about}


def shape_of(policy: Policy) -> tuple[int, int]:
    """How many numbers a policy reads, and among how many actions it chooses; stacked or not."""
    match policy:
        case AdHocPolicy(actor=actor, num_actions=actions):
            return actor.encoder.sizes[0] - feature_size(0, actions, recurrent=actor.recurrent), actor.head.sizes[-1]
        case PlasticPolicy(library=NetworkPolicy(mlp=mlp)) | NetworkPolicy(mlp=mlp):
            return mlp.sizes[0], mlp.sizes[-1]
        case ExportedPolicy():
            return policy.observation_size, policy.num_actions
    raise TypeError(f"A policy of type {type(policy).__name__} does not tell its shape.")


def _programs(policy: Policy, size: int, start: tuple, structure: Any) -> dict[str, bytes]:
    """The programs of an exported agent that reads so many numbers, as bytes."""
    step = partial(_step, policy, structure)
    one, many = _arguments((), size, start), _arguments(_several(), size, start)
    with _no_traces():
        made = {"step.bin": _program(step, one), "steps.bin": _program(jax.vmap(step), many)}
    try:
        for program in made.values():
            programs.check_module(programs.read_module(program.mlir_module_serialized))
        _check_for(made["steps.bin"], _arguments((1,), size, start), 1)
    except programs.Refused as error:
        raise ValueError(f"policy cannot be exported: its step {error}.") from error
    return {name: bytes(program.serialize()) for name, program in made.items()}


@cache
def _several() -> tuple:
    """The axis of any number of agents; always the same, so that jax knows a program that it has seen before."""
    return tuple(export.symbolic_shape("n"))


def _program(function: Callable[..., Any], shapes: tuple) -> export.Exported:
    """Compile a step; what it does not use stays among its arguments, so that all programs take the same."""
    try:
        return export.export(jax.jit(function, keep_unused=True), platforms=PLATFORMS)(*shapes)
    except Exception as error:  # whatever a policy of others may raise
        raise ValueError(f"policy cannot be compiled for {', '.join(PLATFORMS)}: {raised(error)}.") from error


@contextmanager
def _no_traces() -> Iterator[None]:
    """Keep files and lines of this machine out of the programs: the same agent gives the same bytes anywhere."""
    option = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, option)
    jax.config.update(option, 0)
    try:
        yield
    finally:
        jax.config.update(option, before)


def _flat_memory(policy: Policy) -> tuple[tuple[Array, ...], Any]:
    """Memory at the start of a trial as a tuple of arrays: first whether a step was taken, then the policy's own."""
    leaves, structure = jax.tree.flatten(policy.initial_memory())
    return (jnp.bool_(False), *map(jnp.asarray, leaves)), structure


def _step(
    policy: Policy, structure: Any, key: PRNGKey, observation: Array, reward: Array, done: Array, memory: tuple
) -> tuple[Array, tuple]:
    """One step with arguments that need none of our types. What came before the first step is not looked at."""
    started, *leaves = memory
    percept = Percept(observation, jnp.where(started, reward, 0.0), done | ~started)
    action, after = policy.act(key, percept, jax.tree.unflatten(structure, leaves))
    return jnp.asarray(action, jnp.int32), (jnp.bool_(True), *jax.tree.leaves(after))


def _arguments(batch: tuple, observation_size: int, memory: tuple) -> tuple:
    """Shapes of the arguments of a step; `batch` stands before each."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    like = [key, jax.ShapeDtypeStruct((observation_size,), jnp.float32), jnp.float32(0.0), jnp.bool_(False)]
    batched = [jax.ShapeDtypeStruct((*batch, *x.shape), x.dtype) for x in (*like, *memory)]
    return (*batched[:4], tuple(batched[4:]))


class _Kept:
    """Counts what jax's caches hold of programs from files, so that a process can read any number of them."""

    def __init__(self) -> None:
        self.sizes: dict[Hashable, int] = {}
        self.lock = Lock()

    def note(self, program: bytes, arguments: Hashable) -> None:
        """A program is about to be called; the same one, and the same shapes of arguments, take no further room."""
        with self.lock:
            self.sizes |= {sha256(program).digest(): len(program), arguments: KEPT_BY_SHAPE}
            if sum(self.sizes.values()) > MOST_KEPT:
                self.sizes.clear()
                _like.cache_clear()
                jax.clear_caches()


_kept = _Kept()


class Programs:
    """The compiled programs of a file; two readings of the same file are equal."""

    def __init__(self, data: bytes, step: Callable[..., Any]) -> None:
        self.data = data
        self.step = step

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Programs) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)


class ExportedPolicy(Policy):
    """An exported agent behind the policy interface: a partner like any other."""

    start: tuple[Array, ...]
    """Memory at the start of a trial."""
    programs: Programs = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    description: str = eqx.field(static=True)

    @property
    def about(self) -> dict[str, Any]:
        """What the agent was made for."""
        return json.loads(self.description)

    def initial_memory(self) -> tuple[Array, ...]:
        return self.start

    def act(self, key: PRNGKey, percept: Percept, memory: PyTree) -> tuple[Int[Array, ""], PyTree]:
        one = jax.tree.map(lambda x: x[None], (key, *percept, memory))
        return jax.tree.map(lambda x: x[0], self.programs.step(*one))


def load_exported(path: str | Path) -> ExportedPolicy:
    """Read what `export_agent` or `export_policy` wrote, and check that its programs take and give what they should.

    Raises:
      DamagedFile: the file is not what they wrote, or its programs do what no step of an agent does.
    """
    _require_flatbuffers()
    path = Path(path)
    about, memory, parts = read_archive(path)
    start = tuple(jnp.asarray(leaf) for leaf in memory)
    step = _batched(_steps(path, parts, about["observation_size"], start))
    data = b"".join((*parts.values(), *(leaf.tobytes() for leaf in memory)))
    return ExportedPolicy(
        start, Programs(data, step), about["observation_size"], about["num_actions"], json.dumps(about)
    )


def _steps(path: Path, parts: dict[str, bytes], size: int, start: tuple[Array, ...]) -> Callable[..., Any]:
    """The program of several agents as a function, which checks what it costs for each number of agents."""
    likes = {
        name: _like(_arguments(batch, size, start)) for name, batch in zip(PROGRAMS, ((), _several()), strict=True)
    }
    try:
        modules = {name: _module(name, part) for name, part in parts.items()}
        cleaned = clean_programs(modules, {name: _signature(like) for name, like in likes.items()})
    except programs.Refused as error:
        raise DamagedFile(f"{path}: {error}.") from error
    _kept.note(cleaned["steps.bin"], _arguments((), size, start))
    program = replace(likes["steps.bin"], mlir_module_serialized=cleaned["steps.bin"])

    @cache
    def check(agents: int) -> None:
        try:
            _check_for(program, _arguments((agents,), size, start), agents)
        except programs.Refused as error:
            raise DamagedFile(f"{path}: steps.bin {error}.") from error

    def steps(*arguments):
        if isinstance(agents := arguments[1].shape[0], int):  # else it is exported again, and checked when that is read
            check(agents)
        return program.call(*arguments)

    check(1)
    return steps


def _module(name: str, part: bytes) -> bytes:
    """The program within what jax.export has written; nothing else of it is looked at."""
    from jax._src.export.serialization_generated import Exported

    try:
        return bytes(Exported.GetRootAs(part).MlirModuleSerializedAsNumpy())
    except Exception as error:  # flatbuffers raises whatever its bytes lead it to
        raise programs.Refused(f"{name} cannot be read: {raised(error)}") from error


@lru_cache(maxsize=16)
def _like(shapes: tuple) -> export.Exported:
    """A program of our own that takes and gives what a step does, with everything around it that jax.export needs."""
    return _program(lambda key, observation, reward, done, memory: (reward.astype(jnp.int32), memory), shapes)


def _signature(program: export.Exported) -> Signature:
    """Names and types of what a step takes and gives."""
    takes, gives = programs.signature(programs.read_module(program.mlir_module_serialized))
    memory = [f"memory[{number}]" for number in range(len(gives) - 1)]
    named = [*zip(("platform", "key", "observation", "reward", "done", *memory), takes, strict=True)]
    return named, [*zip(("action", *memory), gives, strict=True)]


def _check_for(program: export.Exported, shapes: tuple, agents: int) -> None:
    """Raise Refused unless a program is allowed for so many agents: only then all sizes in it are known."""
    from jax._src.interpreters.mlir import refine_polymorphic_shapes

    try:
        lowered: Any = jax.jit(program.call).lower(*shapes).compiler_ir("stablehlo")
        refined = refine_polymorphic_shapes(lowered)
    except Exception as error:  # whatever jax and its compiler find
        raise programs.Refused(f"has sizes that cannot be found for {agents} agents: {raised(error)}") from error
    programs.check_module(refined, agents)


def load_saved(path: Path) -> tuple[Population | Policy, dict[str, Any]]:
    """Read a file of policies, whatever it is called: a population or an agent, exported or not; and what it is for."""
    if _is_zip(path):
        policy = load_exported(path)
        return policy, policy.about
    if load_tensors(path)[1].get("format") == POPULATION_FORMAT:
        return load_population(path)
    return load_agent_policy(path)


def _is_zip(path: Path) -> bool:
    """Whether this is a zip file, even if its end, where the list of its entries stands, was cut off."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(path)


def _batched(call: Callable[..., Any]) -> Callable[..., Any]:
    """A program over a leading axis as a function that `vmap` can give further axes: they are merged into that one."""

    @custom_vmap
    def step(*arguments):
        return call(*arguments)

    @step.def_vmap
    def _(size, batched, *arguments):
        full = jax.tree.map(lambda x, b: x if b else jnp.broadcast_to(x, (size, *x.shape)), arguments, tuple(batched))
        merged = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), full)
        apart = jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), step(*merged))
        return apart, jax.tree.map(lambda x: True, apart)

    return step


def _require_flatbuffers() -> None:
    try:
        import flatbuffers  # noqa: F401
    except ImportError as error:
        raise ValueError("Exported agents need flatbuffers: install coverset[export].") from error
