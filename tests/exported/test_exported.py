"""Exported agents run without coverset and choose the same actions; files of other shapes are refused by name."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from coverset.adhoc.learner import AgentWorld, agent_spec
from coverset.adhoc.learners.plastic import Plastic
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.saved import load_agent, load_agent_policy, save_agent
from coverset.cli.main import run
from coverset.envs import registry
from coverset.envs.matrix import MatrixGame
from coverset.evaluation.cross_play import cross_play
from coverset.exported import file as exported
from coverset.exported.file import export_policy, load_exported
from coverset.partners import PartnerGame, find_group
from coverset.pipeline.crossplay import crossplay
from coverset.pipeline.export import export_agent
from coverset.policies.actor import dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population, save_population
from coverset.policies.stacked import count_members
from coverset.policies.third_party import HostPolicy
from coverset.policy import Policy
from coverset.runs.storage import DamagedFile
from coverset.settings import TrainSettings
from coverset.types import Percept
from saved_agents import make_spec, write_untrained

ABOUT = {"env": "matrix", "env_parameters": {}, "seat": 0, "seed": 7}
STEPS = 12

OUTSIDE = """
import json, sys, zipfile

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("coverset", "equinox"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import jax, numpy
from jax import export

with zipfile.ZipFile(sys.argv[1]) as archive:
    step = export.deserialize(bytearray(archive.read("step.bin"))).call
    arrays = sum(name.startswith("memory.") for name in archive.namelist())
    memory = tuple(numpy.load(archive.open(f"memory.{number}.npy")) for number in range(arrays))
key, actions = jax.random.key(3), []
for observation, reward, done in json.loads(sys.argv[2]):
    key, now = jax.random.split(key)
    action, memory = step(now, jax.numpy.array(observation), jax.numpy.float32(reward), jax.numpy.bool_(done), memory)
    actions.append(int(action))
assert "coverset" not in sys.modules
print(json.dumps(actions))
"""


class Counting(Policy):
    """Plays one action after the other: `start`, `start + 1`, and so on, then from 0 again."""

    start: jax.Array
    turns: int = eqx.field(static=True, default=3)

    def initial_memory(self):
        return {"next": self.start}

    def act(self, key, percept, memory):
        return memory["next"], {"next": (memory["next"] + 1) % self.turns}


class Factoring(Counting):
    """Needs linear algebra, which is a call of another library."""

    def act(self, key, percept, memory):
        return jnp.linalg.cholesky(percept.observation[None])[0, 0].astype(int), memory


def pairs(sharpness: float = 50.0) -> Population:
    """Two pairs that choose the first action or the second: always, unless less sharp."""
    always = dense_policy(MLP((jnp.zeros((2, 1, 3)),), (sharpness * jnp.eye(3)[:2],)))
    return Population(always, always)


def make_agent(directory: Path, kind: str) -> Path:
    """A saved agent of the matrix game: untrained networks, whose actions are all but uniform, so that keys matter."""
    if kind != "plastic":
        write_untrained(directory / "agent.safetensors", ABOUT, make_spec(reward_scale=0.5), kind)
        return directory
    learner, environment, population = Plastic(), MatrixGame(), pairs(2.0)
    spec = agent_spec(learner, environment, TrainSettings(total_steps=1), 0, population)
    world = AgentWorld(environment, population, PartnerPool((population.teammates,)), 0, spec)
    save_agent(directory / "agent.safetensors", learner.fit(jax.random.key(0), world), learner, spec, ABOUT)
    return directory


def load_partner(file: Path, **parameters) -> Policy:
    """What a file holds, as a partner in seat 1 of the matrix game."""
    game = PartnerGame(registry.make("matrix", **parameters), {"env": "matrix", "env_parameters": parameters})
    return find_group(str(file), game, seat=1).policies


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """Exported agents by kind."""
    return {
        kind: export_agent(make_agent(tmp_path_factory.mktemp(kind), kind))
        for kind in ("rl2", "feedforward", "plastic")
    }


@pytest.mark.parametrize("kind", ["rl2", "plastic"])
def test_without_coverset_it_chooses_the_same_actions(files: dict[str, Path], kind: str) -> None:
    chance = np.random.default_rng(0)
    seen = [([float(chance.normal())], float(n % 5), bool(n % 3 == 0)) for n in range(STEPS)]
    seen[0] = (seen[0][0], 0.0, False)
    program = [sys.executable, "-c", OUTSIDE, str(files[kind]), json.dumps(seen)]
    printed = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert printed.returncode == 0, printed.stderr
    agent = load_agent(files[kind].parent, seed=3)
    wanted = [agent.act(*step) for step in seen]
    assert json.loads(printed.stdout) == wanted
    assert len(set(wanted)) > 1


@pytest.mark.parametrize("kind", ["rl2", "plastic"])
def test_as_a_partner_it_plays_as_the_agent_itself(files: dict[str, Path], kind: str) -> None:
    """Through every `vmap` of cross-play, with members, partners and trials, and memory kept over episodes."""
    original, _ = load_agent_policy(files[kind].parent / "agent.safetensors")
    loaded = load_exported(files[kind])
    played = [
        cross_play(
            jax.random.key(1),
            MatrixGame(),
            jax.tree.map(lambda x: x[None], policy),
            pairs().teammates,
            trials=8,
            episodes=4,
        ).returns
        for policy in (original, loaded)
    ]
    np.testing.assert_array_equal(*played)


def test_a_file_says_what_it_is_for_and_is_the_same_every_time(files: dict[str, Path], tmp_path: Path) -> None:
    loaded = load_exported(files["rl2"])
    assert (loaded.observation_size, loaded.num_actions) == (1, 3)
    assert loaded.about["env"] == "matrix"
    assert loaded.about["learner"] == "rl2"
    again = export_agent(files["rl2"].parent / "agent.safetensors", tmp_path / "again.zip")
    assert again.read_bytes() == files["rl2"].read_bytes()
    with zipfile.ZipFile(again) as archive:
        program = export.deserialize(bytearray(archive.read("step.bin"))).mlir_module()
    assert ".py" not in program
    assert load_exported(again).programs == loaded.programs


def test_it_is_a_partner_among_others(files: dict[str, Path]) -> None:
    stacked = load_partner(files["rl2"])
    assert count_members(stacked) == 1
    pool = PartnerPool((stacked, pairs().teammates))
    again = PartnerPool((load_partner(files["rl2"]), pairs().teammates))
    assert jax.tree.structure(pool) == jax.tree.structure(again)
    percepts = Percept(jnp.ones((3, 2, 1)), jnp.zeros((3, 2)), jnp.ones((3, 2), bool))
    actions, _ = pool.act(jax.random.split(jax.random.key(0), (3, 2)), percepts, pool.initial_memories(2))
    assert actions.shape == (3, 2)
    assert actions[1:].tolist() == [[0, 0], [1, 1]]


def test_a_policy_of_ones_own_is_exported_and_plays_as_it_was_written(tmp_path: Path) -> None:
    """Also once it was read and exported again. Parameters of the environment go with it."""
    parameters = {"payoffs": [[5.0, 1.0, 0.0], [2.0, 6.0, 0.0], [3.0, 1.0, 4.0]], "horizon": 4}
    first = export_policy(Counting(jnp.int32(2)), "matrix", 1, tmp_path / "first.zip", env_parameters=parameters)
    about = load_exported(first).about
    assert [about[name] for name in ("seat", "num_actions", "observation_size")] == [1, 3, 1]
    again = export_policy(load_exported(first), "matrix", 1, tmp_path / "again.zip", env_parameters=parameters)
    for name in (first, again):
        stacked = load_partner(name, **parameters)
        policy = jax.tree.map(lambda x: x[0], stacked)
        actions, memory = [], policy.initial_memory()
        for _ in range(5):
            percept = Percept(jnp.ones(1), jnp.float32(0.0), jnp.bool_(False))
            action, memory = policy.act(jax.random.key(0), percept, memory)
            actions.append(int(action))
        assert actions == [2, 0, 1, 2, 0]
    assert crossplay("H1", first, trials=2, episodes=1).means.tolist() == [[0 + 5 + 1 + 0]]


@pytest.mark.parametrize(
    ("policy", "seat", "message"),
    [
        (Counting(jnp.int32(0)), 2, "seat must lie between 0 and 1, got 2"),
        (Counting(jnp.float32(0)), 1, "policy must choose a whole number, got Array"),
        (
            Factoring(jnp.int32(0)),
            1,
            "policy cannot be exported: its step calls 'lapack_spotrf_ffi', which no exported agent does",
        ),
        (
            HostPolicy(lambda observation, reward, done: 0, 3, "plain"),
            1,
            "policy cannot be compiled for cpu, cuda, tpu",
        ),
    ],
)
def test_policies_that_cannot_be_exported_are_told_why(policy, seat: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        export_policy(policy, "matrix", seat, tmp_path / "mine.zip")
    assert not any(tmp_path.iterdir())


def test_an_exported_agent_with_more_actions_than_it_says_is_refused(tmp_path: Path, capsys) -> None:
    """It counts to five in a game of three actions."""
    file = export_policy(Counting(jnp.int32(0), 5), "matrix", 1, tmp_path / "five.zip")
    assert run(["crossplay", "H1", str(file), "--trials", "2", "--episodes", "5"]) == 2
    sentence = f"coverset: partner '{file}' must choose an action from 0 to 2, got 3."
    assert capsys.readouterr().err.splitlines()[-1] == sentence


@pytest.mark.parametrize(("role", "seat"), [("best-responses", 0), ("teammates", 1)])
def test_members_of_a_population_are_exported_one_by_one(role: str, seat: int, tmp_path: Path, capsys) -> None:
    keys = jax.random.split(jax.random.key(0), (2, 2))
    halves = Population(
        *(dense_policy(jax.vmap(lambda key: MLP.create(key, (1, 4, 3), fourier_bandwidth=1.0))(half)) for half in keys)
    )
    save_population(tmp_path / "policies.safetensors", halves, {"env": "matrix", "env_parameters": {}, "seed": 7})
    assert run(["export", str(tmp_path), "--role", role, "--member", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == str(tmp_path / f"{role.removesuffix('s')}-2.zip")
    loaded = load_exported(told["file"])
    assert loaded.about == told["about"]
    assert [loaded.about[name] for name in ("seat", "role", "member", "seed")] == [seat, role, 2, 7]
    keys = jax.random.split(jax.random.key(1), STEPS)
    percept = Percept(jnp.ones(1), jnp.float32(0.0), jnp.bool_(True))
    second = jax.tree.map(lambda x: x[1], halves[seat])
    chosen = [jax.vmap(lambda k, p=p: p.act(k, percept, p.initial_memory())[0])(keys) for p in (second, loaded)]
    np.testing.assert_array_equal(*chosen)
    assert len(set(np.asarray(chosen[0]).tolist())) > 1


def test_members_that_are_not_there_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    save_population(tmp_path / "policies.safetensors", pairs(), ABOUT)
    with pytest.raises(ValueError, match="teammate must lie between 1 and 2, got 3"):
        export_agent(tmp_path, role="teammates", member=3)
    with pytest.raises(ValueError, match="teammate must lie between 1 and 2, got 0"):
        export_agent(tmp_path, role="teammates", member=0)
    with pytest.raises(ValueError, match="role must be one of best-responses, teammates, got 'partners'"):
        export_agent(tmp_path, role="partners", member=1)
    with pytest.raises(
        ValueError, match="role and member must be given together or not at all, got 'teammates' and None"
    ):
        export_agent(tmp_path, role="teammates")
    with pytest.raises(ValueError, match="holds no population: make one with `coverset generate`"):
        export_agent(files["rl2"].parent, role="teammates", member=1)
    assert [path.name for path in tmp_path.iterdir()] == ["policies.safetensors"]


def test_files_that_are_none_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=r"agent\.safetensors is damaged or not an exported agent"):
        load_exported(files["rl2"].parent / "agent.safetensors")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_exported(tmp_path / "nowhere.zip")
    with pytest.raises(ValueError, match="holds no agent"):
        export_agent(tmp_path)
    with pytest.raises(ValueError, match="is a directory"):
        export_agent(files["rl2"].parent, tmp_path)


def test_without_flatbuffers_it_says_what_to_install(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ValueError, match=r"install coverset\[export\]"):
        export_agent(tmp_path)


def test_what_jax_keeps_of_many_different_programs_is_let_go(monkeypatch) -> None:
    cleared: list[int] = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(len(kept.sizes)))
    kept, large = exported._CacheLimit(), exported.MAX_CACHED_BYTES // 2
    for program, shapes in ((b"a" * large, "one"), (b"a" * large, "one"), (b"b", "another"), (b"b", "one")):
        kept.note(program, shapes)
    assert not cleared
    kept.note(b"c" * large, "one")
    assert len(cleared) == 1
    for number in range(exported.MAX_CACHED_BYTES // exported.CACHED_BYTES_PER_SHAPE):
        kept.note(b"", number)
    assert len(cleared) == 1
    kept.note(b"", "one more")
    assert len(cleared) == 2
