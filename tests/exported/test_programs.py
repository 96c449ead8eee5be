"""Programs that do anything but compute, or that may not end, are refused before they are compiled: real files."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import export, lax
from jax._src import effects

from coverset.exported import archive, programs, sandbox
from coverset.exported.file import ExportedPolicy, export_policy, load_exported
from coverset.exported.programs import ProgramRefused
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile
from coverset.types import Percept
from hostile_exports import STEP, Remembering, compiled, enclosed, entries, with_step, with_steps, write

CALLBACK = "xla_ffi_python_cpu_callback"
CALL = f"%evil = stablehlo.custom_call @{CALLBACK}(%next) : (tensor<i32>) -> tensor<i32>"
EVIL = f"""func.func private @evil(%next: tensor<i32>) -> tensor<i32> {{
  {CALL}
  return %evil : tensor<i32>
}}"""
LOOP = """
%zero = stablehlo.constant dense<0> : tensor<i32>
%one = stablehlo.constant dense<{by}> : tensor<i32>
%end = stablehlo.constant dense<{end}> : tensor<i32>
%counted = stablehlo.while(%i = %zero) : tensor<i32>
  cond {{
    %go = stablehlo.compare {direction}, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    {inside}
    %after = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %after : tensor<i32>
  }}
"""


def loop(end: int = 5, by: int = 1, direction: str = "LT", inside: str = "") -> str:
    return LOOP.format(end=end, by=by, direction=direction, inside=inside)


def wide(size: int) -> str:
    return f"%wide = stablehlo.iota dim = 0 : tensor<{size}xf32>"


CALLERS = {
    "plainly": (CALL, "", ""),
    "in a branch": (
        f'%x = "stablehlo.case"(%next) ({{\n{CALL}\nstablehlo.return %evil : tensor<i32>\n}}) '
        ": (tensor<i32>) -> tensor<i32>",
        "",
        "",
    ),
    "in a loop": (loop(inside=CALL), "", ""),
    "in a function that is called": ("%x = call @evil(%next) : (tensor<i32>) -> tensor<i32>", EVIL, ""),
    "in a function that nobody calls": ("", EVIL, ""),
    "in generic syntax": (
        f'%x = "stablehlo.custom_call"(%next) {{call_target_name = "{CALLBACK}"}} : (tensor<i32>) -> tensor<i32>',
        "",
        "",
    ),
    "by escaped characters": (CALL.replace(f"@{CALLBACK}", f'@"{CALLBACK.replace("_", chr(92) + "5F")}"'), "", ""),
    "in a composite": (
        '%x = stablehlo.composite "chlo.erf" %next {decomposition = @evil} : (tensor<i32>) -> tensor<i32>',
        EVIL,
        "",
    ),
    "in the function that sums": (
        '%x = "stablehlo.reduce"(%observation, %reward) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
        f"{CALL}\n%c = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %c : tensor<f32>\n}})"
        " {dimensions = array<i64: 0>} : (tensor<1xf32>, tensor<f32>) -> tensor<f32>",
        "",
        "",
    ),
}
"""Ways to call Python from within a program."""


def custom(target: str, more: str = "") -> str:
    return f'%x = stablehlo.custom_call @"{target}"(%next) {{{more}}} : (tensor<i32>) -> tensor<i32>'


OTHERS = {
    "an allowed name and more": (custom("shape_assertion2"), "", "", "calls 'shape_assertion2'"),
    "an allowed name at the end": (custom("my.shape_assertion"), "", "", "calls 'my.shape_assertion'"),
    "an allowed name and a null": (custom(r"shape_assertion\00evil"), "", "", r"calls 'shape_assertion\\x00evil'"),
    "an allowed name and a quote": (custom(r"shape_assertion\22"), "", "", "calls 'shape_assertion\"'"),
    "no text": (custom(r"shape_assertion\FF"), "", "", r"calls 'shape_assertion\\\\xff'"),
    "an allowed call that calls": (
        custom("shape_assertion", "called_computations = [@evil]"),
        EVIL.replace(CALLBACK, "shape_assertion"),
        "",
        "functions called by 'shape_assertion'",
    ),
    "another composite": (
        '%x = stablehlo.composite "xla.evil" %next {decomposition = @same} : (tensor<i32>) -> tensor<i32>',
        "func.func private @same(%x: tensor<i32>) -> tensor<i32> {\nreturn %x : tensor<i32>\n}",
        "",
        "composite 'xla.evil'",
    ),
    "a function from elsewhere": (
        "%x = call @outside(%next) : (tensor<i32>) -> tensor<i32>",
        "func.func private @outside(tensor<i32>) -> tensor<i32>",
        "",
        "function 'outside' of 0 blocks",
    ),
    "tokens": ("%t = stablehlo.create_token : !stablehlo.token", "", "", "create_token"),
    "a feed": (
        "%t = stablehlo.after_all : !stablehlo.token\n"
        '%x:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)',
        "",
        "",
        "stablehlo.after_all",
    ),
    "other devices": ("%x = stablehlo.replica_id : tensor<ui32>", "", "", "stablehlo.replica_id"),
    "a module within": ("", "module @inner {\n" + EVIL + "\n}", "", "'builtin.module' beside its functions"),
    "a mesh": ("", 'sdy.mesh @mesh = <["x"=8]>', "", "'sdy.mesh' beside its functions"),
    "devices": ("", "", "attributes {mhlo.num_partitions = 8 : i32}", "mhlo.num_partitions 8"),
    "notes for compilers": (
        "",
        "",
        'attributes {mhlo.frontend_attributes = {evil = "yes"}}',
        "mhlo.frontend_attributes",
    ),
    "an array with bounds": (
        "",
        "func.func private @odd(%x: tensor<?xf32, #stablehlo.bounds<8>>) {\nreturn\n}",
        "",
        "values of type tensor<.xf32, #stablehlo.bounds<8>>",
    ),
    "an endless loop": (loop(by=0), "", "", "a loop that does not count"),
    "a loop that jumps over its end": (loop(by=2**31 - 1), "", "", "a loop that does not count"),
    "a loop that ends elsewhere": (loop(direction="NE", end=-1), "", "", "a loop that does not count"),
    "a long loop": (loop(end=2**30), "", "", "a loop that does not count"),
    "a loop with much to do": (loop(end=10**6, inside=wide(1000)), "", "", "operations for each agent"),
    "a large array": (wide(10**9), "", "", "needs [0-9]+ operations"),
    "many arrays": ("\n".join(wide(10**6).replace("%wide", f"%w{n}") for n in range(25)), "", "", "[0-9]+ bytes for"),
    "calls of calls": (
        "",
        "\n".join(
            f"func.func private @f{n}() {{\ncall @f{n + 1}() : () -> ()\ncall @f{n + 1}() : () -> ()\nreturn\n}}"
            for n in range(25)
        )
        + "\nfunc.func private @f25() {\nreturn\n}",
        "",
        "[0-9]+ instructions",
    ),
    "deep calls": (
        "",
        "\n".join(
            f"func.func private @f{n}() {{\n{f'call @f{n - 1}() : () -> ()' if n else ''}\nreturn\n}}"
            for n in range(40)
        ),
        "",
        "levels of nesting",
    ),
    "a function that calls itself": (
        "",
        "func.func private @f() {\ncall @f() : () -> ()\nreturn\n}",
        "",
        "calls itself",
    ),
}
"""What else no agent does: body, what stands beside main, notes of the module, and what is said of it."""


class Busy(Policy):
    """Does what honest agents may do: loops that count, random numbers, sorting, branches, composite operations."""

    def initial_memory(self):
        return {"carried": jnp.zeros(4), "steps": jnp.int32(0)}

    def act(self, key, percept, memory):
        noise = jax.random.normal(key, (4,)) + jax.random.permutation(key, 4).astype(jnp.float32)
        total, _ = lax.scan(lambda carry, x: (carry + x, carry), 0.0, noise)
        total = lax.fori_loop(0, 7, lambda turn, x: x * 0.5 + jnp.float32(turn), total)
        best = lax.top_k(memory["carried"] + jnp.sort(noise) + jax.scipy.special.erf(total), 2)[1][0]
        action = lax.switch(best, [lambda: 0, lambda: 1, lambda: 2, lambda: memory["steps"] % 3])
        return action, {"carried": memory["carried"].at[best].add(percept.reward), "steps": memory["steps"] + 1}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """An honest file, whose parts are replaced."""
    return export_policy(Remembering(), "matrix", 1, tmp_path_factory.mktemp("source") / "source.zip")


def actions(policy: Policy, steps: int = 5) -> list[int]:
    chosen, memory = [], policy.initial_memory()
    act = eqx.filter_jit(policy.act)
    for number in range(steps):
        percept = Percept(jnp.ones(1), jnp.float32(number), jnp.bool_(number == 0))
        action, memory = act(jax.random.key(number), percept, memory)
        chosen.append(int(action))
    return chosen


@pytest.mark.parametrize("way", CALLERS)
def test_calls_of_python_are_found_wherever_they_are(way: str, source: Path, tmp_path: Path) -> None:
    body, beside, top = CALLERS[way]
    file = with_step(source, tmp_path / "hostile.zip", body, beside, top)
    with pytest.raises(DamagedFile, match=f"hostile.zip: step.bin calls '{CALLBACK}', which no exported agent does.$"):
        load_exported(file)


@pytest.mark.parametrize("way", OTHERS)
def test_what_no_agent_does_is_refused(way: str, source: Path, tmp_path: Path) -> None:
    """Parsed here, as a process for each would take most of the time; the tests beside this one read the files."""
    body, beside, top, message = OTHERS[way]
    file = with_step(source, tmp_path / "hostile.zip", body, beside, top)
    part = export.deserialize(bytearray(entries(file)["step.bin"]))
    with pytest.raises(ProgramRefused, match=message):
        programs.check_module(programs.read_module(part.mlir_module_serialized))


@pytest.mark.parametrize("way", ["an endless loop", "a large array", "calls of calls"])
def test_files_that_would_take_all_time_or_memory_are_refused(way: str, source: Path, tmp_path: Path) -> None:
    body, beside, top, message = OTHERS[way]
    with pytest.raises(DamagedFile, match=message):
        load_exported(with_step(source, tmp_path / "hostile.zip", body, beside, top))


GROWING = """
%n = stablehlo.get_dimension_size %key, dim = 0 : (tensor<?x2xui32>) -> tensor<i32>
%one = stablehlo.constant dense<{when}> : tensor<i32>
%many = stablehlo.constant dense<1000000000> : tensor<i32>
%above = stablehlo.subtract %n, %one : tensor<i32>
%size = stablehlo.multiply %above, %many : tensor<i32>
%sizes = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
%wide = stablehlo.dynamic_iota %sizes, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
%zero = stablehlo.constant dense<0> : tensor<i32>
%sum = stablehlo.reduce(%wide init: %zero) applies stablehlo.add across dimensions = [0]
  : (tensor<?xi32>, tensor<i32>) -> tensor<i32>
%ns = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
%chosen = stablehlo.dynamic_broadcast_in_dim %sum, %ns, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>
"""
"""An array of no elements for some number of agents, and of a thousand million for one agent more."""


def test_arrays_that_grow_with_the_number_of_agents_are_found_when_it_is_known(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=r"at-once\.zip: steps\.bin needs [0-9]+ operations for each agent"):
        load_exported(with_steps(source, tmp_path / "at-once.zip", GROWING.format(when=0)))
    policy = load_exported(with_steps(source, tmp_path / "later.zip", GROWING.format(when=1)))
    assert play(policy, 1) == [0]
    with pytest.raises(DamagedFile, match=r"later\.zip: steps\.bin needs [0-9]+ operations for each agent"):
        play(policy, 2)


def play(policy: ExportedPolicy, agents: int) -> list[int]:
    keys = jax.random.split(jax.random.key(0), agents)
    percept = Percept(jnp.ones(1), jnp.float32(0.0), jnp.bool_(True))
    return jax.vmap(lambda key: policy.act(key, percept, policy.initial_memory())[0])(keys).tolist()


class Noticing:
    """A node of a tree that notices when somebody rebuilds it."""

    seen: ClassVar[list[bytes]] = []


class Lying(effects.Effect):
    """An effect that no step has."""

    def __eq__(self, other) -> bool:
        return isinstance(other, Lying)

    def __hash__(self) -> int:
        return hash(Lying)


def test_what_stands_around_a_program_has_no_say(source: Path, tmp_path: Path) -> None:
    """Types, trees, platforms, devices, effects: they are those of a step, whatever the file says."""
    jax.tree_util.register_pytree_node(Noticing, lambda node: ((), b"evil"), lambda data, children: Noticing())
    export.register_pytree_node_serialization(
        Noticing, serialized_name="noticing", serialize_auxdata=bytes, deserialize_auxdata=Noticing.seen.append
    )
    effects.lowerable_effects.add_type(Lying)
    content = entries(source)
    like = export.deserialize(bytearray(content["steps.bin"]))
    lies = {
        "in_avals": like.in_avals[::-1],
        "out_avals": like.out_avals[:1],
        "in_tree": jax.tree.structure(((Noticing(),), {})),
        "platforms": ("tpu",),
        "nr_devices": 4096,
        "module_kept_var_idx": (0, 65535),
        "calling_convention_version": 99,
        "uses_global_constants": False,
        "ordered_effects": (Lying(),),
        "unordered_effects": (Lying(),),
        "disabled_safety_checks": (export.DisabledSafetyCheck.custom_call("ALL"),),
    }
    content["steps.bin"] = enclosed(content["steps.bin"], like.mlir_module_serialized, **lies)
    assert actions(load_exported(write(tmp_path / "lies.zip", content))) == [0, 1, 2, 0, 1]
    assert Noticing.seen == []


def test_programs_of_other_shapes_are_refused_by_the_field_that_differs(source: Path, tmp_path: Path) -> None:
    content = entries(source)
    content["about.json"] = content["about.json"].replace(b'"observation_size": 1', b'"observation_size": 4')
    with pytest.raises(
        DamagedFile, match=r"step\.bin does not fit: observation must be tensor<4xf32>, got tensor<1xf32>"
    ):
        load_exported(write(tmp_path / "wide.zip", content))
    content = entries(source)
    content["memory.2.npy"] = content["memory.1.npy"]
    with pytest.raises(DamagedFile, match=r"step\.bin has 7 arrays where a step has 8"):
        load_exported(write(tmp_path / "more.zip", content))


@pytest.mark.parametrize("part", [b"", b"nothing", b"\xff" * 100], ids=["none", "short", "long"])
def test_programs_that_are_none_are_named(part: bytes, source: Path, tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=r"none.zip: steps.bin cannot be read: \w+"):
        load_exported(write(tmp_path / "none.zip", entries(source) | {"steps.bin": part}))
    around = enclosed(entries(source)["steps.bin"], part or b"-")
    with pytest.raises(DamagedFile, match=r"around.zip: steps.bin cannot be read as StableHLO.$"):
        load_exported(write(tmp_path / "around.zip", entries(source) | {"steps.bin": around}))


def test_a_reader_that_crashes_or_hangs_is_a_damaged_program(monkeypatch, tmp_path: Path) -> None:
    """Half a per cent of damaged programs crash it; which ones depends on the version of jaxlib."""
    with monkeypatch.context() as changed:
        changed.setattr(sandbox, "SECONDS_LIMIT", 0.001)
        with pytest.raises(ProgramRefused, match=r"step\.bin takes more than 0\.001 s to read"):
            sandbox.clean_programs({"step.bin": b"x"}, {"step.bin": ([], [])})
    busy = tmp_path / "busy.py"
    busy.write_text("import signal\nsignal.setitimer(signal.ITIMER_PROF, 0.01)\nwhile True: pass")
    monkeypatch.setattr(programs, "__file__", str(busy))
    with pytest.raises(ProgramRefused, match=r"step\.bin takes more than 0\.6 s of processor time to read"):
        sandbox.clean_programs({"step.bin": b"x"}, {"step.bin": ([], [])})
    monkeypatch.setattr(programs, "__file__", str(Path(__file__).with_name("nowhere.py")))
    with pytest.raises(ProgramRefused, match=r"step\.bin is damaged: reading ended with code 2"):
        sandbox.clean_programs({"step.bin": b"x"}, {"step.bin": ([], [])})


def test_processors_take_no_memory_of_the_reader(monkeypatch, tmp_path: Path) -> None:
    """NumPy's threads, one for each processor, would use up the limit where there are ten or more."""
    script = tmp_path / "threads.py"
    script.write_text("import json, os\nprint(json.dumps({'refused': os.environ['OPENBLAS_NUM_THREADS']}))")
    monkeypatch.setattr(programs, "__file__", str(script))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "64")
    with pytest.raises(ProgramRefused, match=r"^1$"):
        sandbox.clean_programs({"step.bin": b"x"}, {"step.bin": ([], [])})


LAUNCHER = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, "-P", sys.argv[1]], os.environ)
_, status, used = os.wait4(child, 0)
print(used.ru_maxrss // 1024, file=sys.stderr)
"""
"""Linux counts the memory of whoever starts a process as the process's own, so a small one starts it."""
MOST_MEGABYTES = 500


def peak_megabytes(script: Path, part: bytes) -> int:
    """The largest resident memory of the process that reads a program, libraries and all."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", LAUNCHER, script],
        input=json.dumps([("step.bin", len(part), ([], []))]).encode() + b"\n" + part,
        capture_output=True,
        check=True,
        env={**os.environ, **sandbox.ONE_THREAD},
    )
    return int(done.stderr.split()[-1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measures as Linux does")
def test_the_memory_of_a_reader_is_bounded(tmp_path: Path) -> None:
    """Two million instructions in 30 MB, with the limit of time and without it. Prints megabytes and seconds."""
    patient = tmp_path / "patient.py"
    source = Path(programs.__file__).read_text()
    patient.write_text(source.replace(f"READING_SECONDS = {programs.READING_SECONDS}", "READING_SECONDS = 30"))
    assert patient.read_text() != source
    many = "\n".join(f"%w{n} = stablehlo.iota dim = 0 : tensor<4xf32>" for n in range(2_000_000))
    part = compiled(STEP.format(body=many, beside="", top=""))
    assert 0.8 * archive.MAX_PROGRAM < len(part) <= archive.MAX_PROGRAM
    for script in (Path(programs.__file__), patient):
        start = time.monotonic()
        peak = peak_megabytes(script, part)
        print(f"{script.name}: {peak} MB, {time.monotonic() - start:.1f} s")
        assert 100 < peak < MOST_MEGABYTES


def test_honest_programs_of_all_kinds_pass_and_play_the_same(tmp_path: Path) -> None:
    loaded = load_exported(export_policy(Busy(), "matrix", 1, tmp_path / "busy.zip"))
    chosen = actions(loaded, 12)
    assert chosen == actions(Busy(), 12)
    assert len(set(chosen)) > 1


class Searching(Remembering):
    """Loops until it has found something: nobody knows how long."""

    def act(self, key, percept, memory):
        return lax.while_loop(lambda x: x < percept.reward, lambda x: x + 1.0, 0.0).astype(int), memory


def test_a_policy_whose_loops_may_not_end_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="policy cannot be exported: its step has a loop that does not count up by 1"):
        export_policy(Searching(), "matrix", 1, tmp_path / "searching.zip")
