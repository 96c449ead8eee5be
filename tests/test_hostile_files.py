"""Files that name code of their own: nothing of it runs in any command, loader or page, unless the user trusts it."""

import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import coverset
import toy_run
from coverset.cli.main import COMMANDS, run
from coverset.envs.extensions import heuristics
from coverset.envs.matrix import MatrixGame
from coverset.envs.registry import make_from_record
from coverset.exported.file import export_policy
from coverset.partners import find_partner, read_run
from coverset.runs import trust as trust_store
from coverset.runs.storage import load_tensors, save_tensors
from coverset.studio import replays, trials  # noqa: F401  in threads the tests' import hook trips over ast.parse
from coverset.studio.files import SafeDirectory
from coverset.studio.recordings import FORMAT, RecordingStore
from saved_agents import make_spec, write_untrained
from studio_client import Served

READS_NO_FILES = {"bench", "check", "envs"}
THOROUGH = ("system", "import", "parallel")
"""Records that are tried in every kind of file as a partner, the others in one."""
RECORDING = "recording-0123456789ab"
HONEST_SIGNATURE = "0" * 64
"""Stands for the signature of the user's own run; see `hostile_records`."""
ADAPTERS = "coverset.adapters"
IMPORTED = """
from pathlib import Path

Path(__file__).with_name("called").touch()
"""
"""A module that cannot be imported unnoticed."""


class Case(NamedTuple):
    """Files of one hostile record, and honest runs in which some of them lie."""

    name: str
    run: Path
    """A run of one seed with an agent; all of its files are hostile."""
    mixed: Path
    """An honest run of one seed, with a hostile agent and a hostile seed beside it."""
    exported: Path
    study: Path
    """What `reproduce` and `tune` would take for their own work."""
    recordings: Path


def hostile_records(marker: Path) -> dict[str, dict[str, Any]]:
    """Records whose use would leave the marker, by a name."""
    touch = f"touch {marker}"

    def adapted(name: str, **parameters: Any) -> dict[str, Any]:
        return {"env": f"{ADAPTERS}.{name}", "env_parameters": {"horizon": 3, **parameters}}

    gymnasium = {"environment": f"{ADAPTERS}.gymnasium:parallel_env"}
    system = {"env": "os:system", "env_parameters": {"command": touch}}
    return {
        "system": system,
        "exec": {"env": "builtins:exec", "env_parameters": {"object": f"open({str(marker)!r}, 'w')"}},
        "run": {"env": "subprocess:run", "env_parameters": {"args": ["touch", str(marker)]}},
        "import": {"env": "hostile_module:Game", "env_parameters": {}},
        "no-colon": {"env": "hostile_module", "env_parameters": {}},
        "own-function": {"env": "coverset.envs.registry:make_from_record", "env_parameters": {"record": system}},
        "parallel": adapted("pettingzoo:from_parallel", environment="hostile_module:Game"),
        "parallel-class": adapted("pettingzoo:FromParallel", environment="os:system", arguments=[["command", touch]]),
        "parallel-no-colon": adapted("pettingzoo:from_parallel", environment="hostile_module"),
        "parallel-space": adapted("pettingzoo:from_parallel", environment="hostile_module: Game"),
        "gymnasium": adapted("pettingzoo:from_parallel", **gymnasium, id="hostile_module:Game-v0"),
        "jaxmarl": adapted("jaxmarl:JaxMarl", environment="os:system", arguments=[["command", touch]]),
        "signature-of-another": {**system, "signature": HONEST_SIGNATURE},
        "signature-that-is-none": {**system, "signature": [1]},
        "terminal": {"env": "os:system\x1b[2J\n", "env_parameters": {"command": touch}},
    }


@pytest.fixture(autouse=True)
def user(tmp_path_factory, monkeypatch) -> Path:
    """A user who has trusted nothing yet, with a key of their own; the directory where it lies."""
    home = tmp_path_factory.mktemp("user")
    monkeypatch.setattr(trust_store, "key_path", lambda: home / "signing-key")
    monkeypatch.setattr(trust_store, "_named", set())
    monkeypatch.setattr(trust_store, "_granted_key", None)
    return home


def replace_about(source: Path, target: Path, record: dict[str, Any]) -> None:
    """An exported agent with another origin."""
    with zipfile.ZipFile(source) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    parts["about.json"] = json.dumps(json.loads(parts["about.json"]) | record).encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    target.write_bytes(written.getvalue())


def write_agent(path: Path, record: dict[str, Any]) -> None:
    write_untrained(path / "agent.safetensors", {"env": "matrix", "env_parameters": {}}, make_spec())
    replace_metadata(path / "agent.safetensors", record)


def replace_metadata(path: Path, record: dict[str, Any]) -> None:
    """Let a file of policies say something else, as somebody without the user's key would write it."""
    tensors, about = load_tensors(path)
    save_tensors(path, tensors, {**about, **record})


def make_hostile(seed: Path, record: dict[str, Any]) -> None:
    """Let every file of a seed name another environment."""
    config = json.loads((seed / "config.json").read_text()) | record
    (seed / "config.json").write_text(json.dumps(config))
    replace_metadata(seed / "policies.safetensors", record)
    summary = json.loads((seed / "summary.json").read_text()) | record
    (seed / "summary.json").write_text(json.dumps(summary))
    write_agent(seed / "rl2", record)
    agent = {"command": "train", "learner": "rl2", "seat": 0, "partners": ["hostile_module:partner"]}
    (seed / "rl2" / "config.json").write_text(json.dumps(config | agent))


def plant(place: Path, name: str, honest: Path, exported: Path, record: dict[str, Any]) -> Case:
    """Write the files of one record."""
    for directory in ("run", "mixed", "study/matrix-lbrdiv-fast", "study/alpha-1"):
        shutil.copytree(honest, place / directory / "seed-0")
    shutil.copytree(honest, place / "mixed" / "seed-1")
    hostile = ("run/seed-0", "mixed/seed-1", "study/matrix-lbrdiv-fast/seed-0", "study/alpha-1/seed-0")
    for seed in hostile:
        make_hostile(place / seed, record)
    write_agent(place / "mixed" / "seed-0" / "rl2", record)
    replace_about(exported, place / "agent.zip", record)
    (place / "run" / "recordings").mkdir()
    recording = {"format": FORMAT, "env_version": 1, "seed": 0, "seat": 0, "partner": {}, "episodes": []}
    (place / "run" / "recordings" / f"{RECORDING}.json").write_text(json.dumps(recording | record))
    return Case(name, place / "run", place / "mixed", place / "agent.zip", place / "study", place / "run")


class Hostile(NamedTuple):
    """All hostile files, and how to tell whether one of them has had its way."""

    cases: list[Case]
    marker: Path

    def assert_nothing_ran(self, what: str) -> None:
        """The marker is not there, and the module was not imported."""
        assert not self.marker.exists(), what
        assert "hostile_module" not in sys.modules, what


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Hostile:
    root = tmp_path_factory.mktemp("hostile")
    (root / "code").mkdir()
    (root / "code" / "hostile_module.py").write_text(IMPORTED)
    marker = root / "code" / "called"
    toy_run.untrained(root / "honest", "matrix")
    exported = export_policy(heuristics(MatrixGame())["H1"], "matrix", 1, root / "honest.zip")
    records = hostile_records(marker)
    cases = [plant(root / name, name, root / "honest", exported, record) for name, record in records.items()]
    return Hostile(cases, marker)


@pytest.fixture
def hostile(planted: Hostile, monkeypatch) -> Iterator[Hostile]:
    """The files with their module within reach, and the signature of an honest run of this user's copied into them."""
    monkeypatch.syspath_prepend(planted.marker.parent)
    signature = trust_store.sign_record({"env": "honest_module:Game", "env_parameters": {}})["signature"]
    (case,) = [case for case in planted.cases if case.name == "signature-of-another"]
    record = hostile_records(planted.marker)[case.name] | {"signature": signature}
    make_hostile(case.run / "seed-0", record)
    yield planted
    sys.modules.pop("hostile_module", None)


def lines_of(command: str, case: Case) -> list[list[str | Path]]:
    """What a user might type after a command about hostile files, where it must end in a sentence and code 2."""
    policies, agent = case.run / "seed-0" / "policies.safetensors", case.run / "seed-0" / "rl2"
    partners = (policies, agent, case.run / "seed-0", case.run, case.exported) if case.name in THOROUGH else (policies,)
    short = ("--trials", "2", "--episodes", "1")
    lines: dict[str, list[list[str | Path]]] = {
        "generate": [["matrix", "--out", case.run, "--resume"]],
        "train": [
            [case.run],
            [case.run / "seed-0", "--learner", "plastic"],
            *([case.mixed, "--seeds", "0", "--partners", partner] for partner in (*partners, "other-seeds")),
        ],
        "evaluate": [
            [case.run],
            [case.mixed, "--seeds", "0", *short],
            [case.mixed, "--seeds", "0", *short, "--partners", policies],
        ],
        "certify": [[case.run], [case.mixed, "--seeds", "1"]],
        "inspect": [[case.run], [case.mixed, "--seeds", "1"]],
        "probe": [[case.run], [case.mixed, "--seeds", "1"]],
        "crossplay": [
            *([partner, "heuristics", *short] for partner in partners),
            *(["heuristics", partner, "--env", "matrix", *short] for partner in partners),
            [case.mixed / "seed-0", policies, *short],
        ],
        "reproduce": [["matrix", "--methods", "lbrdiv", "--seeds", "0", "--out", case.study]],
        "tune": [["matrix", "--method", "lipo", "--alphas", "1", "--seeds", "0", "--out", case.study]],
        "solve": [[case.run / "seed-0" / "config.json"]],
        "demo": [["--out", case.run]],
        "studio": [],
        "report": [],
        "export": [],
    }
    return lines[command]


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in READS_NO_FILES])
def test_no_command_runs_what_a_file_names(command: str, hostile: Hostile, capsys) -> None:
    for case in hostile.cases:
        for line in lines_of(command, case):
            words = [command, *map(str, line)]
            capsys.readouterr()
            assert run(words) == 2, words
            printed = capsys.readouterr()
            assert printed.out == "", words
            assert printed.err.startswith("coverset: "), words
            assert printed.err.count("\n") == 1, words
            hostile.assert_nothing_ran(" ".join(words))


@pytest.mark.parametrize("case", ["system", "import"])
def test_what_is_exported_from_a_hostile_file_is_not_run(case: str, hostile: Hostile, tmp_path: Path, capsys) -> None:
    """Exporting plays nothing: the name is handed on, as a name."""
    (found,) = [one for one in hostile.cases if one.name == case]
    out = tmp_path / "agent.zip"
    assert run(["export", str(found.run / "seed-0" / "rl2"), "--out", str(out)]) == 0
    hostile.assert_nothing_ran("export")
    about = coverset.load_exported(out).about
    assert about["env"] == hostile_records(hostile.marker)[case]["env"]
    assert "signature" not in about, "the same agent gives the same bytes on every machine"


def test_the_report_names_what_it_does_not_run(hostile: Hostile, tmp_path: Path, capsys) -> None:
    for case in hostile.cases:
        page = tmp_path / case.name / "index.html"
        assert run(["report", str(case.run), "--out", str(page)]) == 0, case.name
        hostile.assert_nothing_ran(case.name)
        assert "seed-0" in page.read_text()


def test_the_studio_plays_nothing_that_a_file_names(hostile: Hostile) -> None:
    for case in hostile.cases:
        with Served(case.run) as studio:
            assert studio.get("/api/runs").status == 200
            answers = [
                studio.get("/api/board?run=seed-0"),
                studio.get("/api/watch?run=seed-0&best_response=1&teammate=1&seed=0"),
                studio.get(f"/api/recordings/{RECORDING}/frames"),
                *(
                    studio.post("/api/trials", {"run": "seed-0", "partner": partner, "episodes": 1, "seed": 0})
                    for partner in ("agent:rl2", "teammate:1")
                ),
            ]
        with Served(case.mixed) as studio:
            assert studio.get("/api/board?run=seed-0").status == 200
            trial = {"run": "seed-0", "partner": "agent:rl2", "episodes": 1, "seed": 0}
            answers.append(studio.post("/api/trials", trial))
        for number, answer in enumerate(answers):
            assert answer.status in (400, 422), (case.name, number, answer.body)
            assert answer.json["error"].endswith("."), (case.name, number)
        hostile.assert_nothing_ran(case.name)


LOADERS: dict[str, Callable[[Case], Any]] = {
    "load_population": lambda case: coverset.load_population(case.run / "seed-0" / "policies.safetensors"),
    "load_agent": lambda case: coverset.load_agent(case.run / "seed-0" / "rl2"),
    "load_exported": lambda case: coverset.load_exported(case.exported),
    "export_policy": lambda case: coverset.load_exported(case.exported).about,
    "recordings": lambda case: RecordingStore(SafeDirectory(case.recordings)).load(RECORDING),
}
"""Loaders that build no environment."""
USES: dict[str, Callable[[Case], Any]] = {
    "read_run": lambda case: read_run(case.run / "seed-0"),
    "find_partner": lambda case: find_partner(read_run(case.mixed / "seed-0"), str(case.exported), seat=1),
    "train": lambda case: coverset.train(case.run),
    "evaluate": lambda case: coverset.evaluate(case.run),
    "certify": lambda case: coverset.certify(case.run),
    "crossplay": lambda case: coverset.crossplay(case.run / "seed-0", "heuristics"),
    "recording": lambda case: make_from_record("The recording", LOADERS["recordings"](case)),
}
"""Functions that do."""


def test_no_loader_runs_what_a_file_names(hostile: Hostile) -> None:
    for case in hostile.cases:
        for name, load in LOADERS.items():
            load(case)
            hostile.assert_nothing_ran(f"{name} {case.name}")
        for name, use in USES.items():
            with pytest.raises(ValueError, match=r"\.$") as refused:
                use(case)
            assert str(refused.value).count("\n") <= 1, f"{name} {case.name}"
            hostile.assert_nothing_ran(f"{name} {case.name}")


LEARNER = {"learner": "hostile_module:Learner", "signature": "00"}


def test_no_learner_that_a_file_names_is_imported(planted: Hostile, tmp_path: Path, monkeypatch, capsys) -> None:
    """The rest of the run is honest; the agent says that it was made by code of somebody else."""
    monkeypatch.syspath_prepend(planted.marker.parent)
    toy_run.untrained(tmp_path / "seed-0", "matrix")
    agent = tmp_path / "seed-0" / "rl2"
    write_agent(agent, LEARNER)
    (agent / "config.json").write_text(json.dumps(json.loads((tmp_path / "seed-0/config.json").read_text()) | LEARNER))
    short = ["--trials", "2", "--episodes", "1"]
    for words in (
        ["evaluate", str(tmp_path), *short],
        ["evaluate", str(tmp_path), "--partners", str(agent), *short],
        ["train", str(tmp_path), "--learner", "plastic", "--partners", str(agent)],
        ["crossplay", str(agent), "heuristics", *short],
        ["crossplay", "heuristics", str(agent), "--env", "matrix", *short],
        ["export", str(agent)],
    ):
        assert run(words) == 2, words
        printed = capsys.readouterr()
        assert "would import 'hostile_module:Learner'" in printed.err
        assert printed.err.count("\n") == 1
        planted.assert_nothing_ran(" ".join(words))
    assert run(["report", str(tmp_path)]) == 0
    with Served(tmp_path) as studio:
        trial = {"run": "seed-0", "partner": "agent:rl2", "episodes": 1, "seed": 0}
        assert studio.post("/api/trials", trial).status in (400, 422)
    planted.assert_nothing_ran("report and studio")


def test_the_walk_would_notice(hostile: Hostile, capsys) -> None:
    """With the user's word the module is imported; and even then only an environment is called."""
    (case,) = [case for case in hostile.cases if case.name == "import"]
    try:
        assert run(["certify", str(case.run), "--trust", "hostile_module:Game"]) == 2
        assert "'hostile_module:Game' must name an importable module:function" in capsys.readouterr().err
        assert hostile.marker.exists()
        assert "hostile_module" in sys.modules
    finally:
        hostile.marker.unlink(missing_ok=True)
    (case,) = [case for case in hostile.cases if case.name == "system"]
    assert run(["certify", str(case.run), "--trust", "os:system"]) == 2
    assert "'os:system' must name an Environment class" in capsys.readouterr().err
    assert not hostile.marker.exists()
