"""`--json` prints one object on standard output and nothing else, whatever packages print, for every command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import toy_run
from coverset.cli.json_output import print_json, reserve_stdout
from coverset.cli.main import COMMANDS, run

GAME = "noisy_game:Noisy"
ONE = ["--trials", "1", "--episodes", "1"]
WORDS: dict[str, list[str]] = {
    "envs": [GAME],
    "check": [GAME, "--quick"],
    "generate": [GAME, *toy_run.words(total_steps=80, minibatches=1), "--out", "out"],
    "train": ["run", "--learner", "plastic", "--name", "another"],
    "evaluate": ["run", *ONE],
    "crossplay": ["run/seed-0", "heuristics", *ONE],
    "certify": ["run"],
    "probe": ["run", "--probes", "2", "--steps", "64"],
    "export": ["run/seed-0/plastic"],
    "report": ["run"],
    "solve": ["matrix"],
    "reproduce": [GAME, "--methods", "lbrdiv", "--seeds", "0", "--out", "studied", "--dry-run"],
}
ELSEWHERE = {
    "studio": "test_studio_command.py",
    "tune": "../study/test_tune.py",
    "bench": "../bench/test_bench.py",
    "demo": "test_demo.py",
    "inspect": "test_inspect.py",
}
"""Commands that take too long or never end; tests of their own read what they print."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A run of the noisy game, with an agent."""
    place = tmp_path_factory.mktemp("desk")
    toy_run.untrained(place / "run" / "seed-0", GAME)
    assert run(["train", str(place / "run"), "--learner", "plastic", "--json"]) == 0
    return place


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - ELSEWHERE.keys()))
def test_nothing_but_the_object_is_printed(desk: Path, command: str, monkeypatch, capfd) -> None:
    monkeypatch.chdir(desk)
    capfd.readouterr()
    assert run([command, *WORDS[command], "--json"]) == 0, capfd.readouterr().err
    printed = capfd.readouterr()
    assert isinstance(json.loads(printed.out), dict)
    assert printed.out.count("\n") == 1
    if GAME in WORDS[command]:
        assert "a child prints" in printed.err


@pytest.mark.parametrize("command", ELSEWHERE)
def test_other_commands_are_tested_elsewhere(command: str) -> None:
    assert '"--json"' in (Path(__file__).parent / ELSEWHERE[command]).read_text()


ADAPTERS = {
    "coverset.adapters.jaxmarl:overcooked": ["horizon=3"],
    "coverset.adapters.jaxmarl:from_jaxmarl": ["environment=MPE_simple_spread_v3", "horizon=3"],
    "coverset.adapters.hanabi:mini_hanabi": [],
    "coverset.adapters.jumanji:JumanjiForaging": ["horizon=3"],
    "coverset.adapters.pettingzoo:from_parallel": [
        "environment=mpe2.simple_spread_v3:parallel_env",
        "horizon=3",
        "max_cycles=3",
    ],
}


SLOW = ("coverset.adapters.jaxmarl:from_jaxmarl", "coverset.adapters.hanabi:mini_hanabi")
"""Of the package that another adapter imports too."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in ADAPTERS])
def test_nothing_but_the_object_is_printed_with_an_adapter(name: str, tmp_path: Path) -> None:
    """In a process that imports the package for the first time: JaxMARL prints then."""
    words = ["envs", name, *(["--env-args", *ADAPTERS[name]] if ADAPTERS[name] else []), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "coverset", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["players"] >= 2


def test_output_is_as_before_after_the_block(capfd) -> None:
    with reserve_stdout():
        print("noise")
        print_json({"a": 1})
    print("after")
    printed = capfd.readouterr()
    assert printed.out == '{"a": 1}\nafter\n'
    assert "noise" in printed.err


def test_help_is_printed_where_it_belongs(capfd) -> None:
    with pytest.raises(SystemExit):
        run(["envs", "--help", "--json"])
    assert "coverset envs reaching" in capfd.readouterr().out
