"""A learner in one file outside of the package goes through every command by its name."""

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from partner_model import PartnerModel

import coverset
import toy_run
from coverset.adhoc.learners.rl2 import RL2
from coverset.cli.main import run as run_command
from coverset.runs.storage import load_tensors
from coverset.studio import replays, trials  # noqa: F401  in threads the tests' import hook trips over ast.parse
from studio_client import Served

LEARNER = "partner_model:PartnerModel"
FOLDER = "partner_model.PartnerModel"
FEW = {"total_steps": 600, "hidden_sizes": (8,), "evaluations": 1, "episodes_per_trial": 2, "parallel_seeds": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A generated population and an agent of the learner; not to be changed."""
    directory = tmp_path_factory.mktemp("learner") / "matrix"
    coverset.generate("matrix", out=directory, **toy_run.SETTINGS)
    coverset.train(directory, learner=LEARNER, prediction_weight=0.25, **FEW)
    return directory


def test_it_learns_what_its_partners_do(tmp_path: Path) -> None:
    """Each partner always chooses its own one of three actions: nobody can tell at the first of a trial's two steps."""
    toy_run.untrained(tmp_path / "seed-0", "matrix")
    longer = {**FEW, "total_steps": 60_000, "chunk_steps": 6_000}
    coverset.train(tmp_path, learner=PartnerModel(), partners=["H1", "H2", "H3"], **longer)
    rows = [json.loads(line) for line in (tmp_path / "seed-0" / FOLDER / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["learner"]["prediction_loss"] == pytest.approx(math.log(3) / 2, abs=0.05)
    assert rows[-1]["learner"]["prediction_accuracy"] == pytest.approx(2 / 3, abs=0.02)


def test_its_settings_and_metrics_are_written(run: Path) -> None:
    agent = run / "seed-0" / FOLDER
    config = json.loads((agent / "config.json").read_text())
    assert config["learner"] == LEARNER
    assert config["learner_settings"] == {**asdict(RL2()), "prediction_weight": 0.25}
    assert config["settings"]["hidden_sizes"] == [8]
    rows = [json.loads(line) for line in (agent / "metrics.jsonl").read_text().splitlines()]
    assert {*rows[-1]["learner"]} == {"prediction_loss", "prediction_accuracy"}
    assert load_tensors(agent / "agent.safetensors")[0]["policy.actor.head.weights.0"].shape[1] == 3 + 3


def test_evaluate_crossplay_and_export_take_it(run: Path, tmp_path: Path) -> None:
    (record,) = coverset.evaluate(run, learner=LEARNER, trials=4, episodes=2)
    assert record["learner"] == LEARNER
    assert record == coverset.evaluate(run, learner=PartnerModel(), trials=4, episodes=2)[0]
    agent = run / "seed-0" / FOLDER
    played = coverset.crossplay(agent, "heuristics", trials=2, episodes=2)
    assert played.first.titles == (LEARNER,)
    file = coverset.export_agent(agent, tmp_path / "agent.zip")
    exported = coverset.crossplay(file, "heuristics", trials=2, episodes=2)
    assert (played.returns == exported.returns).all()
    both = coverset.evaluate(run, learner=LEARNER, partners=["teammates", str(agent)], trials=2, episodes=2)[0]
    assert len(both["partners"]) == 3


def test_the_command_line_shows_and_takes_its_settings(run: Path, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        run_command(["train", str(run), "--learner", LEARNER, "--help"])
    assert not end.value.code
    printed = capsys.readouterr().out
    assert "--prediction-weight" in printed
    assert "--pseudo-count" not in printed
    words = ["train", str(run), "--learner", LEARNER, "--prediction-weight", "-1"]
    assert run_command(words) == 2
    assert "prediction_weight must be at least 0" in capsys.readouterr().err
    assert run_command(["evaluate", str(run), "--learner", LEARNER, "--trials", "2", "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agents"][0]["learner"] == LEARNER


def test_report_and_studio_show_its_agent(run: Path) -> None:
    coverset.evaluate(run, learner=LEARNER, trials=4, episodes=2)
    page = Path(coverset.report(run)["page"]).read_text()
    assert LEARNER in page
    assert "--prediction-weight 0.25" in page
    with Served(run.parent) as studio:
        sitting = {"run": "matrix/seed-0", "partner": f"agent:{FOLDER}", "episodes": 1, "seed": 0}
        trial = studio.post("/api/trials", sitting).json
    assert trial["partner"]["name"] == f"{FOLDER} agent"


def test_a_file_that_names_it_is_refused_on_another_machine(run: Path, tmp_path: Path) -> None:
    """A new process has named nothing; with another key the signature is nobody's."""
    code = f"import coverset; coverset.load_agent({str(run / 'seed-0' / FOLDER)!r})"
    environment = {"PYTHONPATH": ":".join(sys.path), "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode != 0
    assert f"would import '{LEARNER}'" in done.stderr
    assert f"--trust {LEARNER}" in done.stderr
