"""`coverset studio` as a process: address, interrupt, errors."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from coverset.cli.main import run

STUDIO = [sys.executable, "-c", "from coverset.cli.main import main; main()", "studio"]


@pytest.fixture
def interruptible():
    """A shell's background job ignores interrupts, and so do its children: not those of a test about them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_it_prints_its_address_serves_and_stops_on_interrupt(tmp_path):
    command = [*STUDIO, str(tmp_path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as studio:
        assert studio.stdout is not None
        address = json.loads(studio.stdout.readline())["address"]
        with urllib.request.urlopen(f"{address}api/runs", timeout=60) as answer:
            assert json.load(answer) == {"directory": tmp_path.name, "runs": []}
        studio.send_signal(signal.SIGINT)
        rest, errors = studio.communicate(timeout=60)
    assert rest == ""
    assert errors.splitlines()[-1:] == ["coverset: interrupted."]
    assert studio.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "DIR must be a directory with runs of coverset, but nowhere is not a directory."),
        ([".", "--port", "70000"], "port must lie between 0 and 65535, got 70000."),
        ([".", "--token", "short"], "token must have at least 8 printable ASCII characters"),
        ([".", "--host", "no.such.host.invalid", "--port", "0"], "host must be an address of this machine"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(arguments, words, capsys):
    assert run(["studio", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert words in printed.err
