"""Rows of `metrics.jsonl` that are valid JSON, but not what training wrote: a resumed run trains them again.

The report and the studio show the other rows. The report names the line and what to do.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coverset
import toy_run
from coverset.adhoc.registry import LEARNERS
from coverset.partners import find_partners, read_run
from coverset.pipeline.generate import GenerationJob, make_plan
from coverset.pipeline.loop import Job
from coverset.pipeline.report import read_study
from coverset.pipeline.train import AgentJob, AgentPlan
from coverset.presets import resolve_training
from coverset.reports.records import describe_state
from coverset.runs.directory import RunDirectory
from coverset.runs.storage import DamagedFile
from coverset.studio.catalogue import Catalogue
from coverset.studio.files import SafeDirectory
from coverset.studio.records import RunRecords

CHUNKS = 4
TEAMMATES = {**toy_run.SETTINGS, "total_steps": CHUNKS * 80}
AGENT: dict[str, Any] = {
    "total_steps": CHUNKS * 40,
    "hidden_sizes": (4,),
    "memory_size": 4,
    "envs_per_partner": 4,
    "rollout_length": 5,
    "chunk_steps": 40,
    "evaluations": 2,
    "parallel_seeds": 1,
}
COMMANDS = ("generate", "train")
RETURN = {"generate": "self_play_return", "train": "held_out_return"}
"""A field of each command's rows that the report draws."""
SPOILED = 3
"""The number of the line that is damaged."""


def without_return(row: dict[str, Any], name: str) -> str:
    del row[name]
    return json.dumps(row)


def nested_junk(row: dict[str, Any], name: str) -> str:
    junk: Any = {"other_best_response": [[{}]], "other_teammate": "many"}
    return json.dumps({**row, name: [junk], "gaps": junk, "learner": [junk], "method": {"multipliers": junk}})


DAMAGE: dict[str, Callable[[dict[str, Any], str], str]] = {
    "missing field": without_return,
    "steps alone": lambda row, name: json.dumps({"env_steps": row["env_steps"]}),
    "wrong type": lambda row, name: json.dumps({**row, name: "high"}),
    "true for a number": lambda row, name: json.dumps({**row, name: True}),
    "NaN": lambda row, name: json.dumps({**row, name: float("nan")}),
    "NaN as text": lambda row, name: json.dumps({**row, name: "nan"}),
    "nested junk": nested_junk,
}
"""What becomes of a row, which has a return of this name."""


def generate(root: Path, **options: Any) -> None:
    coverset.generate("matrix", out=root, checkpoint_seconds=0, **{**TEAMMATES, **options})


def train(root: Path, **options: Any) -> None:
    coverset.train(root, checkpoint_seconds=0, **{**AGENT, **options})


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run with an agent."""
    root = tmp_path_factory.mktemp("whole") / "matrix"
    generate(root)
    train(root)
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "study" / "matrix")


def place(root: Path, command: str) -> RunDirectory:
    return RunDirectory(root / "seed-0" / ("" if command == "generate" else "rl2"))


def spoil(run: RunDirectory, damage: Callable[[dict[str, Any], str], str], name: str) -> None:
    lines = run.metrics_path.read_text().splitlines()
    lines[SPOILED - 1] = damage(json.loads(lines[SPOILED - 1]), name)
    run.metrics_path.write_text("".join(f"{line}\n" for line in lines))


def results(run: RunDirectory) -> dict[str, bytes]:
    last = f"checkpoints/{CHUNKS:08d}.safetensors"
    names = ("metrics.jsonl", last, "policies.safetensors", "agent.safetensors", "figures/training.png")
    return {name: (run.path / name).read_bytes() for name in names if (run.path / name).is_file()}


def resume(root: Path, command: str, **options: Any) -> toy_run.Witness:
    """Go on with a run that had not written its summary."""
    place(root, command).summary_path.unlink()
    witness = toy_run.Witness()
    (generate if command == "generate" else train)(root, resume=True, reporter=witness, **options)
    return witness


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_resumed_run_trains_damaged_rows_again(whole: Path, root: Path, command: str, damage) -> None:
    run = place(root, command)
    spoil(run, damage, RETURN[command])
    witness = resume(root, command)
    assert [done for _, done in witness.started] == [(SPOILED - 1) * (80 if command == "generate" else 40)]
    assert len(witness.warnings) == CHUNKS - SPOILED + 1, "one for each checkpoint that is passed over"
    assert f"metrics.jsonl holds {SPOILED - 1} of the {CHUNKS} rows that were logged" in witness.warnings[0]
    assert results(run) == results(place(whole, command))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_row_without_its_chunk_reaches_no_logger(root: Path, command: str) -> None:
    pytest.importorskip("tensorboardX")
    spoil(place(root, command), without_return, "chunk")
    resume(root, command, logs=("tensorboard",))


def test_a_log_damaged_while_the_run_finishes_says_what_to_do(whole: Path, root: Path, monkeypatch) -> None:
    run = place(root, "generate")
    finish = GenerationJob.finish

    def finish_late(job: GenerationJob, *arguments: Any) -> None:
        spoil(run, without_return, "self_play_return")
        finish(job, *arguments)

    monkeypatch.setattr(GenerationJob, "finish", finish_late)
    with pytest.raises(DamagedFile) as caught:
        resume(root, "generate")
    monkeypatch.undo()
    assert str(caught.value).startswith(f"{run.metrics_path}, line {SPOILED}, is damaged: self_play_return is missing.")
    assert "Repeat the command with `resume=True`" in str(caught.value)
    generate(root, resume=True)
    assert results(run) == results(place(whole, "generate"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_report_names_the_line_and_what_to_do(root: Path, command: str, damage) -> None:
    spoil(place(root, command), damage, RETURN[command])
    state = state_in_report(root, command)
    assert state.startswith(f"damaged: metrics.jsonl, line {SPOILED}, is ")
    assert state.endswith("remove summary.json, if it exists, and repeat the command with --resume.")
    assert Path(coverset.report(root)["page"]).is_file()


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_report_says_helps(root: Path, command: str) -> None:
    spoil(place(root, command), without_return, RETURN[command])
    assert state_in_report(root, command) != "finished"
    resume(root, command)
    assert state_in_report(root, command) == "finished"


def state_in_report(root: Path, command: str) -> str:
    _, (run,), _ = read_study(root)
    return describe_state(run if command == "generate" else run.agents[0])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_studio_shows_what_it_can_read(root: Path, command: str, damage) -> None:
    """A row that says how far training was is shown; what it does not say is unknown."""
    name = "self_play_return" if command == "generate" else "mean_return"
    spoil(place(root, command), damage, name)
    directory = SafeDirectory(root.parent)
    details = RunRecords(directory).details(Catalogue(directory).run("matrix/seed-0"))
    json.dumps(details, allow_nan=False)
    shown = details if command == "generate" else details["agents"][0]
    assert (shown["state"], shown["message"]) == ("finished", "")
    assert [value is None for value in shown["curves"][name]] == [n == SPOILED for n in range(1, CHUNKS + 1)]


@pytest.mark.parametrize("steps", ["true", '"80"', "-80", "1e3", "NaN", "[80]", "null", str(2**60)])
def test_a_row_without_its_steps_is_named_by_the_studio(root: Path, steps: str) -> None:
    log = place(root, "generate").metrics_path
    lines = log.read_text().splitlines()
    lines[SPOILED - 1] = json.dumps({**json.loads(lines[SPOILED - 1]), "env_steps": "@"}).replace('"@"', steps)
    log.write_text("".join(f"{line}\n" for line in lines))
    directory = SafeDirectory(root.parent)
    brief = RunRecords(directory).brief(Catalogue(directory).run("matrix/seed-0"))
    assert brief["message"] == f"Line {SPOILED} of metrics.jsonl cannot be read."


def make_job(root: Path, command: str, name: str = "") -> Job:
    """The job of a command with a method or learner."""
    if command == "generate":
        return GenerationJob(make_plan("matrix", method=name or "lbrdiv", **TEAMMATES), (0,))
    run = read_run(root / "seed-0")
    settings, learner = resolve_training("matrix", name or "rl2", "fast", None, **AGENT)
    plan = AgentPlan("matrix", run.environment, learner, "fast", settings)
    return AgentJob(plan, (0,), [find_partners(run, ("teammates",), seat=1)])


JUNK = (True, "nan", [{"a": [None]}])
"""No field of a row may be any of these."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_of_a_row_is_checked(whole: Path, command: str) -> None:
    job, rows = make_job(whole, command), place(whole, command).rows()
    for number, row in enumerate(rows, start=1):
        job.check_row(number, row)
        with pytest.raises(ValueError, match=f"chunk {number}, not of chunk {number + 1}"):
            job.check_row(number + 1, row)
    for field in job.row_fields:
        spoiled = [{**rows[0], field: value} for value in JUNK]
        spoiled += [{name: value for name, value in rows[0].items() if name != field}]
        for row in spoiled:
            with pytest.raises(ValueError, match=r"\w"):
                job.check_row(1, row)


@pytest.mark.parametrize("method", ["lbrdiv", "independent", "mep"])  # test_battery.py resumes all
def test_rows_of_every_method_are_complete(method: str, tmp_path: Path) -> None:
    """Otherwise a resumed run would go back to its start."""
    generate(tmp_path, method=method, total_steps=80)
    assert place(tmp_path, "generate").count_intact_rows(make_job(tmp_path, "generate", method).check_row) == 1


QUICK_LEARNERS = ("rl2", "feedforward", "upd")


@pytest.mark.parametrize(
    "learner",
    [
        pytest.param(name, marks=() if name in QUICK_LEARNERS else pytest.mark.slow)
        for name in LEARNERS
        if name not in ("plastic", "planner")
    ],
)
def test_rows_of_every_learner_are_complete(root: Path, learner: str) -> None:
    train(root, learner=learner, resume=True)
    run = RunDirectory(root / "seed-0" / learner)
    job = make_job(root, "train", learner)
    # A learner that brings more partners of its own has longer updates, and fewer chunks.
    assert run.count_intact_rows(job.check_row) == job.num_chunks <= CHUNKS
