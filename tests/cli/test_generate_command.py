"""The generate command from end to end: its output, and real processes that are killed and interrupted."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

import toy_run
from coverset.cli.generate import parse
from coverset.cli.main import run
from coverset.cli.shared import parse_key_values, parse_seeds, peek_option
from coverset.cli.tables import describe_steps, print_summaries
from coverset.pipeline.generate import make_plan
from coverset.teammates.methods.growing import Growing
from toy_run import outcome

LONG_CHUNKS = 800
LONG = {"total_steps": LONG_CHUNKS * toy_run.SETTINGS["chunk_steps"]}
"""Long enough to be killed many times in the middle, however fast the machine."""
PATIENCE = 300


def start(out: Path, *arguments: str) -> subprocess.Popen:
    """A real `coverset generate` of the long toy run, which shares the tests' compiled programs."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    program = [sys.executable, "-c", "from coverset.cli.main import main; main()"]
    command = [*program, "generate", "matrix", *toy_run.words(**LONG)]
    return subprocess.Popen(
        [*command, "--out", str(out), "--checkpoint-seconds", "0.05", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows(out: Path) -> int:
    log = out / "seed-0" / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.is_file() else 0


def checkpoints(out: Path) -> list[int]:
    return sorted(int(path.stem) for path in (out / "seed-0" / "checkpoints").glob("*.safetensors"))


def wait_for(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """The long run in this process, from start to end."""
    out = tmp_path_factory.mktemp("undisturbed")
    assert run(["generate", "matrix", *toy_run.words(**LONG), "--out", str(out)]) == 0
    return outcome(out / "seed-0")


@pytest.mark.slow
def test_killed_five_times_and_interrupted_once_a_run_ends_with_the_same_bytes(undisturbed, tmp_path) -> None:
    """Policies, log and last checkpoint, multipliers included. Each session must get further than the one before."""
    moments = random.Random()
    reached = 0
    for session in range(6):
        interrupted = session == 3
        process = start(tmp_path, "--resume")
        if session:
            # A session first goes on from a checkpoint of the one before.
            wait_for(lambda goal=reached: max(checkpoints(tmp_path), default=0) > goal, process)
        target = rows(tmp_path) + moments.randint(1, 30)
        wait_for(lambda goal=target: rows(tmp_path) >= goal, process)
        time.sleep(moments.uniform(0.0, 0.01))
        process.send_signal(signal.SIGINT if interrupted else signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == (130 if interrupted else -signal.SIGKILL), (session, target, err)
        if interrupted:
            assert err.startswith("coverset: Stopped after")
            assert err.rstrip().endswith("Repeat the command with --resume.")
            assert rows(tmp_path) == max(checkpoints(tmp_path))
        reached = max(checkpoints(tmp_path), default=0)
        assert reached < LONG_CHUNKS
        assert not (tmp_path / "seed-0" / "summary.json").exists()
    assert reached > 0
    process = start(tmp_path, "--resume", "--json")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert err == ""
    assert outcome(tmp_path / "seed-0") == undisturbed
    assert not list(tmp_path.rglob(".*.tmp"))
    assert json.loads(out) == {"runs": [json.loads((tmp_path / "seed-0" / "summary.json").read_text())]}


def test_json_is_all_that_standard_output_holds_and_seeds_keep_their_order(capfd, tmp_path) -> None:
    arguments = ["generate", "matrix", *toy_run.words(), "--out", str(tmp_path), "--seeds", "2", "0..1", "--json"]
    assert run(arguments) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    answer = json.loads(printed.out)
    assert set(answer) == {"runs"}
    assert [summary["seed"] for summary in answer["runs"]] == [2, 0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1", "seed-2"]
    assert run([*arguments, "--resume"]) == 0
    assert json.loads(capfd.readouterr().out) == answer


def test_without_json_there_is_a_table_with_a_row_per_seed(capfd, tmp_path) -> None:
    assert run(["generate", "matrix", *toy_run.words(), "--out", str(tmp_path), "--seeds", "5"]) == 0
    printed = capfd.readouterr()
    assert "matrix: lbrdiv, preset fast" in printed.out
    assert " 5 " in printed.out
    assert "of 3" in printed.out


def test_a_damaged_checkpoint_is_named_on_standard_error(capfd, tmp_path) -> None:
    arguments = ["generate", "matrix", *toy_run.words(), "--out", str(tmp_path), "--json"]
    assert run([*arguments, "--checkpoint-seconds", "0"]) == 0
    (tmp_path / "seed-0" / "summary.json").unlink()
    newest = max((tmp_path / "seed-0" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    capfd.readouterr()
    assert run([*arguments, "--resume"]) == 0
    printed = capfd.readouterr()
    (sentence,) = printed.err.splitlines()
    assert newest.name in sentence
    assert f"the checkpoint of chunk {toy_run.CHUNKS - 1}" in sentence
    assert json.loads(printed.out)["runs"][0]["seed"] == 0


def test_runs_go_where_the_name_says_if_nobody_says_where(capfd, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["generate", "matrix", *toy_run.words(), "--json"]) == 0
    assert (tmp_path / "runs" / "matrix-lbrdiv-fast" / "seed-0" / "summary.json").is_file()


@pytest.mark.slow
def test_an_environment_of_ones_own_needs_no_known_conventions(capfd, tmp_path) -> None:
    """One that ends by its time limit, has unlike seats, and does not say what its conventions pay."""
    arguments = ["generate", "countdown:Countdown", "--env-args", "terminates=false", *toy_run.words(minibatches=1)]
    assert run([*arguments, "--out", str(tmp_path), "--json"]) == 0
    (summary,) = json.loads(capfd.readouterr().out)["runs"]
    assert summary["env"] == "countdown:Countdown"
    assert summary["coverage_found"] is summary["coverage_size"] is None
    assert summary["cross_play_seats_swapped"] is None
    assert summary["covers"] == [None, None]
    assert all(111 <= value <= 111 + 3 * 1.2 for row in summary["cross_play"] for value in row)


def test_help_and_version_need_no_environment(capsys) -> None:
    assert run(["--help"]) == 0
    assert "generate" in capsys.readouterr().out
    assert run([]) == 2
    assert run(["--version"]) == 0
    with pytest.raises(SystemExit) as stopped:
        run(["generate", "--help"])
    assert stopped.value.code == 0
    assert "--population-size" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "seeds"), [(["0..3"], [0, 1, 2, 3]), (["7"], [7]), (["5", "1..2", "0"], [5, 1, 2, 0]), (["4..4"], [4])]
)
def test_seeds_are_numbers_and_ranges(words: list[str], seeds: list[int]) -> None:
    assert parse_seeds(words) == seeds


def test_environment_parameters_are_json_or_text() -> None:
    words = ["size=7", "encoding=one-hot", "sees-teammate=true", "payoffs=[[1, 2]]", "name=a=b"]
    assert parse_key_values("env_args", words) == {
        "size": 7, "encoding": "one-hot", "sees_teammate": True, "payoffs": [[1, 2]], "name": "a=b",
    }  # fmt: skip


def test_an_option_is_found_in_both_spellings() -> None:
    assert peek_option(["matrix", "--method", "lipo"], "--method", "lbrdiv") == "lipo"
    assert peek_option(["matrix", "--method=lipo"], "--method", "lbrdiv") == "lipo"
    assert peek_option(["matrix", "--method"], "--method", "lbrdiv") == "lbrdiv"


@pytest.mark.parametrize("words", [["--population-size", "auto"], ["--population-size=auto"]])
def test_a_population_size_that_is_found_stands_for_growing(words: list[str]) -> None:
    command = parse(["matrix", *words, "--seeds", "3"])
    assert command.method == "growing"
    assert command.settings.population_size == (Growing.default_settings or {})["population_size"]
    with pytest.raises(ValueError, match=r"population_size must be a number for lbrdiv, .* got 'auto'; growing"):
        parse(["matrix", "--method", "lbrdiv", *words])


def test_the_same_in_python() -> None:
    assert make_plan("matrix", population_size="auto").method == "growing"
    assert make_plan("matrix").method == make_plan("matrix", population_size=5).method == "lbrdiv"


def test_a_seed_is_one_line_of_eighty_columns(capsys) -> None:
    """Details are printed on request, and a difference to the steps that were asked for is said."""
    long = "corner A 97%, no convention 3%"
    summary = {
        "env": "package:Game", "game": "Game", "method": "lbrdiv", "preset": "fast", "seed": 3, "env_steps": 120,
        "cross_play": [[1.0, 0.5], [0.25, 1.0]], "conventions": [long] * 2, "coverage_found": 2, "coverage_size": 4,
        "constraints_violated": 0, "train_seconds": 250.0,
    }  # fmt: skip
    print_summaries([summary, {**summary, "conventions": [long] * 9}])
    shown = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith("3 ")]
    assert [row[:9] for row in rows] == [["3", "2", "of", "4", "1", "0.375", "all", "hold", "4"]] * 2
    print_summaries([summary], details=True)
    assert "seed 3 teammate 2: corner A 97%, no convention 3%; 1 with its best response" in capsys.readouterr().out
    assert describe_steps(100, 120) == "120 steps per seed, where --total-steps is 100: chunks of updates are not cut."
    assert describe_steps(120, 120) is None


def test_it_ends_with_the_directory_and_the_next_command(tmp_path, capsys) -> None:
    out = tmp_path / "my runs"
    assert run(["generate", "matrix", *toy_run.words(total_steps=80), "--out", str(out)]) == 0
    *_, place, following = capsys.readouterr().out.splitlines()
    assert place == f"Teammates: {out}"
    assert following == f"Train an agent with them: coverset train '{out}'"
