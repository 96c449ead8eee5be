"""Files of a small study, mutated in every way we could think of, and the loaders that must bear them.

Whatever a file holds, a loader succeeds or raises what the command line turns into one sentence and exit code 2.
As a program, `python tests/fuzz_files.py COUNT SEED`, it prints what that many files cost, as JSON.
"""

import hashlib
import io
import json
import math
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

import toy_run
from coverset.adhoc.learner import AdHocPolicy, agent_spec
from coverset.adhoc.learners.plastic import Plastic, PlasticPolicy
from coverset.adhoc.registry import make_learner
from coverset.adhoc.saved import load_agent_policy, save_agent
from coverset.cli.main import _format_error
from coverset.cli.tables import print_summaries
from coverset.envs.matrix import MatrixGame
from coverset.exported.file import load_saved
from coverset.partners import Game, check_fits, find_group, read_run
from coverset.pipeline.certify import _read as read_to_certify
from coverset.pipeline.generate import make_plan
from coverset.pipeline.loop import Clock, seed_groups
from coverset.pipeline.report import make_document, read_study
from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.networks.recurrent import LSTM
from coverset.policies.population import Population, load_population, save_population
from coverset.policy import Policy
from coverset.reports.records import read_run_summary
from coverset.runs.directory import RunDirectory, to_tensors
from coverset.runs.storage import DamagedFile, load_tensors, write_json
from coverset.settings import TrainSettings
from coverset.studio.catalogue import Catalogue
from coverset.studio.files import SafeDirectory
from coverset.studio.recordings import RecordingStore
from coverset.studio.records import RunRecords
from coverset.study.time_estimates import find_recorded_speed
from coverset.study.units import Evaluation, Experiment
from coverset.types import Percept
from reports.synthetic import write_agent, write_rows, write_run

USER_ERRORS = (ValueError, TypeError, OSError)
"""What `cli.main` turns into a sentence."""
HANG_SECONDS = 60
SEED = "matrix/seed-0"
CHUNK = 3
RECORDING = "recording-0123456789ab"


def make_study(root: Path) -> None:
    """One file of every kind that coverset reads, as the commands would write it; nothing is trained."""
    seed, agent = root / SEED, root / SEED / "plastic"
    write_run(seed, env="matrix", method="lbrdiv", seed=0, size=2, level=3.0)
    write_agent(agent, learner="plastic", seed=0, level=3.0)
    rows = [
        {"chunk": n + 1, **json.loads(line)} for n, line in enumerate((seed / "metrics.jsonl").read_text().splitlines())
    ]
    write_rows(seed / "metrics.jsonl", rows)
    config = make_plan("matrix", **toy_run.SETTINGS).config(0)
    write_json(seed / "config.json", {**config, "trained_with": [0]})
    write_json(seed / "timing.json", {"train_seconds": 1.5})
    write_json(seed / "certificate.json", certificate())
    state = jax.tree.map(lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype)), raw_shapes(state_shapes()))
    RunDirectory(seed).save_checkpoint(CHUNK, to_tensors(state))
    about = {"env": "matrix", "env_parameters": config["env_parameters"], "seat": 0, "seed": 0}
    library = dense_policy(network(1, 4, 3, stacked=(2,)))
    save_population(seed / "policies.safetensors", Population(library, library), about)
    settings = TrainSettings(total_steps=1, hidden_sizes=(4,), memory_size=3, reward_scale=0.5)
    recurrent = LSTM(network(1 + 3 + 2, 4, 4 * 3), jnp.asarray(numbers(3, 4 * 3)), network(3, 3))
    for name, actor in (("rl2", recurrent), ("feedforward", network(1, 4, 3, 3))):
        learner = make_learner(name, {})
        spec = agent_spec(learner, MatrixGame(), settings, 0)
        save_agent(seed / name / "agent.safetensors", AdHocPolicy(actor, learner, spec), learner, spec, about)
    plastic = Plastic(bins=4)
    spec = agent_spec(plastic, MatrixGame(), settings, 0, Population(library, library))
    policy = PlasticPolicy(library, jnp.arange(3.0), jnp.zeros((2, 2, 4)))
    save_agent(agent / "agent.safetensors", policy, plastic, spec, about)
    episode = {"actions": [[0, 1], [2, 2]], "rewards": [0.0, 6.0], "return": 6.0, "oracle": 10.0}
    recording = {"format": "coverset recording 1", **about, "env_version": 1, "partner": {"name": "H1"}}
    write_json(root / "recordings" / f"{RECORDING}.json", {**recording, "planned_episodes": 1, "episodes": [episode]})
    write_json(root / "game.json", {"payoffs": [[10, 0], [0, 6.5]], "ego_actions": ["a", "b"], "name": "ours"})


def numbers(*shape: int) -> np.ndarray:
    """Different numbers, by no compiled program."""
    return np.linspace(-1.0, 1.0, math.prod(shape), dtype=np.float32).reshape(shape)


def network(*sizes: int, stacked: tuple[int, ...] = ()) -> MLP:
    """Layers of these sizes."""
    weights = [jnp.asarray(numbers(*stacked, *layer)) for layer in pairwise(sizes)]
    return MLP(tuple(weights), tuple(jnp.asarray(numbers(*stacked, size)) for size in sizes[1:]))


def certificate() -> dict[str, Any]:
    """What `certify` writes, as far as anybody reads it."""
    bounds = {"lower": 2.0, "upper": 2.5}
    best = {"own": 2.0, "observed": 2.5, "blind": bounds, "regret_blind": bounds}
    checked = {"constraints": 4, "constraints_violated": 0, "smallest_gap": 0.2, "margin": 0.1}
    reading = {"discount": 0.9, "best_responses": [best, best]}
    return {**checked, "states": 12, "horizon": 5, "conventions": ["a 90%", "b 80%"], "discounted": reading}


def state_shapes() -> Any:
    """Shapes of a checkpoint's state."""
    return jax.eval_shape(make_plan("matrix", **toy_run.SETTINGS).trainer.init, jax.random.key(0))


def raw_shapes(state: Any) -> Any:
    """The same with random keys as numbers."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return jax.tree.map(lambda leaf: jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf, state)


@dataclass
class Loaders:
    """Everything that reads a file of the study at `root`, by the file's name."""

    root: Path
    readers: dict[str, tuple[Callable[[], Any], ...]] = field(init=False)
    reports: int = 0

    def __post_init__(self) -> None:
        seed, plan = self.root / SEED, make_plan("matrix", **toy_run.SETTINGS)
        run, agent = RunDirectory(seed), RunDirectory(seed / "plastic")
        like = state_shapes()
        experiment = Experiment("matrix", "lbrdiv", "fast", (0,), self.root / "matrix", toy_run.SETTINGS)
        config, environment = plan.config(0), plan.environment
        pages = (self.read_report, self.read_studio)
        self.readers = {
            f"{SEED}/policies.safetensors": (
                lambda: load_population(seed / "policies.safetensors"),
                lambda: load_saved(seed / "policies.safetensors"),
                lambda: read_run(seed),
                lambda: check_library(seed / "policies.safetensors"),
            ),
            **{
                f"{SEED}/{learner}/agent.safetensors": (
                    lambda path=seed / learner / "agent.safetensors": try_agent(*load_agent_policy(path)),
                    lambda path=seed / learner: find_group(str(path), Game(environment, config), seat=0),
                )
                for learner in ("rl2", "feedforward", "plastic")
            },
            f"{SEED}/checkpoints/{CHUNK:08d}.safetensors": (lambda: run.load_checkpoint(CHUNK, like),),
            f"{SEED}/config.json": (
                lambda: read_run(seed),
                lambda: read_to_certify(seed),
                lambda: run.check_claim(config, resume=True),
                lambda: seed_groups({0: run}, 1),
                lambda: run.describe_version_changes(config),
                *pages,
            ),
            f"{SEED}/summary.json": (
                lambda: show_summary(run),
                lambda: find_recorded_speed(self.root / "matrix", "matrix", "fast"),
                *pages,
            ),
            f"{SEED}/metrics.jsonl": (run.rows, lambda: run.rewind(CHUNK, 2), *pages),
            f"{SEED}/timing.json": (lambda: Clock([seed / "timing.json"], 1.0, lambda sentence: None),),
            f"{SEED}/certificate.json": pages,
            f"{SEED}/plastic/config.json": (lambda: agent.check_same_run(config), *pages),
            f"{SEED}/plastic/summary.json": (agent.summary, *pages),
            f"{SEED}/plastic/evaluation.json": (lambda: Evaluation(experiment, "plastic").seeds_left(), *pages),
            f"recordings/{RECORDING}.json": (lambda: self.recordings().load(RECORDING), self.list_recordings),
        }

    def read_report(self) -> None:
        """Every other time, and seldom the page itself: they take longer than all others together."""
        self.reports += 1
        if self.reports % 2:
            study = read_study(self.root)
            if self.reports % 50 == 1:
                make_document("title", *study)

    def read_studio(self) -> None:
        directory = SafeDirectory(self.root)
        records = RunRecords(directory)
        for run in Catalogue(directory).runs().values():
            json.dumps(records.details(run), allow_nan=False).encode()

    def recordings(self) -> RecordingStore:
        return RecordingStore(SafeDirectory(self.root))

    def list_recordings(self) -> None:
        json.dumps(self.recordings().briefs(), allow_nan=False).encode()


def show_summary(run: RunDirectory) -> None:
    """What `generate` prints of a run that is done."""
    with redirect_stdout(io.StringIO()):
        print_summaries([read_run_summary(run)])


def try_agent(policy: Policy, about: dict[str, Any]) -> None:
    """An agent that was accepted can play."""
    check_fits("agent", policy, make_plan("matrix").environment, seat=about["seat"])
    percept = Percept(jnp.zeros(1), jnp.float32(0.0), jnp.bool_(True))
    jax.eval_shape(policy.act, jax.random.key(0), percept, policy.initial_memory())


def check_library(path: Path) -> None:
    """What our reader of safetensors accepts, the library reads as the same."""
    tensors, _ = load_tensors(path)
    with safe_open(path, framework="numpy") as file:
        assert sorted(file.keys()) == sorted(tensors)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(file.get_tensor(name), tensor)


def wrong_end(read: Callable[[], Any], path: Path) -> str | None:
    """How reading ended, if that was neither success nor one sentence about the file."""
    try:
        read()
    except USER_ERRORS as error:
        sentence = _format_error(error)
        if not sentence.endswith(".") or len(sentence) > 1500:
            return f"{type(error).__name__}: {sentence[:300]}"
        if isinstance(error, DamagedFile) and path.name not in sentence and path.parent.name not in sentence:
            return f"The file is not named: {sentence}"
    except BaseException as error:  # also what a native library may throw
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


RAW = {
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@overflow@": "1e999",
    "@long@": "9" * 5000,
    "@wide@": "1" + "0" * 25,
    "@surrogate@": r'"\ud800"',
    "@deep@": "[" * 60 + "]" * 60,
    "@abyss@": '{"a":' * 100_000,
    "@twice@": '{"a": 1, "a": 2}',
    "@control@": r'"\u001b[2J\n\u0000"',
}
"""JSON that Python's writer does not write, by the text that stands for it."""
VALUES = (None, True, False, 0, 1, -1, 7, 2**31, 2**62, -(2**63), 0.5, -1e-300, 1e308, "", "x", "matrix", "inf", "nan")
VALUES += ([], {}, [[]], [None], [0], [[0.0]], [1, "a"], {"": 0}, {"name": 1}, "a" * 2000, "os:nothing", *RAW)
NAMES = ("", "x", "env", "name", "__metadata__", "payoffs")


def places(tree: Any, at: tuple = ()) -> Iterator[tuple]:
    """Where every node of a JSON tree is."""
    yield at
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, child in children:
        yield from places(child, (*at, name))


def mutate_tree(rng: random.Random, tree: Any) -> Any:
    """Replace, delete, add, rename or double a node anywhere, the root too."""
    tree = json.loads(json.dumps(tree))
    *above, last = rng.choice([*places(tree)][rng.random() < 0.97 :] or [()]) or (None,)
    if last is None:
        return rng.choice(VALUES)
    parent = tree
    for name in above:
        parent = parent[name]
    match rng.randrange(6):
        case 0 if isinstance(parent, dict):
            del parent[last]
        case 1 if isinstance(parent, dict):
            parent[rng.choice(NAMES)] = parent.pop(last)
        case 1 | 0:
            del parent[last]
        case 2:
            parent[last] = [parent[last]] * rng.randrange(4)
        case 3 if isinstance(parent, list):
            parent.insert(last, rng.choice(VALUES))
        case _:
            parent[last] = rng.choice(VALUES)
    return tree


def written(tree: Any) -> str:
    text = json.dumps(tree)
    for word, raw in RAW.items():
        text = text.replace(f'"{word}"', raw)
    return text


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """One to three structural changes."""
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = mutate_tree(rng, tree)
    return written(tree).encode()


def mutate_lines(rng: random.Random, data: bytes) -> bytes:
    """A change in one row, or in the order of rows."""
    lines = data.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    if rng.random() < 0.8:
        lines[number] = mutate_json(rng, lines[number]) + b"\n"
    else:
        lines[number : number + rng.randrange(3)] = [rng.choice((b"\n", b"{}\n", b"[]\n", b"\r\n", b"{", lines[0]))]
    return b"".join(lines)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bits, pieces and lengths."""
    place, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 7, 64, 500))
    piece = rng.choice((rng.randbytes(length), b"\0" * length, b"\xff" * length, data[: rng.randrange(len(data) + 1)]))
    match rng.randrange(6):
        case 0:
            changed = bytearray(data)
            for _ in range(rng.choice((1, 1, 2, 16))):
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(changed)
        case 1:
            return data[:place]
        case 2:
            return data[:place] + piece + data[place:]
        case 3:
            return data[:place] + piece + data[place + length :]
        case 4:
            return data[:place] + data[place + length :]
        case _:
            return rng.choice(
                (b"", b"\xef\xbb\xbf" + data, data + data, b"PK\x03\x04" + data, b"\n", b"null", data[8:])
            )


def mutate_header(rng: random.Random, data: bytes) -> bytes:
    """Dtypes, shapes, offsets, names, or the length of the header."""
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size]
    if rng.random() < 0.1:
        size = rng.choice((0, 1, size - 1, size + 1, len(data), 2**31, 2**40, 2**63, 2**64 - 1))
        return size.to_bytes(8, "little") + header + data[8 + len(header) :]
    tree = json.loads(header)
    entry = rng.choice([name for name in tree if name != "__metadata__"])
    match rng.randrange(5):
        case 0:
            tree[entry]["dtype"] = rng.choice(
                ("F64", "F16", "BF16", "I8", "U64", "F8_E4M3", "BOOL", "F4", "C64", "I32")
            )
        case 1:
            shape = tree[entry]["shape"]
            tree[entry]["shape"] = rng.choice(
                (shape[::-1], [2**40, *shape], [2**62, 4], [0, *shape], [1] * 70, [-1], [])
            )
        case 2:
            tree[entry]["data_offsets"] = rng.choice(
                ([0, 2**62], [0, 0], [-8, 8], [8, 0], [0, len(data)], [0], [1, 2, 3])
            )
        case _:
            tree = mutate_tree(rng, tree)
    changed = written(tree).encode()
    return len(changed).to_bytes(8, "little") + changed + data[8 + size :]


def with_checksum(tensors: dict[str, np.ndarray], content: str) -> bytes:
    """A file as docs/reference/files.md describes it, its checksum right."""
    digest = hashlib.sha256(content.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}\n".encode() + tensors[name].tobytes())
    described = json.dumps({"content": content, "sha256": digest.hexdigest()})
    return save({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, {"coverset": described})


def mutate_tensors(rng: random.Random, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Other shapes, kinds, names and numbers."""
    tensors = dict(tensors)
    name, other = rng.choice([*tensors]), rng.choice([*tensors])
    tensor = tensors[name]
    match rng.randrange(9):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(("extra", f"{name}.x", "teammates.9.weight", "head.1.weight", "é", ""))] = tensor
        case 2:
            tensors[name] = rng.choice((tensor.T, tensor[None], tensor.ravel(), tensor.sum(keepdims=True)))
        case 3:
            tensors[name] = tensor.astype(rng.choice(("f8", "f2", "i4", "u1", "?")))
        case 4:
            tensors[name] = np.zeros((0, *tensor.shape[1:]), tensor.dtype)
        case 5:
            tensors[name], tensors[other] = tensors[other], tensors[name]
        case 6:
            axis = rng.randrange(max(1, tensor.ndim))
            tensors[name] = np.concatenate([np.atleast_1d(tensor)] * 2, axis=axis)
        case 7:
            tensors = {key: value[:0] if value.ndim else value for key, value in tensors.items()}
        case _ if tensor.size and tensor.dtype.kind == "f":
            changed = tensor.copy()
            changed.flat[rng.randrange(tensor.size)] = rng.choice((1e38, -1.0, 0.0)) if rng.random() < 0.3 else np.nan
            tensors[name] = changed
    return tensors


@lru_cache
def taken_apart(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The content of a file of tensors."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        return load_tensors(Path(file.name))


def mutate_checked(rng: random.Random, data: bytes) -> bytes:
    """Changes behind a checksum that is right, so that they reach whatever comes after it."""
    tensors, metadata = taken_apart(data)
    if rng.random() < 0.5:
        with np.errstate(invalid="ignore"):
            tensors = mutate_tensors(rng, tensors)
    else:
        metadata = mutate_tree(rng, metadata)
    return with_checksum(tensors, written(metadata))


def mutators(name: str) -> tuple[Callable[[random.Random, bytes], bytes], ...]:
    """How to change a file of this name; the likelier ways stand there more than once."""
    if name.endswith(".safetensors"):
        return (mutate_bytes, mutate_header, mutate_checked, mutate_checked)
    return (mutate_bytes, mutate_lines, mutate_lines) if name.endswith(".jsonl") else (mutate_bytes, mutate_json)


@dataclass
class Findings:
    """What came of some files. Seconds are of this process alone, however busy the machine is."""

    files: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slowest_read: str = ""


def fuzz(root: Path, count: int, seed: int, *, thorough: bool) -> Findings:
    """Write `count` mutated files in turn, each among the whole others, and read them.

    Args:
      thorough: by everything that reads such a file; else by one of its readers in turn.
    """
    rng = random.Random(seed)
    loaders, found = Loaders(root), Findings()
    whole = {name: (root / name).read_bytes() for name in loaders.readers}
    signal.signal(signal.SIGALRM, _too_long)
    for number in range(count):
        name = [*whole][number % len(whole)]
        mutate, readers = rng.choice(mutators(name)), loaders.readers[name]
        (root / name).write_bytes(mutate(rng, whole[name]))
        for read in readers if thorough else (readers[number // len(whole) % len(readers)],):
            what = f"{name} by {mutate.__name__}, number {number}, reader {readers.index(read)}"
            began = time.process_time()
            signal.alarm(HANG_SECONDS)
            end = wrong_end(read, root / name)
            signal.alarm(0)
            found.wrong += [f"{what}: {end}"] if end else []
            found.slowest, found.slowest_read = max(
                (found.slowest, found.slowest_read), (time.process_time() - began, what)
            )
        (root / name).write_bytes(whole[name])
        found.files += 1
    return found


def _too_long(*_: Any) -> None:
    raise RuntimeError(f"Reading took more than {HANG_SECONDS} seconds.")


def main(count: int, seed: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        make_study(root)
        fuzz(root, 100, seed + 1, thorough=True)  # what is imported and compiled once is not the files' cost
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = fuzz(root, count, seed, thorough=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**vars(found), "megabytes_before": before, "megabytes": peak}))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
