"""Every mistake of the caller: exit code 2, one sentence that names field and value, and nothing written."""

import os
from pathlib import Path

import pytest

import toy_run
from coverset.cli.main import run


def refusal(capsys, *arguments: str) -> str:
    """Run a command that must be refused, and return its one sentence."""
    assert run(["generate", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (sentence,) = printed.err.splitlines()
    assert sentence.startswith("coverset: ")
    assert sentence.endswith((".", "?"))
    return sentence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["nowhere"],
            [
                "environment must be one of",
                "foraging, matching-pennies, matrix, overcooked, reaching, rock-paper-scissors, signalling",
                "'nowhere'",
            ],
        ),
        (["matrxi"], ["'matrxi'", "Did you mean 'matrix'?"]),
        (["no_such_module:game"], ["'no_such_module:game'", "module:function"]),
        (["broken_game:TooLong"], ["TooLong.observe must be float32[2, 1], got float32[2, 3]"]),
        (["os:path"], ["'os:path'", "must name a function or a class"]),
        (["os:getcwd"], ["'os:getcwd'", "must name an Environment class", "-> Environment"]),
        ([], ["needs an environment"]),
        (["--seeds", "1"], ["needs an environment"]),
        (
            ["matrix", "--method", "lbrdive"],
            [
                "method must be lbrdiv, brdiv, lipo, lipo-max, growing, independent, mep, trajedi",
                "or module:Class",
                "'lbrdive'",
                "Did you mean 'lbrdiv'?",
            ],
        ),
        (["matrix", "--preset", "quick"], ["preset must be one of fast, paper", "'quick'"]),
        (["matrix", "--population-size", "0"], ["population_size must be at least 2", "got 0"]),
        (["matrix", "--population-size", "1"], ["population_size must be at least 2", "got 1"]),
        (["matrix", "--learning-rate", "-0.1"], ["learning_rate", "got -0.1"]),
        (["matrix", "--learning-rate", "nan"], ["learning_rate", "got nan"]),
        (["matrix", "--critic-learning-rate", "0"], ["critic_learning_rate", "got 0.0"]),
        (["matrix", "--multiplier-learning-rate", "-1"], ["multiplier_learning_rate", "got -1.0"]),
        (["matrix", "--multiplier-learning-rate", "inf"], ["multiplier_learning_rate", "got inf"]),
        (["matrix", "--target-update-rate", "1.5"], ["target_update_rate", "got 1.5"]),
        (["matrix", "--discount", "-0.5"], ["discount", "got -0.5"]),
        (["matrix", "--margin", "-1"], ["margin", "got -1.0"]),
        (["matrix", "--total-steps", "0"], ["total_steps must be at least 1", "got 0"]),
        (["matrix", "--rollout-length", "0"], ["rollout_length", "got 0"]),
        (
            ["matrix", "--minibatches", "3", "--rollout-length", "4"],
            ["minibatches must divide the 4 steps of a rollout", "3"],
        ),
        (["matrix", "--hidden-sizes", "32", "0"], ["hidden_sizes", "(32, 0)"]),
        (["matrix", "--value-states", "all"], ["value_states must be one of", "'all'"]),
        (["matrix", "--checkpoint-seconds", "-1"], ["checkpoint_seconds", "got -1.0"]),
        (["matrix", "--env-args", "horizon=0"], ["horizon must be at least 1", "got 0"]),
        (["matrix", "--env-args", "horizon=1.5"], ["horizon must be a whole number", "got 1.5"]),
        (["matrix", "--env-args", "payoffs=[[1,2],[3]]"], ["payoffs must be rectangular", "row 1 has 1"]),
        (["matrix", "--env-args", "payoffs=[[1,NaN],[3,4]]"], ["payoffs", "nan in row 0, column 1"]),
        (["matrix", "--env-args", "payoffs=[[1,Infinity],[3,4]]"], ["payoffs", "inf in row 0, column 1"]),
        (
            ["matrix", "--env-args", "payoffs=[[1,2],[1e39,4]]"],
            ["within the range of float32", "1e+39 in row 1, column 0"],
        ),
        (["matrix", "--env-args", "payoffs=[]"], ["payoffs must have at least one row"]),
        (["matrix", "--env-args", "payoffs=high"], ["payoffs must be a list", "'high'"]),
        (["matrix", "--env-args", "payoffs=[1,2]"], ["payoffs must be a list", "[1, 2]"]),
        (["matrix", "--env-args", 'payoffs=[["a",1]]'], ["payoffs must be a list", "'a'"]),
        (["matrix", "--env-args", "colour=red"], ["'matrix' takes payoffs, horizon", "'colour'"]),
        (["matrix", "--env-args", "horizon"], ["env_args must be given as NAME=VALUE", "'horizon'"]),
        (["reaching", "--env-args", "size=abc"], ["size must be a whole number", "'abc'"]),
        (["reaching", "--env-args", "size=2"], ["size must be at least 3", "got 2"]),
        (["reaching", "--env-args", "sees_teammate=maybe"], ["sees_teammate must be true or false", "'maybe'"]),
        (["weighted-reaching", "--env-args", "encoding=3"], ["encoding must be text", "got 3"]),
        (["foraging", "--env-args", "objects=3"], ["objects must be text", "got 3"]),
        (["matrix", "--seeds", "one"], ["seeds", "'one'"]),
        (["matrix", "--seeds", "3..1"], ["seeds", "'3..1'"]),
        (["matrix", "--seeds", "1..2..3"], ["seeds", "'1..2..3'"]),
        (["matrix", "--seeds", "-1"], ["seeds", "'-1'"]),
        (["matrix", "--seeds", "²"], ["seeds", "'²'"]),
        (["matrix", "--seeds", "4294967296"], ["seeds", "4294967296"]),
        (["matrix", "--seeds", "7", "0..9999999999"], ["seeds must be at most 10000", "'0..9999999999'"]),
        (["matrix", "--seeds", "0..1" + "0" * 60], ["seeds must be at most 10000"]),
        (["matrix", "--seeds", "9" * 5000], ["seeds must be non-negative integers", "'999"]),
        (["matrix", "--seeds", "1", "0..2"], ["seeds must be different", "[1, 0, 1, 2]"]),
        (["matrix", "--seeds"], ["seeds", "[]"]),
    ],
    ids=lambda value: " ".join(value)[:80],
)
def test_a_bad_value_is_named_and_nothing_is_written(capsys, monkeypatch, tmp_path, arguments, words) -> None:
    monkeypatch.chdir(tmp_path)
    sentence = refusal(capsys, *arguments)
    for word in words:
        assert word in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["matrix", "--total-steps", "many"], ["matrix", "--no-such-option", "1"], ["matrix", "--epochs"]]
)
def test_what_the_parser_refuses_is_one_sentence_too(capsys, monkeypatch, tmp_path, arguments) -> None:
    monkeypatch.chdir(tmp_path)
    assert arguments[1] in refusal(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_lists_the_known(capsys) -> None:
    assert run(["generat"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "command must be one of" in printed.err
    assert "Did you mean 'generate'?" in printed.err


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_directory_with_other_files_is_left_alone(capsys, tmp_path, resume) -> None:
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "thesis.tex").write_text("mine")
    before = contents(tmp_path)
    sentence = refusal(capsys, "matrix", "--seeds", "0", "1", "--out", str(tmp_path), *resume)
    assert "out must be empty or a run of coverset" in sentence
    assert str(tmp_path / "seed-1") in sentence
    assert contents(tmp_path) == before


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_where_the_directory_should_be_is_left_alone(capsys, tmp_path, below) -> None:
    (tmp_path / "out").write_text("mine")
    sentence = refusal(capsys, "matrix", "--out", str(tmp_path / "out" / below))
    assert str(tmp_path / "out") in sentence
    assert contents(tmp_path) == {tmp_path / "out": b"mine"}


def test_a_place_where_nothing_can_be_written_is_named(capsys) -> None:
    sentence = refusal(capsys, "matrix", "--out", "/proc/coverset")
    assert "out must be a writable directory, but /proc/coverset/seed-0 is not: No such file" in sentence


@pytest.mark.parametrize("there", [[], ["out/seed-1"], ["out/seed-0", "out/seed-1", "out/mine"]])
@pytest.mark.parametrize("call", ["open", "replace"])
def test_where_one_seed_cannot_be_written_none_is(capsys, monkeypatch, tmp_path, call, there) -> None:
    """The first is written, and taken back with every directory that was not there before."""
    real = getattr(Path, call)

    def fail(self, *arguments, **options):
        if self.parent.name == "seed-1" and self.suffix == ".tmp":
            raise OSError(28, "No space left on device", str(self))
        return real(self, *arguments, **options)

    def no_link(*names):
        raise PermissionError(1, "Operation not permitted")  # as on a file system without links

    for name in there:
        (tmp_path / name).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(Path, call, fail)
    monkeypatch.setattr(os, "link", no_link)
    out = tmp_path / "out"
    sentence = refusal(capsys, "matrix", "--out", str(out), "--seeds", "0..2")
    wanted = f"out must be a writable directory, but {out / 'seed-1'} is not: No space left on device."
    assert wanted in sentence
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_to_nothing_is_named(capsys, tmp_path) -> None:
    (tmp_path / "seed-1").symlink_to(tmp_path / "nowhere")
    sentence = refusal(capsys, "matrix", "--out", str(tmp_path), "--seeds", "0", "1")
    assert f"out must be a directory, but {tmp_path / 'seed-1'} is a broken link." in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["seed-1"]


def claim(out: Path, **changes) -> Path:
    """A run that has been started, by its config."""
    from coverset.pipeline.generate import make_plan
    from coverset.runs.directory import RunDirectory

    directory = RunDirectory(out / "seed-0")
    directory.claim(make_plan("matrix", **{**toy_run.SETTINGS, **changes}).config(0))
    return directory.config_path


def test_another_run_is_left_alone_and_the_difference_named(capsys, tmp_path) -> None:
    claim(tmp_path, margin=2.5)
    before = contents(tmp_path)
    for resume in ([], ["--resume"]):
        sentence = refusal(capsys, "matrix", *toy_run.words(), "--out", str(tmp_path), *resume)
        assert "holds another run (its margin is 2.5, not 1.0): choose another --out." in sentence
    assert contents(tmp_path) == before


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_another_run_under_another_seed_is_not_joined(capsys, tmp_path, resume) -> None:
    claim(tmp_path)
    before = contents(tmp_path)
    words = ["matrix", "--method", "brdiv", *toy_run.words(), "--out", str(tmp_path), "--seeds", "1", *resume]
    sentence = refusal(capsys, *words)
    assert (
        f"{tmp_path / 'seed-0'} holds another run (its method is lbrdiv, not brdiv): choose another --out." in sentence
    )
    assert contents(tmp_path) == before
    assert not (tmp_path / "seed-1").exists()


def test_a_run_is_no_place_for_runs(capsys, tmp_path) -> None:
    run_of_seed = claim(tmp_path).parent
    before = contents(tmp_path)
    sentence = refusal(capsys, "matrix", *toy_run.words(), "--out", str(run_of_seed))
    assert f"out must not be a run itself, but {run_of_seed} has a config.json" in sentence
    assert contents(tmp_path) == before


def test_a_run_is_not_started_twice_by_mistake(capsys, tmp_path) -> None:
    claim(tmp_path)
    sentence = refusal(capsys, "matrix", *toy_run.words(), "--out", str(tmp_path))
    assert "already holds this run: continue it with --resume" in sentence


@pytest.mark.parametrize("content", ['{"env": "matr', "[]", ""])
def test_a_damaged_config_is_named_and_left_as_it_is(capsys, tmp_path, content) -> None:
    path = claim(tmp_path)
    path.write_text(content)
    assert str(path) in refusal(capsys, "matrix", *toy_run.words(), "--out", str(tmp_path), "--resume")
    assert contents(tmp_path) == {path: content.encode()}


def test_a_summary_that_lacks_something_is_damaged(capsys, tmp_path) -> None:
    """It is a JSON object, and what is missing is noticed when it is shown; the advice can be followed."""
    arguments = ["matrix", *toy_run.words(), "--out", str(tmp_path), "--resume"]
    assert run(["generate", *arguments]) == 0
    summary = tmp_path / "seed-0" / "summary.json"
    whole = summary.read_bytes()
    summary.write_text('{"env": "matrix"}')
    capsys.readouterr()
    sentence = refusal(capsys, *arguments)
    assert "summary.json is damaged: method is missing. Delete it and use --resume to write it again." in sentence
    summary.unlink()
    assert run(["generate", *arguments]) == 0
    assert summary.read_bytes() == whole


def test_training_that_diverges_says_what_to_lower_and_leaves_no_result(capsys, tmp_path) -> None:
    options = toy_run.words(learning_rate=1e30)
    sentence = refusal(capsys, "matrix", *options, "--out", str(tmp_path))
    assert "Training of seed 0 diverged" in sentence
    assert "learning_rate" in sentence
    assert f"a new try needs another --out, or {tmp_path / 'seed-0'} removed." in sentence
    left = {path.name for path in contents(tmp_path)}
    assert left <= {"config.json", "metrics.jsonl", "timing.json"}


def test_a_reward_that_is_not_finite_is_named_and_no_learning_rate_is_blamed(capsys, tmp_path) -> None:
    sentence = refusal(capsys, "countdown:Unsound", *toy_run.words(minibatches=1), "--out", str(tmp_path))
    assert "the return of an episode is not finite. Make the rewards of the environment finite" in sentence
    assert "learning_rate" not in sentence


@pytest.mark.parametrize("payoff", [3e38, 1e25])
def test_payoffs_that_overflow_are_named_and_neither_step_nor_rates_are_blamed(capsys, tmp_path, payoff) -> None:
    game = f"payoffs=[[{payoff},0],[0,{payoff}]]"
    sentence = refusal(capsys, "matrix", "--env-args", game, *toy_run.words(), "--out", str(tmp_path))
    assert f"payoffs of up to {payoff:g} overflow float32 arithmetic. Choose smaller numbers" in sentence
    assert "step`" not in sentence
    assert "learning_rate" not in sentence
