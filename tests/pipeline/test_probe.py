"""Probes against finished sets: what they find, write and repeat, and how the command shows it."""

import json
from typing import Any

import jax.numpy as jnp
import pytest

import coverset
from coverset.cli.main import run as run_command
from coverset.policies.population import Population
from coverset.runs.storage import read_json, write_json
from coverset.teammates.methods.growing import Growth, start_rise
from coverset.teammates.methods.probing import Probing
from toy_run import constant_policies, write_run

GAME = coverset.make("matrix")
SHORT = {"probes": 2, "steps": 2_000, "progress": False}


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A set of two of the paper's three actions, and a short search against it."""
    root = tmp_path_factory.mktemp("probed")
    pairs = Population(*(constant_policies(GAME, seat, (0, 1), width=4) for seat in (0, 1)))
    write_run(root / "seed-0", "matrix", pairs)
    summary = read_json(root / "seed-0" / "summary.json") | {"margin": 0.5}
    write_json(root / "seed-0" / "summary.json", summary)
    return root, coverset.probe(root, **SHORT)[0]


def test_the_exact_regret_of_the_set_is_that_of_the_missing_action(probed) -> None:
    _, found = probed
    assert found["exact"]["over_all"] == pytest.approx([2.0, 2.0])
    low, high = found["exact"]["with_teammate"]
    assert found.coverage_regret <= high + 5 * found["standard_error"], "the best response at hand is at most the best"
    assert low <= 2.0
    assert len(found["regrets"]) == found["probes"] == 2
    assert found["members"] == 2


def test_the_summary_of_the_run_repeats_it(probed) -> None:
    root, found = probed
    noted = read_json(root / "seed-0" / "summary.json")["probe"]
    assert noted["sentence"] == found["sentence"]
    assert noted["name"] == "probe"
    assert noted["coverage_regret"] == found.coverage_regret


def test_what_was_found_plays_and_is_measured_as_the_search_says(probed) -> None:
    root, found = probed
    teammate = found.population().teammate(1)
    assert teammate.act([1.0]) in (0, 1, 2)
    played = coverset.crossplay(root / "seed-0", root / "seed-0" / "probe", trials=512, episodes=4)
    assert played.means.shape == (2, 1)
    assert played.means.max() == pytest.approx(found["served_return"], abs=0.5)


def test_a_search_that_is_done_is_not_repeated_and_another_needs_a_name(probed) -> None:
    root, found = probed
    before = (root / "seed-0" / "probe" / "policies.safetensors").stat().st_mtime_ns
    assert coverset.probe(root, **SHORT)[0] == found
    assert (root / "seed-0" / "probe" / "policies.safetensors").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="choose another `name`"):
        coverset.probe(root, **{**SHORT, "probes": 3})


def test_the_command_prints_a_table_and_the_sentence(probed, capsys) -> None:
    root, found = probed
    words = [str(root), "--probes", "2", "--steps", "2000"]
    assert run_command(["probe", *words]) == 0
    shown = capsys.readouterr().out
    assert "regret" in shown
    assert " ".join(found["sentence"].split()) in " ".join(shown.split())
    assert run_command(["probe", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["probes"][0] == found


def test_runs_that_are_not_finished_and_bad_numbers_are_refused(tmp_path) -> None:
    (tmp_path / "seed-0").mkdir()
    with pytest.raises(ValueError, match="not finished"):
        coverset.probe(tmp_path)
    with pytest.raises(ValueError, match="probes must be at least 1"):
        coverset.probe(tmp_path, probes=0)


def test_a_round_of_probes_is_the_last() -> None:
    method = Probing(probes=2)
    assert method.rounds == 1
    rise = {"updates": jnp.int32(30), "settled_at": jnp.int32(20)}
    unknown: Any = None
    state = Growth(*[unknown] * len(Growth._fields))._replace(rise=start_rise(20)._replace(**rise))
    stage = method.stage(state)
    assert bool(stage.is_over)
    assert bool(stage.is_last)
