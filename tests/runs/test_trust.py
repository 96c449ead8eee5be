"""Names that the user trusts: own runs work without a word, those of others after one."""

import ast
import json
import os
import shutil
import stat
from pathlib import Path

import jax
import pytest

import coverset
import toy_run
from coverset.cli.main import run
from coverset.envs.matrix import MatrixGame
from coverset.envs.registry import make, make_from_record
from coverset.partners import check_same_environment, find_partner, read_run
from coverset.policies.stacked import count_members
from coverset.runs import trust as trust_store
from coverset.runs.storage import read_record
from coverset.runs.trust import foreign_names, grant, is_trusted, sign_record
from coverset.study.ray.worker import Conditions

NAME = "countdown:Countdown"
RECORD = {"env": NAME, "env_parameters": {"horizon": 3, "terminates": True}}
SHORT = ("--trials", "2", "--episodes", "1")


def become_user(monkeypatch, home: Path) -> None:
    """A process of the user whose data lies there, who has named nothing yet."""
    monkeypatch.setattr(trust_store, "key_path", lambda: home / "data" / "signing-key")
    monkeypatch.setattr(trust_store, "_named", set())
    monkeypatch.setattr(trust_store, "_allowed", set())
    monkeypatch.setattr(trust_store, "_granted_key", None)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch) -> Path:
    home = tmp_path / "user"
    become_user(monkeypatch, home)
    return home


def refusal(capsys, *words: object) -> str:
    capsys.readouterr()
    assert run([*map(str, words)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_own_runs_need_no_word_and_those_of_others_one(tmp_path: Path, user: Path, monkeypatch, capsys) -> None:
    runs = tmp_path / "runs"
    words = ("generate", NAME, *toy_run.words(minibatches=1), "--seeds", "0..1", "--out", str(runs))
    assert run([*words, "--json"]) == 0
    become_user(monkeypatch, user)
    assert run(["train", str(runs), "--learner", "plastic"]) == 0
    become_user(monkeypatch, user)
    assert run(["evaluate", str(runs), "--learner", "plastic", *SHORT, "--json"]) == 0
    alone = tmp_path / "alone.safetensors"
    shutil.copy(runs / "seed-0" / "policies.safetensors", alone)
    become_user(monkeypatch, user)
    assert run(["crossplay", str(runs / "seed-0" / "plastic"), str(alone), *SHORT, "--json"]) == 0

    become_user(monkeypatch, tmp_path / "another")
    sentence = refusal(capsys, "evaluate", runs, "--learner", "plastic", *SHORT)
    assert f"{runs / 'seed-0' / 'config.json'} would import '{NAME}', and was not written by you" in sentence
    assert f"--trust {NAME}, in Python with coverset.trust('{NAME}')." in sentence
    assert f"--trust {NAME}" in refusal(capsys, "crossplay", alone, "H1")
    assert run(["evaluate", str(runs), "--learner", "plastic", *SHORT, "--json", "--trust", NAME]) == 0
    become_user(monkeypatch, tmp_path / "another")
    assert run(["evaluate", str(runs), "--learner", "plastic", *SHORT, "--json"]) == 0, "one is asked once"
    record = read_record(runs / "seed-0" / "config.json")
    assert is_trusted(record)
    assert not is_trusted({**record, "env_parameters": {"horizon": 7}}), "only what was allowed is remembered"
    assert not is_trusted({**record, "env": "os:system"})
    become_user(monkeypatch, tmp_path / "a third")
    coverset.trust(NAME)
    assert read_run(runs / "seed-0").environment == make(NAME)
    become_user(monkeypatch, tmp_path / "another")
    assert run([*words, "--resume", "--json"]) == 0, "whoever names the environment may go on with a run from elsewhere"


def test_an_export_needs_no_signature_where_a_run_has_one(tmp_path: Path, user: Path, monkeypatch) -> None:
    toy_run.untrained(tmp_path / "seed-0", NAME)
    exported = coverset.export_agent(tmp_path / "seed-0", role="teammates", member=1)
    become_user(monkeypatch, user)
    here = read_run(tmp_path / "seed-0")
    assert count_members(find_partner(here, str(exported), seat=1)) == 1
    played = coverset.crossplay(tmp_path / "seed-0", exported, trials=1, episodes=1)
    assert played.environment == NAME
    about = coverset.load_exported(exported).about
    assert not is_trusted(about), "it was compared, and not made"
    other = {**about, "env_parameters": {**about["env_parameters"], "horizon": 4}}
    with pytest.raises(ValueError, match="with horizon 4, but here it is 3"):
        check_same_environment("agent.zip", other, here.environment, here.config)
    with pytest.raises(ValueError, match="'os:system', not 'countdown:Countdown'"):
        check_same_environment("agent.zip", {**about, "env": "os:system"}, here.environment, here.config)


def test_an_environment_object_is_trusted_by_its_class(monkeypatch, user: Path) -> None:
    from coverset.pipeline.generate import make_plan

    config = json.loads(json.dumps(make_plan(make(NAME, horizon=2)).config(0)))
    unsigned = {name: config[name] for name in ("env", "env_parameters")}
    assert make_from_record("config.json", unsigned) == make(NAME, horizon=2)
    become_user(monkeypatch, user)
    with pytest.raises(ValueError, match=f"would import '{NAME}'"):
        make_from_record("config.json", unsigned)
    assert make_from_record("config.json", config).horizon == 2
    for changed in ({"env_parameters": {"horizon": 9}}, {"env": "countdown:Unsound"}, {"signature": "f" * 64}):
        with pytest.raises(ValueError, match="if you trust that code"):
            make_from_record("config.json", config | changed)


def test_an_installed_name_needs_no_word_but_what_its_parameters_name_does(tmp_path: Path, monkeypatch) -> None:
    information = tmp_path / "installed_game-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-game\nVersion: 1.0\n")
    points = "installed = countdown:Countdown\nadapted = coverset.adapters.pettingzoo:from_parallel\n"
    (information / "entry_points.txt").write_text(f"[coverset.environments]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    assert make_from_record("config.json", {"env": "installed", "env_parameters": {"horizon": 2}}).horizon == 2
    nested = {"environment": "parallel_games:Guessing", "horizon": 4}
    with pytest.raises(ValueError, match="would import 'parallel_games:Guessing'"):
        make_from_record("config.json", {"env": "adapted", "env_parameters": nested})


@pytest.mark.parametrize(
    ("name", "parameters", "foreign"),
    [
        ("matrix", {"payoffs": ["os:system"]}, []),
        ("coverset.envs.matrix:MatrixGame", {}, []),
        ("coverset.adapters.jaxmarl:overcooked", {"layout": "a:b"}, []),
        ("coverset.adapters.hanabi:Hanabi", {"num_colors": 3}, []),
        ("coverset.adapters.jaxmarl:from_jaxmarl", {"environment": "MPE_simple_spread_v3"}, []),
        ("coverset.adapters.jaxmarl:from_jaxmarl", {"environment": "my_game:Game"}, ["my_game:Game"]),
        ("coverset.adapters.pettingzoo:from_parallel", {"environment": "mpe2.x:env"}, ["mpe2.x:env"]),
        ("coverset.adapters.jaxmarl:JaxMarl", {"environment": "coverset.adapters.jaxmarl:make_overcooked"}, []),
        ("coverset.adapters.lbforaging:play", {}, ["coverset.adapters.lbforaging:play"]),
        ("my_game:Game", {"deep": [{"er:": ("and:deeper", 1)}]}, ["my_game:Game", "er:", "and:deeper"]),
    ],
)
def test_names_that_would_import_code(name: str, parameters: dict, foreign: list[str]) -> None:
    found = foreign_names({"env": name, "env_parameters": parameters})
    assert sorted(found) == sorted(foreign)


def test_a_key_is_made_once_and_only_for_its_owner(user: Path, monkeypatch) -> None:
    assert "signature" not in sign_record({"env": "matrix", "env_parameters": {}})
    assert not trust_store.key_path().exists(), "what is built in needs no signature"
    first = sign_record(RECORD)
    key = trust_store.key_path()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [path.name for path in key.parent.iterdir()] == ["signing-key"]
    assert sign_record(RECORD) == first
    assert is_trusted(json.loads(json.dumps(first)))
    key.write_bytes(b"cut off")
    assert not is_trusted(first)
    assert sign_record(RECORD)["signature"] != first["signature"], "a damaged key is made anew"
    assert len(key.read_bytes()) == trust_store.KEY_SIZE


def test_without_a_place_for_the_key_runs_go_on_unsigned(tmp_path: Path, user: Path) -> None:
    user.write_text("no directory")
    witness = toy_run.Witness()
    settings = {**toy_run.SETTINGS, "minibatches": 1, "total_steps": 80}
    coverset.generate(NAME, out=tmp_path / "runs", reporter=witness, **settings)
    assert len(witness.warnings) == 1
    assert "will need --trust" in witness.warnings[0]
    assert "signature" not in json.loads((tmp_path / "runs" / "seed-0" / "config.json").read_text())
    assert read_run(tmp_path / "runs" / "seed-0").environment == make(NAME), "it was named in this process"


def test_workers_of_a_cluster_work_for_the_user(tmp_path: Path, monkeypatch) -> None:
    """Elsewhere, without the user's key, what was signed here is known, and what is signed there is known here."""
    record = sign_record(RECORD)
    coverset.trust("other_game:Game")
    conditions = Conditions.capture(mark="", one_machine=True)
    become_user(monkeypatch, tmp_path / "worker")
    cache = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    assert cache == conditions.compilation_cache
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert not is_trusted(record)
    conditions.adopt()
    assert is_trusted(record)
    assert sign_record(RECORD) == record
    assert is_trusted({"env": "other_game:Game", "env_parameters": {}})
    assert grant() == conditions.grant


def test_trust_wants_a_module() -> None:
    with pytest.raises(ValueError, match=r"^trust must name an environment as module:function, got 'matrix'\.$"):
        coverset.trust("matrix")


def test_built_in_games_are_compared_across_their_names() -> None:
    about = {"env": "coverset.envs.matrix:MatrixGame", "env_parameters": {}}
    check_same_environment("file", about, MatrixGame())
    with pytest.raises(ValueError, match="with horizon 2"):
        check_same_environment("file", about | {"env_parameters": {"horizon": 2}}, MatrixGame())


def adapter_names() -> list[str]:
    """What makes an environment in `coverset.adapters`: its classes, and functions annotated to return one."""
    found: list[str] = []
    for path in sorted((Path(coverset.__file__).parent / "adapters").glob("*.py")):
        nodes = ast.parse(path.read_text()).body
        classes = {
            node.name
            for node in nodes
            if isinstance(node, ast.ClassDef)
            and {ast.unparse(base) for base in node.bases} & {"Environment", "JaxMarlGame"}
        }
        made = {
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns) in classes
        }
        found += [f"coverset.adapters.{path.stem}:{name}" for name in sorted(classes | made) if name != "JaxMarlGame"]
    return found


def test_coversets_own_adapters_need_no_permission():
    """Whoever made a run of them, it opens in the studio without --trust; what their parameters name may need it."""
    names = adapter_names()
    assert {"coverset.adapters.pettingzoo:from_parallel", "coverset.adapters.jaxmarl:overcooked"} <= set(names)
    for name in names:
        assert foreign_names({"env": name, "env_parameters": {"horizon": 3, "layout": "cramped_room"}}) == [], name
