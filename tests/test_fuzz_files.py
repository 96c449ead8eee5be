"""Whatever a file holds, reading it ends well or in one sentence: thousands of mutated files, and a few by hand."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import toy_run
from coverset.cli.main import run
from coverset.pipeline.generate import GenerationJob, make_plan
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile
from fuzz_files import fuzz
from fuzz_study import CHUNK, SEED, make_study

FILES = 3_000
MORE_FILES = 10_000
MOST_MEGABYTES = 500
"""Of the whole process: JAX, matplotlib and all."""

NASTY: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "an abyss": b'{"a":' * 200_000,
    "no text": b"\xff\xfe\x00",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a number that is none": b'{"env": NaN, "command": "generate"}',
    "half a character": rb'{"env": "\ud800", "command": "generate"}',
    "a name twice": b'{"env": "matrix", "env": "matrix"}',
    "a long number": b'{"seed": ' + b"9" * 5000 + b"}",
    "a huge header": (2**63).to_bytes(8, "little") + b"{}",
    "a promise": b"\x02" + b"\0" * 7 + b"{}",
}
"""Contents of any file, none of which can be read."""

READERS = (
    (f"{SEED}/config.json", ("evaluate", "matrix", "--learner", "plastic")),
    (f"{SEED}/config.json", ("train", "matrix", "--learner", "plastic")),
    (f"{SEED}/config.json", ("certify", "matrix")),
    (f"{SEED}/config.json", ("report", "matrix")),
    (f"{SEED}/config.json", ("generate", "matrix", *toy_run.words(), "--out", "matrix", "--resume")),
    (f"{SEED}/summary.json", ("certify", "matrix")),
    (f"{SEED}/policies.safetensors", ("evaluate", "matrix", "--learner", "plastic")),
    (f"{SEED}/policies.safetensors", ("train", "matrix", "--learner", "plastic")),
    (f"{SEED}/policies.safetensors", ("certify", "matrix")),
    (f"{SEED}/policies.safetensors", ("crossplay", SEED, "heuristics")),
    (f"{SEED}/policies.safetensors", ("export", SEED, "--role", "teammates", "--member", "1")),
    (f"{SEED}/plastic/agent.safetensors", ("evaluate", "matrix", "--learner", "plastic")),
    (f"{SEED}/plastic/agent.safetensors", ("crossplay", f"{SEED}/plastic", "heuristics")),
    (f"{SEED}/rl2/agent.safetensors", ("evaluate", "matrix", "--learner", "plastic", "--partners", f"{SEED}/rl2")),
    (f"{SEED}/plastic/agent.safetensors", ("export", f"{SEED}/plastic")),
    ("game.json", ("solve", "game.json")),
)
"""Every command that reads a run, with a file that it cannot do without."""


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("study")
    make_study(root)
    return root


def test_the_log_is_whole_before_it_is_mutated(study: Path) -> None:
    job = GenerationJob(make_plan("matrix", **toy_run.SETTINGS), (0,))
    assert RunDirectory(study / SEED).count_intact_rows(job.check_row) == CHUNK


def test_mutated_files_end_in_one_sentence(study: Path, tmp_path: Path) -> None:
    shutil.copytree(study, tmp_path / "copy")
    found = fuzz(tmp_path / "copy", FILES, seed=14, thorough=False)
    assert found.files == FILES
    assert not found.wrong, "\n".join(found.wrong[:20])


@pytest.mark.slow
def test_many_more_take_little_memory_and_time() -> None:
    """Prints the longest time; none may hang, which `fuzz` guards against with an alarm."""
    program = Path(__file__).with_name("fuzz_files.py")
    done = subprocess.run(
        [sys.executable, program, str(MORE_FILES), "0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    print({name: value for name, value in found.items() if name != "wrong"})
    assert found["files"] == MORE_FILES
    assert not found["wrong"], "\n".join(found["wrong"][:20])
    assert found["megabytes"] < MOST_MEGABYTES


def refusal(capsys, words: tuple[str, ...]) -> str:
    """The one sentence of a command that fails."""
    capsys.readouterr()
    code = run([*words])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, ""), printed.err
    assert printed.err.startswith("coverset: ")
    assert printed.err.endswith(".\n")
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize(("file", "words"), READERS, ids=lambda value: value if isinstance(value, str) else value[0])
def test_every_command_says_it_in_one_sentence(study: Path, tmp_path: Path, capsys, monkeypatch, file, words) -> None:
    shutil.copytree(study, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    for content in NASTY.values():
        Path(file).write_bytes(content)
        for options in ((), ("--json",)):
            if words[0] == "export" and options:
                continue
            refusal(capsys, (*words, *options))


@pytest.mark.parametrize("file", [f"{SEED}/config.json", f"{SEED}/policies.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "circle"])
def test_what_is_no_file_is_not_waited_for(study: Path, tmp_path: Path, capsys, monkeypatch, file, kind) -> None:
    shutil.copytree(study, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    Path(file).unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        Path(file).mkdir()
    else:
        Path(file).symlink_to(Path(file).name)
    for words in (("evaluate", "matrix", "--learner", "plastic"), ("certify", "matrix"), ("crossplay", SEED, SEED)):
        if words[0] != "crossplay" or "policies" in file:
            refusal(capsys, words)
    if "config" in file:
        refusal(capsys, ("report", "matrix"))


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_a_log_that_is_no_file_is_named(study: Path, tmp_path: Path, kind) -> None:
    shutil.copytree(study / SEED, tmp_path / "run")
    log = RunDirectory(tmp_path / "run").metrics_path
    log.unlink()
    os.mkfifo(log) if kind == "pipe" else log.mkdir()
    for read in (RunDirectory.rows, lambda run: run.count_intact_rows(print), lambda run: run.rewind(1, 1)):
        with pytest.raises(DamagedFile, match=r"metrics\.jsonl must be a regular file"):
            read(RunDirectory(tmp_path / "run"))
