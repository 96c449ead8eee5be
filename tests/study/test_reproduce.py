"""A toy study from end to end: its layout, its plan, what is skipped, resumed, refused and reported as failed."""

import json
import shutil
from pathlib import Path

import pytest

import coverset
from coverset.settings import GenerateSettings
from coverset.study import reproduce
from coverset.study.engine import StudyReporter
from coverset.study.planning import estimate, parse_overrides, plan_study
from coverset.study.reproduce import Study
from coverset.study.units import Certification, Evaluation, Experiment
from toy_study import CHOICE, GENERATION, TRAINING, results

UNITS = [f"matrix-lbrdiv-fast/{what}" for what in ("generate", "certify", "rl2/train", "rl2/evaluate")]


def toy_plan(out: Path, **changes):
    return plan_study(("matrix",), learners=("rl2",), preset="fast", out=out, **{**CHOICE, **changes})


class StopsInTraining(StudyReporter):
    """Asks to stop as soon as an agent has trained for a chunk."""

    stopping = False
    title = ""

    def start(self, title: str, seeds: tuple[int, ...], steps_done: int, total_steps: int) -> None:
        self.title = title

    def chunk(self, env_steps: int, status: str) -> None:
        self.stopping = "rl2" in self.title

    def should_stop(self) -> bool:
        return self.stopping


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Study]:
    out = tmp_path_factory.mktemp("study")
    return out, coverset.reproduce(["matrix"], out=out, **CHOICE)


@pytest.fixture(autouse=True)
def quick_report(finished, monkeypatch) -> None:
    """Only the first study gets a real report; drawing it takes longer than everything else."""
    monkeypatch.setattr(reproduce, "write_report", lambda directory: directory / "report.html")


def test_all_is_done_where_the_single_commands_would_put_it(finished) -> None:
    out, study = finished
    assert not study.failed
    assert not study.stopped
    assert [outcome.name for outcome in study.outcomes] == [*UNITS, "report"]
    assert study.report == out / "report" / "index.html"
    assert study.report.is_file()
    seed = out / "matrix-lbrdiv-fast" / "seed-0"
    for name in ("summary.json", "certificate.json", "rl2/agent.safetensors", "rl2/summary.json"):
        assert (seed / name).is_file()
    assert (seed / "rl2" / "evaluation.json").is_file()
    assert study.to_json()["units"][0]["state"] == "done"


def test_a_finished_study_is_left_alone(finished) -> None:
    out, _ = finished
    before = {path: path.stat().st_mtime_ns for path in (out / "matrix-lbrdiv-fast").rglob("*")}
    again = coverset.reproduce(["matrix"], out=out, **CHOICE)
    assert all(outcome.seconds is None for outcome in again.outcomes[:4])
    assert before == {path: path.stat().st_mtime_ns for path in (out / "matrix-lbrdiv-fast").rglob("*")}
    assert [estimate(unit).state for unit in toy_plan(out)] == ["done"] * 4


def test_a_stopped_study_resumes_to_the_same_results(finished, tmp_path: Path) -> None:
    stopped = coverset.reproduce(["matrix"], out=tmp_path, reporter=StopsInTraining(), **CHOICE)
    assert [str(outcome.state) for outcome in stopped.outcomes] == ["done", "done", "stopped", "to do"]
    assert stopped.stopped
    assert stopped.report is None
    plan = [estimate(unit) for unit in toy_plan(tmp_path)]
    assert [row.state for row in plan] == ["done", "done", "resumes", "to do"]
    assert all(unit.seconds_left() > 0 for unit in toy_plan(tmp_path)[2:])
    coverset.reproduce(["matrix"], out=tmp_path, **CHOICE)
    assert results(tmp_path) == results(finished[0])


def test_only_missing_seeds_and_other_evaluations_are_done_again(finished, tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    run = tmp_path / "matrix-lbrdiv-fast"
    wanted = (run / "seed-0" / "rl2" / "evaluation.json").read_bytes()
    coverset.evaluate(run, trials=3)
    assert [estimate(unit).state for unit in toy_plan(tmp_path)] == ["done", "done", "done", "to do"]
    coverset.reproduce(["matrix"], out=tmp_path, **CHOICE)
    assert (run / "seed-0" / "rl2" / "evaluation.json").read_bytes() == wanted


@pytest.mark.parametrize("content", ["{", "[]", '{"trials": 128}'])
def test_a_damaged_evaluation_is_done_again(finished, tmp_path: Path, content: str) -> None:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    record = tmp_path / "matrix-lbrdiv-fast" / "seed-0" / "rl2" / "evaluation.json"
    wanted = record.read_bytes()
    record.write_text(content)
    assert not coverset.reproduce(["matrix"], out=tmp_path, **CHOICE).failed
    assert record.read_bytes() == wanted


@pytest.mark.parametrize("name", ["rl2/summary.json", "rl2/agent.safetensors", "summary.json", "policies.safetensors"])
def test_damaged_results_are_made_again(finished, tmp_path: Path, name: str) -> None:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "matrix-lbrdiv-fast" / "seed-0" / name).write_text("[]")
    study = coverset.reproduce(["matrix"], out=tmp_path, **CHOICE)
    assert [str(outcome.state) for outcome in study.outcomes] == ["done"] * 5
    assert results(tmp_path) == results(finished[0])


def test_without_heuristics_only_an_evaluation_with_other_seeds_counts(tmp_path: Path) -> None:
    experiment = Experiment(
        "countdown:Countdown", "lbrdiv", "fast", (0, 1, 2), tmp_path, generation={"population_size": 2}
    )
    for seed in experiment.seeds:
        agent = experiment.seed_directory(seed) / "rl2"
        agent.mkdir(parents=True)
        (agent.parent / "policies.safetensors").touch()
        (agent / "agent.safetensors").touch()
        met = [f"other-seeds {n}" for n in (1, 2, 3, 4)] if seed else ["teammates 1", "teammates 2"]
        record = {"trials": 128, "episodes": 20, "partners": dict.fromkeys(met)}
        (agent / "evaluation.json").write_text(json.dumps(record))
    assert Evaluation(experiment, "rl2").seeds_left() == [0]


def test_a_run_of_other_settings_is_refused_before_anything_is_begun(finished) -> None:
    out, _ = finished
    with pytest.raises(ValueError, match="its total_steps is 480, not 960"):
        coverset.reproduce(["matrix"], out=out, **{**CHOICE, "generation": GENERATION | {"total_steps": 960}})
    with pytest.raises(ValueError, match="its memory_size is 4, not 5"):
        coverset.reproduce(["matrix"], out=out, **{**CHOICE, "training": TRAINING | {"memory_size": 5}})


def test_a_unit_that_fails_is_told_and_the_others_go_on(finished, tmp_path: Path) -> None:
    """A certificate that cannot be written is no reason to train no agents."""
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    seed = tmp_path / "matrix-lbrdiv-fast" / "seed-0"
    (seed / "certificate.json").unlink()
    (seed / "certificate.json").mkdir()
    study = coverset.reproduce(["matrix"], out=tmp_path, **CHOICE)
    assert [str(outcome.state) for outcome in study.outcomes] == ["done", "failed", "done", "done", "done"]
    assert "certificate.json" in (study.outcomes[1].error or "")
    assert study.failed
    assert study.report == tmp_path / "report.html"


def test_a_report_that_fails_is_an_outcome_too(finished, monkeypatch) -> None:
    def refuse(directory: Path) -> Path:
        raise ValueError(f"{directory} cannot be told.")

    monkeypatch.setattr(reproduce, "write_report", refuse)
    study = coverset.reproduce(["matrix"], out=finished[0], **CHOICE)
    assert study.failed
    assert study.outcomes[-1].name == "report"
    assert "cannot be told" in (study.outcomes[-1].error or "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ()}, "methods must name at least one"),
        ({"methods": ("lbrdive",)}, "Did you mean 'lbrdiv'"),
        (
            {"learners": ("rl3",)},
            "learner must be rl2, feedforward, plastic, planner, liam",
        ),
        ({"seeds": (1, 1)}, "seeds must be different"),
        ({"preset": "quick"}, "preset must be one of"),
        ({"generation": {"total_step": 3}}, "Did you mean 'total_steps'"),
        ({"training": {"hidden_sizes": 3}}, "hidden_sizes must be a list"),
        ({"training": {"minibatches": 3}}, "minibatches must divide"),
    ],
)
def test_bad_choices_are_named(tmp_path: Path, changes: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        coverset.reproduce(["matrix"], out=tmp_path, **{**CHOICE, **changes})
    assert not any(tmp_path.iterdir())


def test_a_file_is_no_place_for_a_study(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="out must be a directory"):
        coverset.reproduce(["matrix"], out=tmp_path / "file", **CHOICE)


def test_lists_become_tuples() -> None:
    assert parse_overrides("generation", {"hidden_sizes": [3, 4]}, GenerateSettings) == {"hidden_sizes": (3, 4)}


def test_environments_that_cannot_be_certified_or_evaluated_say_so(tmp_path: Path) -> None:
    experiment = Experiment("countdown:Countdown", "lbrdiv", "fast", (0,), tmp_path / "countdown")
    assert "does not define" in (Certification(experiment).find_obstacle() or "")
    assert "no held-out heuristics" in (Evaluation(experiment, "rl2").find_obstacle() or "")
    assert estimate(Certification(experiment)).state == "not possible"
