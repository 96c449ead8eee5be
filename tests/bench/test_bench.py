"""`coverset bench` at toy size, from the command line to its files. No test looks at a time."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import pages
from coverset.bench import stepping, suite
from coverset.bench.acting import measure_acting
from coverset.bench.coverage import measure_coverage
from coverset.bench.parts import PARTS
from coverset.bench.settings import QUICK
from coverset.bench.startup import measure_startup
from coverset.bench.stepping import (
    JAXMARL,
    JUMANJI,
    RandomRollout,
    make_jaxmarl_rollout,
    make_jumanji_rollout,
    make_rollout,
)
from coverset.bench.suite import bench
from coverset.cli import main as command_line
from coverset.envs import registry
from coverset.envs.matrix import MatrixGame
from coverset.envs.registry import make
from toy_run import SETTINGS

pytestmark = pytest.mark.slow

TINY = replace(
    QUICK,
    repeats=2,
    chunk_steps=8,
    populations=(2, 3),
    baseline_up_to=2,
    grid_envs=9,
    envs_per_pair=(2,),
    stepping_envs=4,
    stepping_length=3,
    acting_calls=2,
    generation=SETTINGS,
    training={"hidden_sizes": (4,), "memory_size": 4, "envs_per_partner": 4, "rollout_length": 2, "parallel_seeds": 1},
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """The documented command as a toy benchmark: its record and its directory."""
    out = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as sizes:
        sizes.setattr("coverset.bench.settings.QUICK", TINY)
        lines: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: lines.append(" ".join(map(str, words))))
        (words,) = pages.commands((pages.ROOT / "docs" / "how-to" / "benchmark.md").read_text())
        small = ["--preset", "fast", "--quick", "--json", "--out", str(out)]
        code = command_line.run([words[0], "matrix", *words[1:], *small])
    assert code == 0
    assert len(lines) == 1
    return json.loads(lines[0]), out


def test_the_record_answers_every_question(outcome) -> None:
    record, out = outcome
    assert json.loads((out / "bench.json").read_text()) == record
    assert (out / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert set(record) == {
        "machine",
        "stepping",
        "acting",
        "populations",
        "environments",
        "throughput",
        "parts",
        "startup",
    }
    assert record["machine"]["clock"] == "wall"
    assert [row["stage"] for row in record["throughput"]] == ["generate", "train"]
    for row in record["throughput"]:
        assert row["steps_per_second"] > 0
        assert row["share_of_peak"] > 0
    assert [row["population_size"] for row in record["populations"]] == [2, 3]
    assert [row["num_envs"] for row in record["populations"]] == [8, 9]
    assert record["populations"][0]["cost_relative_to_smallest"] == 1
    assert "grid_speedup" in record["populations"][0]
    assert "grid_speedup" not in record["populations"][1]
    assert [row["num_envs"] for row in record["environments"]] == [18]
    (parts,) = record["parts"]
    assert parts["updates_per_dispatch"] >= 1
    assert parts["update_seconds"] > 0
    assert set(parts) >= set(PARTS)
    assert [row["cache"] for row in record["startup"]] == ["cold", "warm"]
    assert all(row["peak_bytes"] > 10_000_000 for row in record["startup"])


def test_tables_hold_a_line_for_every_row(outcome, monkeypatch, capsys, tmp_path) -> None:
    record, _ = outcome
    monkeypatch.setattr(suite, "bench", lambda *names, **options: {**record, "coverage": []})
    monkeypatch.setenv("COLUMNS", "160")
    assert command_line.run(["bench", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "Training",
        "Scaling with the population",
        "Environments alone",
        "Start of a generation run",
        "warm",
        "backward",
    ):
        assert words in shown


def test_a_start_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="population_size"):
        measure_startup("matrix", "fast", replace(TINY, generation={"population_size": 1}))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "environment"),
        (["matrix", "--preset", "slow"], "preset"),
        (["matrix", "--clock", "sundial"], "clock"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, capsys) -> None:
    assert command_line.run(["bench", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_out_must_be_a_directory(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="directory"):
        bench(["matrix"], settings=TINY, out=tmp_path / "file")


def test_coverage_stops_when_all_is_found_or_the_preset_ends() -> None:
    row = measure_coverage("matrix", "fast", TINY)
    assert row is not None
    assert row["coverage_size"] == 3
    assert row["coverage_found"] == 3 or row["env_steps"] == SETTINGS["total_steps"]


def test_coverage_counts_members_of_the_coverage_set_and_not_all_conventions(monkeypatch) -> None:
    dominated = MatrixGame(payoffs=((2.0, 0.0, 0.0), (0.0, 1.0, 1.0), (-1.0, -1.0, -1.0)))
    monkeypatch.setitem(registry._BUILT_IN, "dominated", lambda **parameters: dominated)
    settings = replace(TINY, generation={**SETTINGS, "minibatches": 1})
    row = measure_coverage("dominated", "fast", settings)
    assert row is not None
    assert row["coverage_size"] == 2
    assert measure_coverage("countdown:Countdown", "fast", settings) is None, "its conventions have no known payoffs"


def test_rollouts_reset_what_ends_and_only_that() -> None:
    environment, count = make("reaching", horizon=5), 16
    rollout = make_rollout(environment, count, 4)
    state = rollout()
    assert int(state.states.time.max()) <= 4
    state = rollout()
    assert int(state.states.time.max()) <= 4, "No episode passes the horizon."
    np.testing.assert_array_equal(state.observations, jax.vmap(environment.observe)(state.states))


def test_jumanji_takes_its_turn_beside_foraging(monkeypatch) -> None:
    pytest.importorskip("jumanji")
    made: list[RandomRollout] = []
    monkeypatch.setattr(
        stepping, "make_jumanji_rollout", lambda *sizes: made.append(make_jumanji_rollout(*sizes)) or made[-1]
    )
    rows = stepping.measure_stepping(["foraging"], TINY, iter(range(100)).__next__)
    assert [row["env"] for row in rows] == ["foraging", JUMANJI]
    assert rows[1]["foraging_is_times_as_fast"] == 1.0
    steps = (TINY.repeats + 1) * TINY.stepping_length
    assert int(made[0].state.states.step_count.max()) == steps, "It steps as often as ours, the warm-up included."


def test_jaxmarl_takes_its_turn_beside_overcooked(monkeypatch) -> None:
    pytest.importorskip("jaxmarl")
    made: list[RandomRollout] = []
    monkeypatch.setattr(
        stepping, "make_jaxmarl_rollout", lambda *sizes: made.append(make_jaxmarl_rollout(*sizes)) or made[-1]
    )
    rows = stepping.measure_stepping(["overcooked"], TINY, iter(range(100)).__next__)
    assert [row["env"] for row in rows] == ["overcooked", JAXMARL]
    assert rows[1]["overcooked_is_times_as_fast"] == 1.0
    steps = (TINY.repeats + 1) * TINY.stepping_length
    assert int(made[0].state.states.step.max()) == steps


@pytest.mark.parametrize(("name", "found"), [("picking:trio", "3 players"), ("picking:common_pair", "illegal actions")])
def test_games_that_cannot_be_compared_are_named(name: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"bench measures games of two players .* got '{name}' with {found}"):
        bench([name], out=tmp_path / "bench")
    assert not (tmp_path / "bench").exists()


def test_calls_of_agents_are_counted() -> None:
    """A clock that advances by one second at each look: two calls a second."""
    rows = measure_acting(["matrix"], TINY, iter(range(1000)).__next__)
    assert [(row["env"], row["learner"], row["calls_per_second"]) for row in rows] == [
        ("matrix", "rl2", 2.0),
        ("matrix", "feedforward", 2.0),
    ]
