"""Every `coverset` command on a page is run, in small."""

import json
import re
import shutil
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import pages
import toy_run
import toy_study
from coverset.cli.main import COMMANDS, run

SMALL_GENERATION = {
    "total_steps": 1,
    "chunk_steps": 1,
    "rollout_length": 1,
    "envs_per_pair": 1,
    "epochs": 1,
    "minibatches": 1,
    "population_size": 2,
    "hidden_sizes": 4,
    "value_samples": 1,
}
RUN_IN_SMALL: dict[str, list[str]] = {
    "bench": [],
    "certify": ["--trials", "1"],
    "check": ["--quick"],
    "crossplay": ["--trials", "2", "--episodes", "2"],
    "evaluate": ["--trials", "2", "--episodes", "2"],
    "envs": [],
    "export": [],
    "inspect": ["--episodes", "2", "--steps", "1", "--trials", "1"],
    "generate": [word for name, x in SMALL_GENERATION.items() for word in (f"--{name.replace('_', '-')}", str(x))],
    "probe": ["--probes", "1", "--steps", "1"],
    "report": [],
    "reproduce": ["--methods", "lbrdiv", "--seeds", "0", "--out", "studied", "--dry-run"],
    "solve": [],
    "train": [
        *("--total-steps", "100", "--chunk-steps", "100", "--rollout-length", "5", "--envs-per-partner", "4"),
        *("--hidden-sizes", "4", "--memory-size", "4", "--epochs", "1", "--minibatches", "1", "--evaluations", "0"),
    ],
    "tune": ["--alphas", "0.5", "--seeds", "0", "--refinements", "0"],
}
"""What makes a command small. Studies are only planned, with all choices checked: a slow test carries them out."""

SMALL_SETTINGS = {
    "reproduce": {"--generation": toy_study.GENERATION | {"minibatches": 1}, "--training": toy_study.TRAINING},
    "tune": {"--generation": toy_study.GENERATION},
}
"""What joins the settings that a command gives as NAME=VALUE."""

ELSEWHERE = {
    "docs/tutorials/bring-your-own-game.md": "test_tutorial.py",
    "docs/how-to/benchmark.md": "bench/test_bench.py",
    "docs/how-to/coverage-suite.md": "bench/test_coverage_suite.py",
    "docs/how-to/distributed-studies.md": "study/test_ray_engine.py",
}
"""Pages whose commands are run by a test of their own."""

OF_OTHERS = "coverset.adapters."
"""Commands on environments of other packages are run in small by tests/adapters, which compile them anyway."""

ASIDE = {"generate", "tune"}
"""Commands that must not find what others have left."""

NOT_COMMANDS = {"agent", "exported", "population", "recording"}
"""What else stands behind the name: formats of files."""


def prepare() -> None:
    """What the commands start from: runs that nobody has trained, and files that a page shows."""
    for environment in ("matrix", "reaching", "weighted-reaching"):
        toy_run.untrained(Path(f"runs/{environment}-lbrdiv-fast/seed-0"), environment)
    for copy in ("matrix-brdiv-fast", "a", "b"):
        shutil.copytree("runs/matrix-lbrdiv-fast", f"runs/{copy}")
    page = (pages.ROOT / "docs" / "how-to" / "exact-solver.md").read_text()
    for name, content in re.findall(r"^\$ cat (\S+)\n(.*?)^\$", page, re.MULTILINE | re.DOTALL):
        Path(name).write_text(content)


def written() -> list[tuple[str, list[str]]]:
    """Pages and their commands, each command once."""
    found = {
        tuple(words): name
        for name, page in reversed(pages.pages().items())
        if name not in ELSEWHERE
        for words in reversed(pages.commands(page.read_text()))
        if not any(word.startswith(OF_OTHERS) for word in words)
    }
    return [(name, list(words)) for words, name in reversed(found.items())]


def rehearse(words: list[str]) -> int:
    """Run a command in small; returns its exit code."""
    if "--help" in words:
        with pytest.raises(SystemExit) as end:
            run(words)
        return end.value.code
    if words[0] == "studio":
        return visit_studio(words)
    words = [*words, *RUN_IN_SMALL[words[0]]]
    for option, settings in SMALL_SETTINGS.get(words[0], {}).items():
        words = with_settings(words, option, settings)
    return run(words)


def with_settings(words: list[str], option: str, settings: dict[str, Any]) -> list[str]:
    """The command with more NAME=VALUE behind an option; of two values of a name the last one counts."""
    words = words if option in words else [*words, option]
    start = words.index(option) + 1
    end = start + len([*takewhile(lambda word: "=" in word, words[start:])])
    return [*words[:end], *(f"{name}={json.dumps(value)}" for name, value in settings.items()), *words[end:]]


def visit_studio(words: list[str]) -> int:
    """Serve in a process of its own, look at the first page, and stop it."""
    command = [sys.executable, "-c", "from coverset.cli.main import main; main()", *words, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        told = served.stdout.readline() if served.stdout else ""
        if not told:
            return served.wait()
        with urlopen(json.loads(told)["address"]) as page:
            assert b"<title>" in page.read()
        served.terminate()
        return served.wait() + signal.SIGTERM


def test_every_command_works(monkeypatch, tmp_path: Path, capfd) -> None:
    """In the order of the pages: a later command may need what an earlier one has made."""
    desk = tmp_path / "desk"
    desk.mkdir()
    monkeypatch.chdir(desk)
    monkeypatch.setattr("coverset.evaluation.summary.TRIALS", 2)
    prepare()
    failures = []
    for number, (page, words) in enumerate(written()):
        aside = words[0] in ASIDE
        place = tmp_path / str(number) if aside else desk
        place.mkdir(exist_ok=True)
        monkeypatch.chdir(place)
        capfd.readouterr()
        if rehearse(words) != 0:
            failures.append(f"{page}: coverset {' '.join(words)}: {capfd.readouterr().err}")
    assert not failures, "\n".join(failures)


@pytest.mark.slow
def test_every_study_works(monkeypatch, tmp_path: Path, capfd) -> None:
    """All go to one place, where each finds what the ones before have done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("coverset.evaluation.summary.TRIALS", 2)
    monkeypatch.setitem(RUN_IN_SMALL, "reproduce", [word for word in RUN_IN_SMALL["reproduce"] if word != "--dry-run"])
    studies = [words for _, words in written() if words[0] == "reproduce" and "--dry-run" not in words]
    assert len(studies) >= 5
    for words in studies:
        assert rehearse(words) == 0, capfd.readouterr().err
    assert (tmp_path / "studied" / "report" / "index.html").is_file()


def test_every_page_with_commands_is_read() -> None:
    found = written()
    known = {"README.md", "docs/getting-started/quick-start.md", "docs/how-to/export.md", "docs/how-to/exact-solver.md"}
    assert known <= {page for page, _ in found}
    assert {words[0] for _, words in found} == COMMANDS.keys() - {"bench", "demo"}
    for name, test in ELSEWHERE.items():
        assert Path(name).name in (pages.ROOT / "tests" / test).read_text()
    others = [word for _, page in pages.pages().items() for words in pages.commands(page.read_text()) for word in words]
    tests = "".join(path.read_text() for path in (pages.ROOT / "tests" / "adapters").glob("test_*.py"))
    for name in (word for word in others if word.startswith(OF_OTHERS)):
        assert f'"{name}"' in tests


@pytest.mark.parametrize("name", pages.pages())
def test_commands_in_sentences_exist(name: str) -> None:
    named = set(re.findall(r"`coverset ([a-z]\w*)", pages.pages()[name].read_text()))
    assert named <= COMMANDS.keys() | NOT_COMMANDS


@pytest.mark.parametrize(
    "words",
    [
        "generate matrix --sneeds 0",
        "generate matrix --method lbrdiw",
        "generate matrix --preset slow",
        "generate matrx",
        "generate reaching --env-args width=3",
        "tune matrix --method lbrdiv",
        "tune matrix --method lipo --generation total_stepz=1",
        "bench foraging --preset quick",
        "bench --clock sun",
        "studio nowhere",
        "studio runs --doors 3",
        "reproduce --methods lbrdiw",
        "reproduce matrix --training memory=16",
        "crossplay heuristics H99 --env reaching",
        "solve matrix --figures a.png",
    ],
)
def test_a_mistake_would_be_seen(words: str, monkeypatch, tmp_path: Path, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words.split()) == 2
