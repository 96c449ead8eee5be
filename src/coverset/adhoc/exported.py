"""Agents for people without coverset: one step of an agent, weights baked in, as compiled programs in a zip file.

    about.json             what the agent is for, and the shapes below
    initial_memory.bin     () -> memory
    step.bin               (key, observation, reward, done, memory) -> (action, memory)
    steps.bin              the same for any number of agents at once: every array has a leading axis

The programs are those of `jax.export` and run with jax and flatbuffers alone; see docs/study.md for an example. `done`
says that the step before ended an episode; at the first step with a partner memory is the initial one, and neither
`done` nor `reward` matters. Memory is a plain tuple of arrays. Reading a file runs no Python code from it, and programs
that call anything outside of themselves are refused.
"""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import export
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Int

from coverset.adhoc.agent import AdHocPolicy, feature_size
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

FORMAT = "coverset exported agent 1"
EXPORT_FILE = "agent.zip"
SEATS = {"best-responses": 0, "teammates": 1}
"""Halves of a population, and where they sit."""
PARTS = ("initial_memory.bin", "step.bin", "steps.bin")
PLATFORMS = ("cpu", "cuda", "tpu")
STILL = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that the same agent gives the same bytes."""
HARMLESS_CALLS = {"shape_assertion", "cu_threefry2x32_ffi", "annotate_device_placement", "Sharding"}
"""What a program may call that is not part of it: checks of shapes, and random numbers on graphics cards."""


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
    write_bytes(target, _archive(_programs(policy, shape[0]), {"format": FORMAT, **shapes, **about}))
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


def _programs(policy: Policy, size: int) -> dict[str, bytes]:
    """The parts of an exported agent that reads so many numbers, as bytes."""
    start, structure = _flat_memory(policy)
    step = partial(_step, policy, structure)
    (several,) = export.symbolic_shape("n")
    one, many = _arguments((), size, start), _arguments((several,), size, start)
    programs = zip(PARTS, (lambda: start, step, jax.vmap(step)), ((), one, many), strict=True)
    with _no_traces():
        return {name: _program(function, shapes) for name, function, shapes in programs}


def _program(function: Callable[..., Any], shapes: tuple) -> bytes:
    try:
        program = export.export(jax.jit(function), platforms=PLATFORMS)(*shapes)
    except Exception as error:  # whatever a policy of others may raise
        raise ValueError(f"policy cannot be compiled for {', '.join(PLATFORMS)}: {raised(error)}.") from error
    if calls := _outside_calls(program):
        raise ValueError(f"policy must keep to itself in order to be exported, but it calls '{min(calls)}'.")
    return bytes(program.serialize())


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


def _archive(parts: dict[str, bytes], about: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        content = {"about.json": json.dumps(about, indent=2, sort_keys=True).encode(), **parts}
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name, STILL), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


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
    """Read what `export_agent` or `export_policy` wrote, and check that its programs take and give what they should."""
    _require_flatbuffers()
    path = Path(path)
    about, parts = _read(path)
    try:
        programs = {name: export.deserialize(bytearray(data)) for name, data in parts.items()}
    except Exception as error:  # flatbuffers raises whatever its bytes lead it to
        raise DamagedFile(f"{path} holds a program that cannot be read: {raised(error)}.") from error
    start = _start(path, programs["initial_memory.bin"])
    _check_shapes(path, programs["step.bin"], _arguments((), about["observation_size"], start))
    (several,) = export.symbolic_shape("n")
    _check_shapes(path, programs["steps.bin"], _arguments((several,), about["observation_size"], start))
    step = _batched(_called(path, programs["steps.bin"]))
    return ExportedPolicy(
        start,
        Programs(b"".join(parts.values()), step),
        about["observation_size"],
        about["num_actions"],
        json.dumps(about),
    )


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


def _read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            parts = {name: archive.read(name) for name in PARTS}
    except Exception as error:  # encrypted or packed in another way: the zip format has many
        raise DamagedFile(f"{path} is damaged or not an exported agent: {raised(error)}.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise DamagedFile(f"{path} does not hold '{FORMAT}'.")
    for name, kind in (("observation_size", int), ("num_actions", int), ("env", str), ("env_parameters", dict)):
        if not isinstance(about.get(name), kind):
            raise DamagedFile(f"{path}: {name} is missing from about.json or is not of type {kind.__name__}.")
    return about, parts


def _start(path: Path, program: export.Exported) -> tuple[Array, ...]:
    """Memory at the start of a trial."""
    if program.in_avals:
        raise DamagedFile(f"{path}: initial_memory takes {len(program.in_avals)} arguments where it should take none.")
    return tuple(jnp.asarray(leaf) for leaf in jax.tree.leaves(_called(path, program)()))


def _called(path: Path, program: export.Exported) -> Callable[..., Any]:
    """The program as a function, if it keeps to itself."""
    if calls := _outside_calls(program):
        raise DamagedFile(f"{path} calls '{min(calls)}', which no exported agent does.")
    return program.call


def _outside_calls(program: export.Exported) -> set[str]:
    """What a program calls that is not part of it, beyond what is harmless."""
    return set(re.findall(r"custom_call\s+@(\w+)", program.mlir_module())) - HARMLESS_CALLS


def _check_shapes(path: Path, program: export.Exported, wanted: tuple) -> None:
    """Raise unless a program takes the arguments of a step, and gives an action and memory of the same shapes."""
    named = {"key": wanted[0], "observation": wanted[1], "reward": wanted[2], "done": wanted[3]}
    memory = {f"memory[{n}]": leaf for n, leaf in enumerate(wanted[4])}
    action = {"action": jax.ShapeDtypeStruct(wanted[2].shape, jnp.int32)}
    for given, fields in ((program.in_avals, named | memory), (program.out_avals, action | memory)):
        if len(given) != len(fields):
            raise DamagedFile(f"{path}: a step has {len(fields)} arrays, but this program has {len(given)}.")
        for (name, leaf), got in zip(fields.items(), given, strict=True):
            if str(got.dtype) != str(leaf.dtype) or str(got.shape) != str(leaf.shape):
                shapes = f"{leaf.dtype}{list(leaf.shape)}, got {got.dtype}{list(got.shape)}"
                raise DamagedFile(f"{path}: {name} must be {shapes}.")


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
