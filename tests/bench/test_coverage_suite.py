"""The coverage suite: random games, how populations are judged, and docs/how-to/coverage-suite.md in small."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.bench.coverage_judging import judge, summarise
from coverset.bench.coverage_suite import SuiteSettings, bench_coverage, judge_conventions
from coverset.bench.random_games import draw_corner_payoffs, draw_dec_pomdp, draw_table, make_table_game
from coverset.certificates.finite import enumerate_game
from coverset.certificates.normal_form import make_normal_form
from coverset.cli.main import run as run_command
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.solver import solve

GAME = MatrixGame()
TABLE = np.array(GAME.payoffs)


def test_tables_have_three_to_six_actions_and_half_are_symmetric() -> None:
    tables = [draw_table(number) for number in range(16)]
    assert [len(table) for table in tables[:8]] == [3, 4, 5, 6, 3, 4, 5, 6]
    symmetric = [np.array_equal(table, table.T) for table in tables]
    assert symmetric == [False] * 4 + [True] * 4 + [False] * 4 + [True] * 4
    assert np.array_equal(draw_table(7), draw_table(7))
    assert draw_corner_payoffs(3) == draw_corner_payoffs(3) != draw_corner_payoffs(4)


def test_a_table_game_pays_its_table() -> None:
    game = make_table_game(TABLE)
    state = game.reset(jax.random.key(0))
    outcome = game.step(jax.random.key(1), state, jnp.array([2, 1], jnp.int32))
    assert float(outcome.reward) == TABLE[2, 1]
    assert bool(outcome.truncated)
    assert np.array_equal(game.table, TABLE)
    assert np.array_equal(make_normal_form(enumerate_game(game)).payoffs, TABLE)


def test_the_normal_form_of_a_dec_pomdp_is_what_its_pure_policies_earn() -> None:
    game = draw_dec_pomdp(0)
    form = make_normal_form(enumerate_game(game))
    assert form.payoffs.shape == (16, 16)
    rewards, successors, symbols = (np.asarray(x) for x in (game.rewards, game.successors, game.symbols))

    def earn(state: int, first: tuple[int, ...], second: tuple[int, ...]) -> float:
        total = 0.0
        for time in range(2):
            actions = first[2 * time + symbols[0, state]], second[2 * time + symbols[1, state]]
            total += rewards[state, *actions]
            state = successors[state, *actions]
        return total

    # Observations are sorted by their vectors, that of the last symbol at the last time first.
    order = [tuple(number >> place & 1 for place in range(4)) for number in range(16)]
    for one, two in ((0, 0), (3, 5), (15, 9), (6, 10)):
        mean = np.mean([earn(state, order[one], order[two]) for state in range(4)])
        assert form.payoffs[one, two] == pytest.approx(mean)


def test_the_whole_set_of_the_papers_game_is_recognised() -> None:
    verdict = judge(TABLE, solve(TABLE), 0.97 * TABLE + 0.01 * TABLE.sum(axis=0), margin=1.0)
    assert (verdict["due"], verdict["found"], verdict["size_found"]) == (3, 3, 3)
    assert verdict["whole"]
    assert verdict["size_right"]
    assert 0 < verdict["coverage_regret"] < 1


def test_a_missing_and_a_superfluous_member_are_recognised() -> None:
    missing = judge(TABLE, solve(TABLE), TABLE[[0, 1]], margin=1.0)
    assert (missing["whole"], missing["size_right"], missing["found"]) == (False, False, 2)
    assert missing["coverage_regret"] == pytest.approx(2.0)
    twice = judge(TABLE, solve(TABLE), TABLE[[0, 1, 2, 0]], margin=1.0)
    assert (twice["whole"], twice["size_right"], twice["size_as_due"]) == (True, False, False)


def test_one_of_two_actions_that_are_nearly_the_same_is_a_right_size_that_is_not_due() -> None:
    table = np.array([[10.0, 0.0], [0.0, 10.0], [0.1, 9.95]])
    verdict = judge(table, solve(table), table[[0, 1]], margin=1.0)
    assert verdict["due"] == 1, "neither of the last two has a margin of 1"
    assert verdict["size_right"]
    assert not verdict["size_as_due"]


def test_runs_are_judged_by_the_conventions_of_their_pairs() -> None:
    game = Reaching()
    payoffs = np.array(game.convention_payoffs)
    run = {"margin": 0.2, "population_size": 4, "env_steps": 10, "train_seconds": 1.0}
    names = list(game.conventions)
    whole = judge_conventions(game, solve(payoffs), payoffs, {**run, "covers": names})
    assert whole["whole"]
    assert whole["size_right"]
    assert whole["coverage_regret"] == 0
    part = judge_conventions(game, solve(payoffs), payoffs, {**run, "covers": [names[0], names[0], None, names[1]]})
    assert (part["found"], part["whole"], part["size_right"]) == (2, False, False)
    assert part["coverage_regret"] == pytest.approx(1.0)
    nothing = judge_conventions(game, solve(payoffs), payoffs, {**run, "covers": [None] * 4})
    assert nothing["coverage_regret"] == pytest.approx(1.0)


def test_a_summary_counts_runs_by_part_and_method() -> None:
    base = {"part": "matrix", "method": "growing", "game": "0", "due": 3, "size_found": 3, "env_steps": 10}
    good = {**base, "found": 3, "whole": True, "size_right": True, "size_as_due": True}
    good |= {"coverage_regret": 0.0, "margin": 1.0, "seconds": 2.0}
    bad = {**good, "game": "1", "found": 1, "whole": False, "coverage_regret": 3.0}
    (line,) = summarise([good, bad])
    assert (line["runs"], line["games"], line["whole"], line["covered"]) == (2, 2, 0.5, 0.5)
    assert (line["members_found"], line["members_due"], line["largest_regret"], line["seconds"]) == (4, 6, 3.0, 4.0)


def test_bad_choices_are_refused() -> None:
    wrong: dict[str, Any]
    for wrong, named in (
        ({"parts": ("chess",)}, "part"),
        ({"methods": ("lbrdif",)}, "method"),
        ({"games": 0}, "games"),
    ):
        with pytest.raises(ValueError, match=named):
            SuiteSettings(**wrong)
    assert run_command(["bench", "coverage", "--parts", "chess"]) == 2


@pytest.mark.slow
def test_games_train_side_by_side_and_a_suite_goes_on(tmp_path, capsys) -> None:
    """The number of steps is of no use to learn anything; a second call reads what the first has written."""
    words = ["--parts", "matrix", "--methods", "growing", "--games", "1", "--seeds", "0", "1", "--steps", "200"]
    assert run_command(["bench", "coverage", *words, "--out", str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["seed"] for row in record["runs"]] == [0, 1]
    assert record["summary"][0]["runs"] == 2
    assert all(row["coverage_regret"] >= 0 for row in record["runs"])
    assert (tmp_path / "coverage.png").is_file()
    settings = SuiteSettings(("matrix",), ("growing",), (0, 1), 1, 0, 200)
    started: list[str] = []
    again = bench_coverage(settings, out=tmp_path, on_start=started.append)
    assert again["runs"] == record["runs"]
    with pytest.raises(ValueError, match="choose another `out`"):
        bench_coverage(SuiteSettings(("matrix",), ("growing",), (0, 1), 1, 0, 300), out=tmp_path)


@pytest.mark.slow
def test_every_part_runs_in_small(tmp_path) -> None:
    settings = SuiteSettings(methods=("growing", "lbrdiv"), games=2, steps=2_000)
    record = bench_coverage(settings, out=tmp_path)
    assert len(record["summary"]) == 10
