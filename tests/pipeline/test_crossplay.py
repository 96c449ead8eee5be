"""Anybody with anybody: returns that can be worked out by hand, seats, memories, and who may not sit where."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import coverset
from coverset.cli.main import run
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population, save_population
from saved_agents import make_spec, write_untrained

PAYOFFS = [[10.0, 0.0, 4.0], [0.0, 6.0, 4.0], [4.0, 4.0, 6.0]]
MATRIX = {"env": "matrix", "env_parameters": {"horizon": 1}}


def always(*actions: int, observations: int = 1, num_actions: int = 3) -> ActorPolicy:
    """Policies that always choose one action."""
    logits = 50.0 * jnp.eye(num_actions)[jnp.array(actions)]
    return dense_policy(MLP((jnp.zeros((len(actions), observations, num_actions)),), (logits,)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A population of the matrix game whose halves differ, and an untrained agent."""
    root = tmp_path_factory.mktemp("saved")
    save_population(root / "seed-0" / "policies.safetensors", Population(always(0, 1), always(2, 0)), MATRIX)
    write_untrained(root / "rl2" / "agent.safetensors", MATRIX, make_spec())
    write_untrained(root / "four" / "agent.safetensors", MATRIX, make_spec(1, 4))
    three = {"env": "reaching", "env_parameters": {"size": 3}}
    corners = always(0, 1, observations=9, num_actions=5)
    save_population(root / "reaching" / "policies.safetensors", Population(corners, corners), three)
    return root


def test_best_responses_sit_in_rows_and_teammates_in_columns(saved: Path) -> None:
    played = coverset.crossplay(saved / "seed-0", saved / "seed-0" / "policies.safetensors", trials=3, episodes=2)
    np.testing.assert_allclose(played.means, [[PAYOFFS[i][j] for j in (2, 0)] for i in (0, 1)])
    assert played.first.titles == ("best response 1", "best response 2")
    assert played.second.titles == ("teammate 1", "teammate 2")
    assert played.returns.shape == (2, 2, 3, 2)
    swapped = coverset.crossplay(saved / "seed-0", saved / "seed-0", roles=("teammates", "best-responses"), trials=2)
    np.testing.assert_allclose(swapped.means, [[PAYOFFS[i][j] for j in (0, 1)] for i in (2, 0)])


def test_heuristics_agents_and_exported_agents(saved: Path) -> None:
    names = coverset.crossplay("heuristics", "H2", env="matrix", trials=2).first.titles
    assert names == ("H1", "H2", "H3", "H4", "H5", "H6")
    agent = coverset.crossplay(saved / "rl2", "heuristics", trials=64, episodes=3)
    assert agent.first.titles == ("rl2",)
    assert agent.means.shape == (1, 6)
    interval = agent.interval(0, 0)
    by_trial = agent.returns[0, 0].mean(axis=-1)
    assert interval.n == 64
    assert interval.high - interval.mean == pytest.approx(1.998 * by_trial.std(ddof=1) / 8, rel=1e-2)
    file = coverset.export_agent(saved / "rl2", saved / "exported.zip")
    again = coverset.crossplay(file, "heuristics", trials=64, episodes=3)
    np.testing.assert_array_equal(agent.returns, again.returns)


def test_agents_of_ones_own(saved: Path) -> None:
    played = coverset.crossplay(saved / "seed-0", "third_party_agents:made", trials=2, episodes=1)
    np.testing.assert_allclose(played.means, [[PAYOFFS[0][2]], [PAYOFFS[1][2]]])


def test_the_command_prints_a_table_json_and_a_picture(saved: Path, tmp_path: Path, capfd) -> None:
    words = ["crossplay", str(saved / "seed-0"), "heuristics", "--trials", "4", "--episodes", "2"]
    picture = tmp_path / "matrix.svg"
    assert run([*words, "--out", str(picture)]) == 0
    printed = capfd.readouterr()
    assert "best response 2" in printed.out
    assert "± 0" in printed.out
    assert b"<svg" in picture.read_bytes()
    assert run([*words, "--json", "--out", str(tmp_path / "matrix.png")]) == 0
    printed = capfd.readouterr()
    answer = json.loads(printed.out)
    assert printed.err == ""
    assert answer["mean_returns"][0][0] == answer["low"][0][0] == answer["high"][0][0] == 10.0
    assert answer["second"]["policies"][-1] == "H6"
    assert (answer["trials"], answer["episodes"]) == (4, 2)
    assert run(["crossplay", "H1", "H1", "--env", "matrix", "--trials", "1", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["low"] == [[None]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{}/seed-0", "{}/reaching"], "was made for environment 'reaching', not 'matrix'"),
        (
            ["{}/reaching", "H1", "--env", "reaching"],
            "was made for environment 'reaching' with size 3, but here it is 5",
        ),
        (
            ["{}/seed-0", "H1", "--env", "matrix", "--env-args", "horizon=2"],
            "was made for environment 'matrix' with horizon 1, but here it is 2",
        ),
        (["{}/four", "H1"], "choose among 3 actions to play in seat 0, got 1 and 4"),
        (["{}/seed-0", "{}/nowhere"], "nowhere does not exist"),
        (["{}/seed-0", "nowhere.zip"], "nowhere.zip does not exist"),
        (["{}/seed-0", "H7"], "A policy must be heuristics, H1, H2"),
        (["{}", "H1"], "choose one of its seeds"),
        (["H1", "H2"], "env must be given"),
        (["H1", "H2", "--env", "countdown:Countdown"], "has no heuristics"),
        (["{}/seed-0", "H1", "--trials", "0"], "trials must be at least 1"),
        (["{}/seed-0", "H1", "--episodes", "0"], "episodes must be at least 1"),
        (["{}/seed-0", "H1", "--seed", "-1"], "seed must lie between 0 and 4294967295, got -1"),
        (["{}/seed-0", "H1", "--seed", "4294967296"], "seed must lie between 0 and 4294967295, got 4294967296"),
        (["{}/seed-0", "H1", "--roles", "partners", "teammates"], "role must be one of"),
        (["{}/seed-0", "H1", "--out", "matrix.pdf"], "out must end in .png or .svg"),
        (["{}/seed-0", "H1", "--env-args", "horizon=2"], "env_args need --env"),
        (["{}/seed-0"], "Missing"),
    ],
)
def test_mistakes_are_one_sentence(saved: Path, capfd, words: list[str], sentence: str) -> None:
    assert run(["crossplay", *(word.replace("{}", str(saved)) for word in words)]) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence.lower() in printed.err.lower()


def test_the_result_is_shown_in_words_as_a_table_and_as_a_picture(saved: Path) -> None:
    played = coverset.crossplay(saved / "seed-0", "heuristics", trials=2, episodes=1)
    first, *rows = repr(played).splitlines()
    assert first == "<CrossPlay of matrix: with H1, H2, H3, H4, H5, H6"
    assert [row.partition(":")[0] for row in rows] == [*played.first.titles]
    assert rows[0].split()[3] == f"{played.means[0, 0]:.3g},"
    assert played._repr_html_().count("<tr>") == 1 + len(played.first.titles)
    assert played.plot()._repr_png_().startswith(b"\x89PNG")
