"""Teams of several teammates: joint and independent ones, solved by hand, by a grid of teams, and by symmetry."""

import json
from fractions import Fraction
from itertools import product
from math import prod

import hypothesis.strategies as st
import numpy as np
import pytest
from enumeration import best_rows, dot, full_dimensional, region_vertices
from hypothesis import given, settings

from bimatrix import exact_conventions, random_bimatrix
from coverset.solver import Solution, game_from_players, independent, solve
from coverset.solver.coverage import check_teams
from coverset.solver.games import Game

quiet = settings(deadline=None, derandomize=True, database=None)

FOLLOW = [
    [[3, 0], [0, 0]],
    [[0, 0], [0, 3]],
    [[2, 0], [0, 2]],
    [[Fraction(6, 5)] * 2] * 2,
]
"""Left, right, follow and stay, with a team of two that goes left or right.

Follow (row 2) earns 2 with 1/2 (l, l) + 1/2 (r, r), and the others 3/2, 3/2 and 6/5. With independent teammates who go
left with probabilities x and y, let s = xy and w = (1 - x)(1 - y), so that sqrt(s) + sqrt(w) <= 1. Follow beats left
and right only where s < 2w and w < 2s; there s + w <= 9 - 6 sqrt(2) < 0.515, so that it earns less than 1.03 < 6/5.
"""


def tied_at_a_product(threshold: Fraction) -> list:
    """A game whose row 0 has margin exactly 0 against independent teams and a positive one against joint teams.

    With u = 2x - 1 and v = 2y - 1, the gains of row 0 over the others are uv - threshold^2 / 4, threshold - (u + v) and
    threshold + (u + v). Where the last two are positive, uv <= (u + v)^2 / 4 < threshold^2 / 4; if u = v = threshold/2,
    the first two are 0. With 1/2 (1, 1) + 1/2 (-1, -1) the gains are 1 - threshold^2 / 4, threshold and threshold.
    """
    signs = (1, -1)
    gains = (
        lambda u, v: u * v - threshold**2 / 4,
        lambda u, v: threshold - u - v,
        lambda u, v: threshold + u + v,
    )
    return [[[Fraction(0)] * 2] * 2, *([[-gain(u, v) for v in signs] for u in signs] for gain in gains)]


@st.composite
def tables(draw, max_rows=4, max_actions=2, teammates=2):
    shape = (draw(st.integers(1, max_rows)), *(draw(st.integers(1, max_actions)) for _ in range(teammates)))
    values = draw(st.lists(st.integers(-2, 2), min_size=prod(shape), max_size=prod(shape)))
    return np.array(values).reshape(shape)


def product_teams(game: Game, parts: int):
    """Every product of mixes with probabilities in steps of 1 / parts, as distributions over the columns."""
    counts = [[mix for mix in product(range(parts + 1), repeat=size) if sum(mix) == parts] for size in game.team_shape]
    mixes = [[[Fraction(number, parts) for number in mix] for mix in listed] for listed in counts]
    return [tuple(prod(shares, start=Fraction(1)) for shares in product(*team)) for team in product(*mixes)]


def assert_proved(solution: Solution) -> None:
    """Every witness is a product with the stated margin, checked in fractions."""
    rows = solution.game.ego
    for member in solution.members:
        assert all(sum(mix) == 1 and min(mix) >= 0 for mix in member.team)
        assert tuple(map(len, member.team)) == solution.game.team_shape
        assert member.witness == tuple(prod(shares) for shares in product(*member.team))
        gains = [dot(rows[member.action], member.witness) - dot(row, member.witness) for row in rows]
        others = [gain for gain, row in zip(gains, rows, strict=True) if row != rows[member.action]]
        assert member.margin == (min(others) if others else None)
        assert member.margin is None or member.margin > 0
    listed = [item.action for item in (*solution.members, *solution.non_members, *solution.undecided)]
    assert sorted(listed) == list(range(len(rows)))
    assert set(solution.lower_bound) <= set(solution.coverage_set) == set(solution.upper_bound)
    assert solution.exact == (solution.lower_bound == solution.upper_bound)


def assert_agrees_with_a_grid(payoffs, parts: int) -> None:
    """Teams on a grid have a best response in the set, and require what is not in it nowhere."""
    joint, alone = solve(payoffs), solve(payoffs, teams="independent")
    assert_proved(alone)
    assert set(alone.coverage_set) <= set(joint.coverage_set)
    rows = list(joint.game.ego)
    for team in product_teams(joint.game, parts):
        best = best_rows(rows, team)
        assert best & set(alone.coverage_set)
        if len({rows[i] for i in best}) == 1:
            assert min(best) in alone.coverage_set


def test_a_row_for_correlated_teams_only() -> None:
    joint = solve(FOLLOW)
    assert joint.coverage_set == (0, 1, 2, 3)
    assert joint.members[2].witness == (Fraction(1, 2), 0, 0, Fraction(1, 2))
    assert joint.members[2].margin == Fraction(1, 2)
    alone = solve(FOLLOW, teams="independent")
    assert (alone.coverage_set, alone.exact) == ((0, 1, 3), True)
    assert [(item.action, item.kind) for item in alone.non_members] == [(2, "correlated")]
    assert_agrees_with_a_grid(FOLLOW, 30)


def test_a_row_for_mixed_independent_teams() -> None:
    """Below 9 - 6 sqrt(2) times 2, staying leaves room for following: at x = y = 1/2 it earns 1 > 9/10 > 3/4."""
    payoffs = [*FOLLOW[:3], [[Fraction(9, 10)] * 2] * 2]
    alone = solve(payoffs, teams="independent")
    assert (alone.coverage_set, alone.exact) == ((0, 1, 2, 3), True)
    assert_proved(alone)


def test_the_constant_row_around_the_bound_found_by_hand() -> None:
    """Follow earns at most 2 (9 - 6 sqrt(2)) = 1.029437... where it beats left and right."""
    for stay, needed in ((Fraction("1.029437"), True), (Fraction("1.029438"), False)):
        alone = solve([*FOLLOW[:3], [[stay] * 2] * 2], teams="independent")
        assert alone.exact
        assert (2 in alone.coverage_set) == needed


def test_branch_and_bound_finds_what_the_search_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = independent._find_best_profile
    monkeypatch.setattr(independent, "find_teams", lambda gains, joint: [profile(gains)])
    payoffs = [*FOLLOW[:3], [[Fraction(9, 10)] * 2] * 2]
    alone = solve(payoffs, teams="independent")
    assert (alone.coverage_set, alone.exact) == ((0, 1, 2, 3), True)
    assert_proved(alone)


def test_a_tie_on_the_grid_of_halves_is_decided() -> None:
    alone = solve(tied_at_a_product(Fraction(1)), teams="independent")
    assert (alone.coverage_set, alone.exact) == ((1, 2, 3), True)


def test_a_tie_off_the_grid_is_reported_as_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independent, "MAX_PIECES", 100)
    alone = solve(tied_at_a_product(Fraction(2, 3)), teams="independent")
    assert not alone.exact
    assert (alone.lower_bound, alone.upper_bound, alone.coverage_set) == ((1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
    assert alone.undecided[0].low <= 0 < alone.undecided[0].high < Fraction(1, 10)
    assert_proved(alone)
    answer = alone.to_json()
    assert (answer["exact"], answer["lower_bound"], answer["upper_bound"]) == (False, [1, 2, 3], [0, 1, 2, 3])
    assert answer["witnesses"][0] is answer["margins"][0] is answer["team_witnesses"][0] is None
    assert [item["action"] for item in answer["undecided"]] == [0]
    json.dumps(answer, allow_nan=False)


def test_too_little_arithmetic_leaves_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(gains, budget):
        raise independent.UndecidedError

    monkeypatch.setattr(independent, "value_bounds", refuse)
    alone = solve(FOLLOW, teams="independent")
    assert (alone.lower_bound, alone.upper_bound, alone.exact) == ((0, 1, 3), (0, 1, 2, 3), False)


@settings(quiet, max_examples=150)
@given(tables())
def test_three_players_agree_with_a_grid_of_teams(payoffs) -> None:
    assert_agrees_with_a_grid(payoffs, 12)


@settings(quiet, max_examples=15)
@given(tables(max_rows=5, max_actions=3))
def test_three_players_with_three_actions_agree_with_a_grid(payoffs) -> None:
    assert_agrees_with_a_grid(payoffs, 4)


@settings(quiet, max_examples=15)
@given(tables(teammates=3))
def test_four_players_agree_with_a_grid(payoffs) -> None:
    assert_agrees_with_a_grid(payoffs, 6)


@pytest.mark.parametrize("seed", range(8))
def test_random_teams_have_a_best_response_in_the_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    payoffs = rng.normal(size=(8, 3, 3))
    alone = solve(payoffs, teams="independent")
    assert_proved(alone)
    for _ in range(2000):
        x, y = rng.dirichlet(np.full(3, 0.5), 2)
        earned = np.einsum("ijk,j,k->i", payoffs, x, y)
        assert earned[list(alone.coverage_set)].max() >= earned.max() - 1e-12


@settings(quiet, max_examples=60)
@given(st.data(), tables())
def test_permuting_teammates_and_actions_permutes_the_set(data, payoffs) -> None:
    axes = data.draw(st.permutations((1, 2)))
    orders = [data.draw(st.permutations(range(size))) for size in payoffs.shape]
    moved = payoffs[np.ix_(*orders)].transpose(0, *axes)
    for teams in ("joint", "independent"):
        solution, other = solve(payoffs, teams=teams), solve(moved, teams=teams)
        assert solution.exact
        assert other.exact
        assert {payoffs[i].tobytes() for i in solution.coverage_set} == {
            payoffs[orders[0][i]].tobytes() for i in other.coverage_set
        }


@settings(quiet, max_examples=60)
@given(tables(max_rows=4, max_actions=3, teammates=1))
def test_one_teammate_is_as_before(payoffs) -> None:
    joint, alone = solve(payoffs), solve(payoffs, teams="independent")
    assert (alone.members, alone.non_members, alone.exact) == (joint.members, joint.non_members, True)


@settings(quiet, max_examples=60)
@given(tables(max_rows=4, max_actions=4, teammates=1))
def test_a_teammate_without_choice_changes_nothing(payoffs) -> None:
    two, three = solve(payoffs), solve(payoffs[:, None, :], teams="independent")
    assert (three.coverage_set, three.exact) == (two.coverage_set, True)


@pytest.mark.parametrize("player", range(3))
def test_any_player_can_be_the_ego_agent(player: int) -> None:
    tables = np.random.default_rng(3).integers(-5, 6, (3, 4, 2, 3))
    game = game_from_players(list(tables), ego_player=player)
    own = np.moveaxis(tables[player], player, 0)
    assert game.players == 3
    assert game.team_shape == own.shape[1:]
    assert solve(game).coverage_set == solve(own.reshape(len(own), -1)).coverage_set
    assert solve(game, teams="independent").coverage_set == solve(own, teams="independent").coverage_set


@pytest.mark.parametrize(("name", "size"), [("rock-paper-scissors", 3), ("matching-pennies", 2)])
def test_zero_sum_games_need_every_action(name: str, size: int) -> None:
    solution = solve(name)
    assert solution.coverage_set == tuple(range(size))
    assert solution.game.teammate == tuple(tuple(-value for value in row) for row in solution.game.ego)
    assert {tuple(map(str, member.witness)).count("1") for member in solution.members} == {1}


@pytest.mark.parametrize("seed", range(50))
def test_conventions_of_random_bimatrix_games(seed: int) -> None:
    game = random_bimatrix(seed, 2 + seed % 3, 2 + seed % 2)
    rows = list(game.ego)
    needed = [i for i in range(len(rows)) if rows.index(rows[i]) == i and full_dimensional(region_vertices(rows, i))]
    assert exact_conventions(game) == tuple(needed)
    assert random_bimatrix(seed, 2 + seed % 3, 2 + seed % 2) == game


def test_unknown_teams_are_refused() -> None:
    with pytest.raises(ValueError, match="teams must be 'joint' or 'independent', got 'both'"):
        check_teams("both")
