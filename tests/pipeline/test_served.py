"""Whether an agent serves the partners that it was trained with is recorded, and said where it does not."""

import json
from pathlib import Path

import pytest

import coverset
import toy_run
from coverset.partners import read_run
from coverset.pipeline.served import describe_unserved, served_partners

FEW = {"total_steps": 600, "hidden_sizes": (8,), "evaluations": 1, "episodes_per_trial": 2, "parallel_seeds": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two pairs that have hardly learned anything."""
    directory = tmp_path_factory.mktemp("served") / "matrix"
    coverset.generate("matrix", out=directory, **toy_run.SETTINGS)
    return directory / "seed-0"


def test_shares_are_of_what_the_best_response_earns(run: Path) -> None:
    returns = json.loads((run / "summary.json").read_text())["cross_play"]
    best = [max(column) for column in zip(*returns, strict=True)]
    served = served_partners(read_run(run), ("teammates", "H1"), 0, [best[0], best[1] / 2, 7.0])
    assert [cell["reference"] for cell in served.values()] == [*best, None]
    assert [cell["share"] for cell in served.values()] == [1.0, 0.5, None]
    sentence = describe_unserved(served)
    assert sentence is not None
    assert "95% of what their own best responses do with teammates 2 50%; try" in sentence
    assert describe_unserved({**served, "teammates 2": {"share": 0.951}}) is None


def test_train_records_the_shares(run: Path) -> None:
    (summary,) = coverset.train(run.parent, **FEW)
    assert [*summary["served"]] == ["teammates 1", "teammates 2"]
    rows = [json.loads(line) for line in (run / "rl2" / "metrics.jsonl").read_text().splitlines()]
    assert [cell["return"] for cell in summary["served"].values()] == rows[-1]["late_returns_by_partner"]
