"""What the verbs return: dicts and lists that go to JSON as they are, and can be printed, shown and drawn."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import coverset
import toy_run
from coverset.pipeline.generate import run_name
from coverset.pipeline.results import EvaluationResult, Evaluations, RunResult, Runs
from coverset.runs.storage import read_json

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("results") / "matrix"


@pytest.fixture(scope="module")
def runs(out: Path) -> Runs:
    return coverset.generate("matrix", seeds=[0, 1], out=out, **{**toy_run.SETTINGS, "parallel_seeds": 2})


@pytest.fixture(scope="module")
def agents(runs, out: Path):
    return coverset.train(out, learner="plastic", name="library")


@pytest.fixture(scope="module")
def measured(agents, out: Path) -> Evaluations:
    return coverset.evaluate(out, trials=2, episodes=3)


def test_runs_are_dicts_with_more(runs: Runs, out: Path) -> None:
    assert runs == [read_json(out / f"seed-{seed}" / "summary.json") for seed in (0, 1)]
    assert json.loads(json.dumps(runs)) == runs
    assert isinstance(runs[0], dict)
    assert runs[0].coverage == f"{runs[0]['coverage_found']} of 3"
    np.testing.assert_array_equal(runs[0].cross_play, runs[0]["cross_play"])
    lines = repr(runs).splitlines()
    assert len(lines) == 4
    assert "seed 1, game matrix, method lbrdiv" in lines[2]
    assert "960" in lines[2]
    assert "cross_play_standard_error" not in repr(runs)
    assert runs[0]["train_seconds"] == round(read_json(out / "seed-0" / "timing.json")["train_seconds"], 3)


def test_a_notebook_shows_tables_and_figures(runs: Runs, agents, measured: Evaluations) -> None:
    for shown in (runs, runs[0], agents, agents[0], measured, measured[0]):
        table = shown._repr_html_()
        assert table.count("<tr>") == (1 + len(shown) if isinstance(shown, list) else 2)
    assert "&lt;b&gt;" in RunResult({**runs[0], "game": "<b>"})._repr_html_()
    for drawn in (runs, runs[0], measured, measured[0]):
        assert drawn.plot()._repr_png_().startswith(PNG)
    assert len(runs.plot().axes) == 2


def test_evaluations_compare_agents(measured: Evaluations) -> None:
    (line,) = measured.compare()
    assert re.fullmatch(r"library: \S+ \(two seeds: \S+, \S+\)", line)
    assert line in repr(measured)
    assert "and 2 more" in repr(measured[0])
    other = EvaluationResult({**measured[0], "agent": "other", "mean_return": 3.0})
    assert Evaluations([*measured, other]).compare()[1] == "other: 3 (one seed)"


def test_policies_are_loaded_from_a_run_a_seed_or_a_file(runs: Runs, agents, out: Path) -> None:
    seed = out / "seed-0"
    for path in (out, seed, seed / "policies.safetensors"):
        population, about = coverset.load_population(path)
        assert about["seed"] == 0
        assert repr(population) == "<Population: 2 best responses and 2 teammates of matrix, seed 0>"
    assert runs[1].population().about["seed"] == 1
    for path in (out, seed, seed / "library", seed / "library" / "agent.safetensors"):
        assert coverset.load_agent(path).about["learner"] == "plastic"
    assert agents[1].agent().about["seed"] == 1
    assert coverset.load_agent(out, name="library").act([1.0]) in range(3)
    with pytest.raises(ValueError, match=r"name must be one of the agents of .*seed-0, library, got 'rl2'\."):
        coverset.load_agent(out, name="rl2")
    with pytest.raises(ValueError, match=r"path must be a run, a seed or an agent, but .* holds no agent.safetensors"):
        coverset.load_agent(out / "seed-0" / "checkpoints")
    with pytest.raises(ValueError, match=r"path must be a run, a seed or a file of policies"):
        coverset.load_population(out / "seed-0" / "checkpoints")


def test_members_play_counted_from_one(runs: Runs) -> None:
    population = runs[0].population()
    teammate = population.teammate(2)
    assert teammate.act([1.0]) in range(3)
    assert population.best_response(1).act(np.ones(1)) in range(3)
    with pytest.raises(ValueError, match=r"teammate must lie between 1 and 2, got 0\."):
        population.teammate(0)
    with pytest.raises(ValueError, match=r"best response must lie between 1 and 2, got 3\."):
        population.best_response(3)


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        ([1.0, 2.0], r"observation must be a vector of 1 numbers, got an array of shape \(2,\)\."),
        ([[1.0]], r"observation must be a vector of 1 numbers, got an array of shape \(1, 1\)\."),
        ("left", r"observation must hold numbers, got 'left'\."),
        ([float("nan")], r"observation must hold finite numbers, got \[nan\]\."),
    ],
)
def test_a_wrong_observation_is_one_sentence(runs: Runs, observation, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        runs[0].population().teammate(1).act(observation)


def test_errors_name_parameters_of_python(runs: Runs, out: Path) -> None:
    with pytest.raises(ValueError, match="continue it with `resume=True`, or choose another `out`"):
        coverset.generate("matrix", seeds=[0, 1], out=out, **{**toy_run.SETTINGS, "parallel_seeds": 2})
    with pytest.raises(ValueError, match=r"has no agent 'rl2': make it with `train\('.*', learner='rl2'\)`"):
        coverset.evaluate(out, learner="rl2")


@pytest.mark.parametrize(
    ("env", "parameters", "name"),
    [
        ("coverset.adapters.jaxmarl:overcooked", {"layout": "cramped_room"}, "overcooked-cramped_room-lbrdiv-fast"),
        (
            "coverset.adapters.pettingzoo:from_parallel",
            {"environment": "mpe2.simple_spread_v3:parallel_env", "horizon": 25},
            "mpe2.simple_spread_v3-lbrdiv-fast",
        ),
        ("coverset.adapters.jumanji:JumanjiForaging", {}, "Jumanji-foraging-lbrdiv-fast"),
        ("weighted-reaching", {}, "weighted-reaching-lbrdiv-fast"),
    ],
)
def test_directories_have_readable_names(env: str, parameters: dict, name: str) -> None:
    assert run_name(env, "lbrdiv", "fast", parameters) == name
