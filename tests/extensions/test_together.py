"""A third-party game, method, network and learner, one file each, go through every command together."""

import json
from pathlib import Path

import pytest
from discriminated import Discriminated
from elman import Elman

import coverset
import toy_run
from coverset.cli.main import run as run_command
from coverset.pipeline.loop import Stopped
from coverset.studio import replays, trials  # noqa: F401  in threads the tests' import hook trips over ast.parse
from studio_client import Served

SETTINGS = {**toy_run.SETTINGS, "minibatches": 1, "network": "elman:Elman"}
METHOD, LEARNER = "discriminated:Discriminated", "partner_model:PartnerModel"
FEW = {"total_steps": 600, "hidden_sizes": (8,), "evaluations": 1, "episodes_per_trial": 2, "parallel_seeds": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """All four in one run; not to be changed."""
    directory = tmp_path_factory.mktemp("together") / "run"
    coverset.generate("lamps:Lamps", method=METHOD, bonus_weight=0.25, out=directory, **SETTINGS)
    coverset.train(directory, learner=LEARNER, **FEW)
    coverset.evaluate(directory, learner=LEARNER, trials=4, episodes=2)
    return directory


def test_generate_records_the_methods_settings_and_report(run: Path) -> None:
    config = json.loads((run / "seed-0" / "config.json").read_text())
    assert (config["method"], config["method_settings"]) == (METHOD, {"bonus_weight": 0.25})
    rows = [json.loads(line) for line in (run / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    assert {*rows[-1]["method"]} == {"best_guess", "discriminator_loss"}
    assert rows[-1]["method"]["best_guess"] != rows[0]["method"]["best_guess"], "its parameters learn"
    population, about = coverset.load_population(run / "seed-0" / "policies.safetensors")
    assert isinstance(population.teammates.network, Elman)
    assert about["teammates"]["kind"] == "elman:Elman"


def test_a_killed_run_of_all_four_resumes_to_the_same_bytes(run: Path, tmp_path: Path) -> None:
    chosen = {"method": Discriminated(bonus_weight=0.25), "out": tmp_path, "checkpoint_seconds": 0, **SETTINGS}
    with pytest.raises(Stopped):
        coverset.generate("lamps:Lamps", reporter=toy_run.Witness(stop_after=2), **chosen)
    coverset.generate("lamps:Lamps", resume=True, **chosen)
    for name in ("policies.safetensors", "metrics.jsonl"):
        assert (tmp_path / "seed-0" / name).read_bytes() == (run / "seed-0" / name).read_bytes()


def test_help_lists_the_settings_of_the_chosen_method_and_learner(run: Path, capsys) -> None:
    for words, option in (
        (["generate", "matrix", "--method", METHOD, "--help"], "--bonus-weight"),
        (["train", str(run), "--learner", LEARNER, "--help"], "--prediction-weight"),
    ):
        with pytest.raises(SystemExit):
            run_command(words)
        assert option in capsys.readouterr().out


def test_the_report_shows_them(run: Path) -> None:
    page = Path(coverset.report(run)["page"]).read_text()
    assert METHOD in page
    assert LEARNER in page
    assert "red lamp" in page


def test_the_studio_plays_them(run: Path) -> None:
    with Served(run.parent) as studio:
        watched = studio.get("/api/watch?run=run/seed-0&best_response=1&teammate=2&seed=0").json
        sitting = {"run": "run/seed-0", "partner": "agent:partner_model.PartnerModel", "episodes": 1, "seed": 0}
        trial = studio.post("/api/trials", sitting).json
    assert watched["episodes"][0][0]["scene"]["words"] == "All lamps are dark."
    assert "partner_model" in trial["partner"]["name"]
