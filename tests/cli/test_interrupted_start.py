"""Signals while a command is being imported: one sentence, the signal's exit code, and nothing written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import toy_run

PROGRAM = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), int(signum))

_, moment, signum, *words = sys.argv
sys.argv = ["coverset", *words]
sys.meta_path.insert(0, Interrupting())
from coverset.__main__ import main
main()
"""
"""The command in a process that sends itself a signal when it looks for a module."""
GENERATE = ("generate", "matrix", *toy_run.words(), "--out", "run")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("coverset.cli.main", GENERATE),
        ("tyro", GENERATE),
        ("jaxlib._hlo", GENERATE),  # imported by a library, to which an exception is an error
        ("jaxlib._hlo", ("evaluate", "run")),
        ("jaxlib._hlo", ("crossplay", "run", "run")),
    ],
)
def test_a_signal_during_imports_ends_in_one_sentence(
    tmp_path: Path, how: signal.Signals, moment: str, words: tuple[str, ...]
) -> None:
    path = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, moment, str(int(how)), *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (128 + how, ""), done.stderr
    (sentence,) = done.stderr.splitlines()
    advised = words is GENERATE and moment != "coverset.cli.main"
    assert sentence == f"coverset: interrupted{'; repeat the command with --resume to continue' if advised else ''}."
    assert not [*tmp_path.iterdir()]
