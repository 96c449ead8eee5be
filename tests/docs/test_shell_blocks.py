"""What the pages tell a shell besides `coverset` commands: it can be read, and every program runs in a test."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pages

BLOCKS = [
    pytest.param(block.text, id=f"{name}-{number}")
    for name, page in pages.pages().items()
    for number, block in enumerate(pages.blocks(page.read_text()))
    if block.kind == "sh"
]
OF_WHOLE_PAGES = {
    "docs/how-to/distributed-studies.md": "study/test_cluster_page.py",
    "docs/tutorials/bring-your-own-game.md": "test_tutorial.py",
}
"""Pages whose shell blocks run as they stand in a test of their own."""


def lines(program: str) -> list[str]:
    """Every line of the pages that starts a program, each once."""
    texts = (block.values[0].replace("\\\n", " ") for block in BLOCKS)
    starts = (line.strip() for text in texts for line in text.splitlines())
    return sorted({shlex.join(shlex.split(line, comments=True)) for line in starts if line.startswith(f"{program} ")})


def execute(line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, **environ}
    return subprocess.run(
        ["bash", "-e", "-c", line], cwd=pages.ROOT, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("text", BLOCKS)
def test_a_shell_can_read_it(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_program_is_known() -> None:
    """`coverset` commands are run by test_commands.py."""
    for name, page in pages.pages().items():
        if name in OF_WHOLE_PAGES:
            assert Path(name).name in (pages.ROOT / "tests" / OF_WHOLE_PAGES[name]).read_text()
            continue
        for block in pages.blocks(page.read_text()):
            if block.kind == "sh":
                starts = block.text.replace("\\\n", " ").splitlines()
                assert {line.split()[0] for line in starts if line.strip()} <= {"coverset", "make", "pip", "source"}, (
                    name
                )


@pytest.mark.parametrize("line", [line for line in lines("pip") if "coverset[" in line])
def test_an_installation_asks_for_what_there_is(line: str) -> None:
    """Nothing is fetched: what an extra needs is installed for the tests, and pip finds that it would do."""
    done = execute(line, PIP_NO_INDEX="1", PIP_DRY_RUN="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    assert done.returncode == 0, done.stderr
    assert "already satisfied: coverset[" in done.stdout
    assert "does not provide the extra" not in done.stderr
    assert "Would install" not in done.stdout


@pytest.mark.parametrize("line", lines("make"))
def test_a_target_can_be_made(line: str) -> None:
    done = execute(f"{line} --dry-run --always-make")
    assert done.returncode == 0, done.stderr
    assert "bin/" in done.stdout


@pytest.mark.parametrize("line", [line for line in lines("source") if "$HOME" not in line])
def test_an_activated_environment_has_the_program(line: str) -> None:
    """`make setup` makes the environment that a page activates."""
    assert f"BIN := {Path(line.split()[1]).parent}" in (pages.ROOT / "Makefile").read_text()
    if (pages.ROOT / line.split()[1]).is_file():
        done = execute(f"{line} && command -v coverset", PATH="/usr/bin:/bin")
        assert done.stdout.strip().endswith("bin/coverset"), done.stderr


def test_mistakes_would_be_seen() -> None:
    assert len(lines("pip")) >= 4
    assert len(lines("source")) >= 1
    assert len(lines("make")) >= 2
    with pytest.raises(AssertionError):
        test_an_installation_asks_for_what_there_is("pip install 'coverset[rey]'")
    with pytest.raises(AssertionError):
        test_a_shell_can_read_it("until true; do\n")
    with pytest.raises(AssertionError):
        test_a_target_can_be_made("make tset")
