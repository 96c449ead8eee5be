"""Seats that see different numbers of things and have different actions, from teammates to an evaluated agent."""

import json
from pathlib import Path

import numpy as np
import pytest

import coverset
import toy_run
from coverset.runs.storage import read_json
from lantern import Lantern

AGENT = {
    "total_steps": 60, "chunk_steps": 60, "hidden_sizes": (4,), "memory_size": 4, "envs_per_partner": 2,
    "rollout_length": 3, "episodes_per_trial": 2, "minibatches": 1, "evaluations": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("roles")
    small = {**toy_run.SETTINGS, "rollout_length": 3, "total_steps": 240, "minibatches": 1, "parallel_seeds": 2}
    coverset.generate(Lantern(), out=out, seeds=(0, 1), **small)
    coverset.train(out, learner="plastic")
    coverset.train(out, learner="feedforward", name="walker", seat=1, partners=("best-responses",), **AGENT)
    return out


def test_the_game_keeps_the_contract() -> None:
    coverset.check_environment(Lantern(), quick=True)


def test_every_role_reads_its_own_observation(run: Path) -> None:
    population, _ = coverset.load_population(run)
    assert population.best_response(1).act([1.0, 0.0]) in range(2)
    assert population.teammate(1).act([0.0, 0.0, 1.0, 0.0, 0.0]) in range(3)
    with pytest.raises(ValueError, match="observation must be a vector of 5 numbers"):
        population.teammate(1).act([1.0, 0.0])
    assert coverset.load_agent(run, name="plastic").act([1.0, 0.0]) in range(2)
    assert coverset.load_agent(run, name="walker").act([0.0, 0.0, 1.0, 0.0, 0.0]) in range(3)


def test_agents_meet_the_teammates_of_the_other_seed_by_name(run: Path) -> None:
    records = coverset.evaluate(run, agents=["plastic"], trials=2, episodes=2)
    titles = [[cell["title"] for cell in record["partners"].values()] for record in records]
    assert titles == [[f"seed-{other} teammate {n}" for n in (1, 2)] for other in (1, 0)]
    summary = read_json(run / "seed-1" / "summary.json")
    assert all(words.startswith("kind ") and ":" in words for words in summary["conventions"])
    for n, cell in enumerate(records[0]["partners"].values()):
        assert cell["reference"] == max(row[n] for row in summary["cross_play"])
        assert cell["reference_source"] == "best responses of seed-1"


def test_certificates_of_roles_agree_with_simulation_and_can_be_shown(run: Path) -> None:
    found = coverset.certify(run, trials=0)
    summaries = [read_json(run / f"seed-{seed}" / "summary.json") for seed in (0, 1)]
    for certificate, summary in zip(found, summaries, strict=True):
        reach = 5 * np.array(summary["cross_play_standard_error"]) + 0.02
        assert np.all(np.abs(certificate.cross_play - summary["cross_play"]) < reach)
        assert certificate.regrets.min() > -1e-6
    assert json.loads(json.dumps(found)) == [read_json(run / f"seed-{seed}" / "certificate.json") for seed in (0, 1)]
    assert "seed 1, game Lantern, method lbrdiv, constraints" in repr(found).splitlines()[2]
    assert found._repr_html_().count("<tr>") == 3
    assert len(found.plot().axes) == 2
    assert found[0].plot()._repr_png_().startswith(b"\x89PNG")


def test_what_does_not_fit_a_seat_is_refused_with_what_does(run: Path) -> None:
    before = sorted(run.rglob("*"))
    with pytest.raises(ValueError, match=r"in seat 0, got 5 and 3: .* name `partners=\['best-responses'\]`"):
        coverset.train(run, seat=1, name="new")
    with pytest.raises(ValueError, match="got seat 1 of a game whose seats are not alike: choose another learner"):
        coverset.train(run, learner="plastic", seat=1, partners=["best-responses"], name="new")
    assert sorted(run.rglob("*")) == before, "nothing is left behind"


def test_exporting_a_seed_lists_its_agents(run: Path) -> None:
    with pytest.raises(ValueError, match=r"name one of its agents, such as .*plastic, or a member of its population"):
        coverset.export_agent(run / "seed-0")


def test_the_walker_is_evaluated_with_keepers(run: Path) -> None:
    (first, _) = coverset.evaluate(run, agents=["walker"], partners=["best-responses"], trials=2, episodes=2)
    assert (first["seat"], first["agent"], first["learner"]) == (1, "walker", "feedforward")
    assert [cell["title"] for cell in first["partners"].values()] == ["best response 1", "best response 2"]
    assert all(cell["reference"] is None for cell in first["partners"].values())
