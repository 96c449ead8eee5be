"""Oracles of both reaching games against brute force over all plans, by hand, and against the real heuristics."""

import itertools
from collections import defaultdict
from functools import lru_cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.envs.extensions import best_response, heuristics, oracles
from coverset.envs.reaching import MOVES, WEIGHTED, Reaching, ReachingState
from coverset.envs.reaching.heuristics import ANY, FURTHEST, NEAREST, CornerWalker
from coverset.policies.stacked import stack
from coverset.types import Percept

WEIGHTED_REACHING = Reaching(payoffs=WEIGHTED, ends_apart=True)
CODES = tuple(tuple(1.0 + 4 * row + column for column in range(4)) for row in range(4))
"""Payoffs that tell on which corners an episode ended; 0 if it did not."""
payoff = st.one_of(st.integers(-9, 9).map(float), st.floats(-10, 10, width=32))
probabilities = st.lists(st.integers(0, 8), min_size=4, max_size=4).filter(any)


def tables(rows: int, columns: int):
    return st.tuples(*[st.tuples(*[payoff] * columns)] * rows)


def as_tuples(table: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.astype(float).tolist())


def inner_cells(size: int):
    return jnp.array([*itertools.product(range(1, size - 1), repeat=2)], jnp.int32)


def ending(environment: Reaching, seat: int, plan, start, partner_start, partner):
    """Return of an agent that plays a plan with a real heuristic in the real environment from given cells."""

    def body(carry, action):
        state, memory, first, over = carry
        percept = Percept(environment.observe(state)[1 - seat], jnp.float32(0), first)
        answer, memory = partner.act(jax.random.key(0), percept, memory)
        actions = jnp.stack([action, answer] if seat == 0 else [answer, action])
        outcome = environment.step(jax.random.key(0), state, actions)
        ended = over | outcome.terminated | outcome.truncated
        return (outcome.state, memory, jnp.bool_(False), ended), jnp.where(over, 0.0, outcome.reward)

    positions = jnp.stack([start, partner_start] if seat == 0 else [partner_start, start])
    state = ReachingState(positions, jnp.int32(0))
    carry = (state, partner.initial_memory(), jnp.bool_(True), jnp.bool_(False))
    return jax.lax.scan(body, carry, plan)[1].sum()


@lru_cache
def all_endings(size: int, horizon: int, ends_apart: bool, seat: int) -> np.ndarray:
    """For every plan, start, partner's start and partner that draws nothing: on which corners it ends, as a code."""
    environment = Reaching(payoffs=CODES, ends_apart=ends_apart, size=size, horizon=horizon)
    plans = jnp.array([*itertools.product(range(len(MOVES)), repeat=horizon)], jnp.int32)
    known = heuristics(environment)
    partners = stack([known[name] for name in certain_partners()])
    play = partial(ending, environment, seat)
    for axis in (3, 2, 1, 0):
        play = jax.vmap(play, [0 if axis == other else None for other in range(4)])
    codes = jax.jit(play)(plans, inner_cells(size), inner_cells(size), partners)
    return np.asarray(codes, np.int8)


def certain_partners() -> list[str]:
    """Heuristics that draw nothing: by distance, then those that walk to A, B, C, D."""
    return ["H1", "H2", "H3", "H4", "H5", "H6", "H8", "H9", "H10", "H11"]


def brute_force(environment: Reaching, seat: int, weights: list[float]) -> tuple[float, float]:
    """The best plan for each start, and the best for each start, partner's start and partner; `weights` of partners."""
    codes = all_endings(environment.size, environment.horizon, environment.ends_apart, seat)
    pays = np.concatenate([[0.0], np.ravel(environment.payoffs)])[codes]
    value = (pays.mean(axis=2) @ weights).max(axis=0).mean()
    return value, (pays.max(axis=0).mean(axis=(0, 1)) @ weights)


CASES = [(3, 6, True, 0), (3, 6, False, 0), (3, 4, True, 1), (3, 4, False, 1), (4, 5, True, 0), (4, 5, False, 0)]


@pytest.mark.parametrize(("size", "horizon", "ends_apart", "seat"), CASES)
@settings(max_examples=12, deadline=None)
@given(payoffs=tables(4, 4), drawn=probabilities)
def test_reaching_is_the_best_of_all_plans_for_any_payoffs_and_chances(
    size: int, horizon: int, ends_apart: bool, seat: int, payoffs, drawn
) -> None:
    environment = Reaching(payoffs=payoffs, ends_apart=ends_apart, size=size, horizon=horizon)
    partner = CornerWalker(environment, jnp.array(drawn, jnp.float32) / sum(drawn), jnp.int32(ANY))
    oracle = best_response(environment, partner, seat)
    value, full_information = brute_force(environment, seat, [0.0] * 6 + [chance / sum(drawn) for chance in drawn])
    assert oracle.exact
    assert oracle.value == pytest.approx(value, abs=1e-5)
    assert oracle.full_information == pytest.approx(full_information, abs=1e-5)


@pytest.mark.parametrize(("size", "horizon", "ends_apart", "seat"), CASES)
@settings(max_examples=2, deadline=None)
@given(payoffs=tables(4, 4))
def test_reaching_is_the_best_of_all_plans_for_each_heuristic(size, horizon, ends_apart, seat, payoffs) -> None:
    environment = Reaching(payoffs=payoffs, ends_apart=ends_apart, size=size, horizon=horizon)
    found, names = oracles(environment, seat), certain_partners()
    weights = {name: [float(name == other) for other in names] for name in names}
    mixes = {"H7": [0.25] * 4, "H12": [0.55, 0.15, 0.15, 0.15], "H14": [0.15, 0.15, 0.55, 0.15]}
    weights |= {name: [0.0] * 6 + mix for name, mix in mixes.items()}
    for name, weight in weights.items():
        value, full_information = brute_force(environment, seat, weight)
        assert found[name].value == pytest.approx(value, abs=1e-5), name
        assert found[name].full_information == pytest.approx(full_information, abs=1e-5), name


def partner_ways(environment: Reaching, partner: CornerWalker) -> list[tuple[float, tuple]]:
    """Chance and cells of each way a heuristic can go, read off the real policy while the agent stands still."""
    certain = int(partner.nearness) != ANY
    drawn = [1.0] if certain else np.asarray(partner.probabilities).tolist()
    ways = []

    @jax.jit
    def step(policy, state, memory):
        percept = Percept(environment.observe(state)[1], jnp.float32(0), state.time == 0)
        action, memory = policy.act(jax.random.key(0), percept, memory)
        return environment.step(jax.random.key(0), state, jnp.stack([jnp.int32(0), action])).state, memory

    for start, (corner, chance) in itertools.product(inner_cells(environment.size), enumerate(drawn)):
        policy = partner if certain else eqx.tree_at(lambda p: p.probabilities, partner, jnp.eye(4)[corner])
        state = ReachingState(jnp.stack([jnp.array([1, 1]), start]), jnp.int32(0))
        memory, cells = policy.initial_memory(), [tuple(start.tolist())]
        for _ in range(environment.horizon):
            state, memory = step(policy, state, memory)
            cells.append(tuple(state.positions[1].tolist()))
        ways.append((chance / len(inner_cells(environment.size)), tuple(cells)))
    return ways


def expectimax(environment: Reaching, ways: list[tuple[float, tuple]]) -> float:
    """Value for an agent that sees where its partner is, by recursion over all that it can see."""
    last = environment.size - 1
    corners = [(0, 0), (0, last), (last, last), (last, 0)]

    @lru_cache(None)
    def value(cell, time, possible) -> float:
        """Chance-weighted, for the ways that agree with what was seen until `time`."""
        if time == environment.horizon:
            return 0.0
        seen = defaultdict(list)
        for way in possible:
            seen[ways[way][1][time + 1]].append(way)
        moves = {tuple(np.clip(np.add(cell, move), 0, last).tolist()) for move in MOVES}
        return max(sum(after(to, time + 1, other, tuple(group)) for other, group in seen.items()) for to in moves)

    def after(cell, time, other, group) -> float:
        if cell in corners and other in corners and (environment.ends_apart or cell == other):
            pay = environment.payoffs[corners.index(cell)][corners.index(other)]
            return pay * sum(ways[way][0] for way in group)
        return value(cell, time, group)

    starts = [tuple(start) for start in inner_cells(environment.size).tolist()]
    groups = [tuple(way for way, (_, cells) in enumerate(ways) if cells[0] == start) for start in starts]
    return float(np.mean([sum(value(start, 0, group) for group in groups) for start in starts]))


@pytest.mark.parametrize("ends_apart", [True, False])
@pytest.mark.parametrize(("size", "horizon"), [(3, 2), (4, 5)])
def test_reaching_with_a_partner_in_sight_is_the_best_of_all_strategies(size, horizon, ends_apart) -> None:
    seeing = partial(Reaching, ends_apart=ends_apart, size=size, horizon=horizon, sees_teammate=True)
    unseeing = partial(Reaching, ends_apart=ends_apart, size=size, horizon=horizon)
    rng = np.random.default_rng(size + horizon)
    names = ["H1", "H7", "H12"]
    ways = {name: partner_ways(seeing(), heuristics(seeing())[name]) for name in names}
    for _ in range(4):
        payoffs = as_tuples(rng.integers(-5, 10, (4, 4)))
        found, blind = oracles(seeing(payoffs=payoffs)), oracles(unseeing(payoffs=payoffs))
        for name in names:
            assert found[name].value == pytest.approx(expectimax(seeing(payoffs=payoffs), ways[name]), abs=1e-5)
            assert found[name].full_information == pytest.approx(blind[name].full_information)
            assert blind[name].value - 1e-9 <= found[name].value <= found[name].full_information + 1e-9


@lru_cache
def team_endings(size: int, horizon: int, ends_apart: bool) -> np.ndarray:
    """Where three end: the corners as a code, 0 if they do not, for every plan, three starts and two targets."""
    environment = Reaching(ends_apart=ends_apart, size=size, horizon=horizon, players=3)
    plans = jnp.array([*itertools.product(range(len(MOVES)), repeat=horizon)], jnp.int32)

    def play(plan, starts, targets):
        walkers = [CornerWalker(environment, jnp.eye(4)[target], jnp.int32(ANY)) for target in targets]

        def body(carry, action):
            state, memories, first, code = carry
            seen = environment.observe(state)
            moves = [
                walker.act(jax.random.key(0), Percept(seen[seat], jnp.float32(0), first), memory)
                for seat, (walker, memory) in enumerate(zip(walkers, memories, strict=True), start=1)
            ]
            actions = jnp.stack([action, *(move for move, _ in moves)])
            outcome = environment.step(jax.random.key(0), state, actions)
            corners = jnp.stack([environment.convention(outcome.state, seat) for seat in range(3)])
            ended = jnp.where(outcome.terminated, 1 + corners @ jnp.array([16, 4, 1]), 0)
            memories = tuple(memory for _, memory in moves)
            return (outcome.state, memories, jnp.bool_(False), jnp.where(code > 0, code, ended)), None

        memories = tuple(walker.initial_memory() for walker in walkers)
        carry = (ReachingState(starts, jnp.int32(0)), memories, jnp.bool_(True), jnp.int32(0))
        return jax.lax.scan(body, carry, plan)[0][-1].astype(jnp.int8)

    starts = jnp.array([*itertools.product(inner_cells(size).tolist(), repeat=3)], jnp.int32)
    targets = jnp.array([*itertools.product(range(4), repeat=2)], jnp.int32)
    over_targets = jax.vmap(play, (None, None, 0))
    codes = jax.jit(jax.vmap(jax.vmap(over_targets, (None, 0, None)), (0, None, None)))(plans, starts, targets)
    cells = len(inner_cells(size))
    return np.asarray(codes).reshape(len(plans), cells, cells, cells, 4, 4)


def choices(size: int, drawn: list[int] | None) -> np.ndarray:
    """The chances of the corners from each start: as drawn, or the nearest corner for None."""
    cells, last = np.array(inner_cells(size)), size - 1
    if drawn is not None:
        return np.tile(np.array(drawn) / sum(drawn), (len(cells), 1))
    distances = np.abs(cells[:, None] - np.array([(0, 0), (0, last), (last, last), (last, 0)])).sum(-1)
    return np.eye(4)[distances.argmin(axis=1)]


@pytest.mark.parametrize(("size", "horizon", "ends_apart"), [(3, 6, True), (3, 5, False), (4, 4, True), (4, 4, False)])
@settings(max_examples=10, deadline=None)
@given(payoffs=tables(4, 4), drawn=st.one_of(st.none(), probabilities))
def test_reaching_with_a_team_is_the_best_of_all_plans(
    size: int, horizon: int, ends_apart: bool, payoffs, drawn
) -> None:
    """Three players in the real environment, the two teammates real heuristics that start and draw independently."""
    environment = Reaching(payoffs=payoffs, ends_apart=ends_apart, size=size, horizon=horizon, players=3)
    team = heuristics(environment)["H1"]
    if drawn is not None:
        team = CornerWalker(environment, jnp.array(drawn, jnp.float32) / sum(drawn), jnp.int32(ANY))
    oracle = best_response(environment, team, 0)
    ends = [min(payoffs[a][b], payoffs[a][c], payoffs[b][c]) for a, b, c in itertools.product(range(4), repeat=3)]
    pays = np.array([0.0, *ends])[team_endings(size, horizon, ends_apart)]
    chances = choices(size, drawn) / len(inner_cells(size))
    weighted = np.einsum("pxyzab,ya,zb->px", pays, chances, chances)
    informed = np.einsum("xyzab,ya,zb->x", pays.max(axis=0), chances, chances)
    assert oracle.exact
    assert oracle.value == pytest.approx(weighted.max(axis=0).mean(), abs=1e-5)
    assert oracle.full_information == pytest.approx(informed.mean(), abs=1e-5)


def test_seats_of_a_team_have_the_same_oracle_where_they_are_alike() -> None:
    for payoffs, alike in ((WEIGHTED, True), (CODES, False)):
        environment = Reaching(payoffs=payoffs, ends_apart=True, players=3, horizon=12)
        partners = heuristics(environment).values()
        values = np.array([[environment.best_response(each, seat).value for each in partners] for seat in range(3)])
        assert environment.seats_alike == alike
        assert np.allclose(values, values[0]) == alike


def test_seeing_a_team_by_hand() -> None:
    """On 3 x 3 both meet with chance 1/4. Two steps: left, then follow both up or down. Three: up, left or right."""
    environments = [Reaching(size=3, horizon=horizon, sees_teammate=True, players=3) for horizon in (1, 2, 3)]
    found = [oracles(environment)["H7"] for environment in environments]
    assert [oracle.value for oracle in found] == pytest.approx([0.0, 1 / 8, 1 / 4])
    assert all(oracle.exact for oracle in found)


def test_oracles_of_large_teams_are_bounds_or_unknown() -> None:
    seen = oracles(Reaching(players=4, sees_teammate=True))
    assert {name for name, oracle in seen.items() if not oracle.exact} == {"H7", "H12", "H13", "H14", "H15"}
    assert seen["H7"].value == pytest.approx(1 / 16)
    assert all(oracle.value <= oracle.full_information + 1e-9 for oracle in seen.values())
    assert oracles(Reaching(players=7)) == {}


def test_seeing_the_partner_by_hand() -> None:
    """On 3 x 3, two steps: who goes left first can still follow up or down. Three: up, then left or right."""
    environments = [Reaching(size=3, horizon=horizon, sees_teammate=True) for horizon in (1, 2, 3)]
    assert [oracles(environment)["H7"].value for environment in environments] == pytest.approx([0.0, 0.5, 1.0])


def test_a_uniform_draw_among_weighted_corners() -> None:
    """Going to A pays (10 + 0 + 6 + 6) / 4; who knows the draw earns (10 + 10 + 8 + 8) / 4."""
    oracle = oracles(WEIGHTED_REACHING)["H7"]
    assert (oracle.value, oracle.full_information) == pytest.approx((5.5, 9.0))
    assert oracles(Reaching())["H7"].value == pytest.approx(1.0)  # time for every corner in turn


def test_a_short_horizon_leaves_corners_out() -> None:
    """On 3 x 3 the agent stands on one corner at 2, a second at 4, a third at 6, the last at 8."""
    values = [oracles(Reaching(size=3, horizon=horizon))["H7"].value for horizon in range(1, 9)]
    assert values == pytest.approx([0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0])


def test_corners_that_only_cost_are_avoided() -> None:
    costly = as_tuples(np.full((4, 4), -1.0))
    for ends_apart in (True, False):
        found = oracles(Reaching(payoffs=costly, ends_apart=ends_apart))
        assert {oracle.value for oracle in found.values()} == {0.0}
        assert {oracle.full_information for oracle in found.values()} == {0.0}


COSTLY = Reaching(payoffs=((2.0, 0, 0, 0), (0, -1.0, 0, 0), (0, 0, 3.0, 0), (0, 0, 0, 1.0)), size=4, horizon=9)
SHORT = Reaching(payoffs=CODES, ends_apart=True, horizon=6, encoding="coordinates")


@pytest.mark.parametrize(("environment", "seat"), [(WEIGHTED_REACHING, 0), (SHORT, 1), (COSTLY, 1), (Reaching(), 0)])
def test_plans_are_worth_what_the_oracle_says(environment: Reaching, seat: int) -> None:
    """Exactly, from every pair of starts, with every heuristic that draws nothing."""
    found, known, names = oracles(environment, seat), heuristics(environment), certain_partners()
    cells = inner_cells(environment.size)
    numbers = cells[:, 0] * environment.size + cells[:, 1]
    plans = jnp.stack([found[name].policy.actions[numbers] for name in names])
    over_partner_starts = jax.vmap(partial(ending, environment, seat), (None, None, 0, None))
    over_starts = jax.vmap(over_partner_starts, (0, 0, None, None))
    returns = jax.jit(jax.vmap(over_starts, (0, None, None, 0)))(
        plans, cells, cells, stack([known[name] for name in names])
    )
    np.testing.assert_allclose(returns.mean((1, 2)), [found[name].value for name in names], atol=1e-4)


def test_in_plain_reaching_one_plan_earns_everything_with_everyone() -> None:
    environment, known = Reaching(), heuristics(Reaching())
    cells = inner_cells(environment.size)
    plans = oracles(environment)["H7"].policy.actions[cells[:, 0] * environment.size + cells[:, 1]]
    over_partners = jax.vmap(partial(ending, environment, 0), (None, None, None, 0))
    over_starts = jax.vmap(jax.vmap(over_partners, (None, None, 0, None)), (0, 0, None, None))
    partners = stack([known[name] for name in certain_partners()])
    assert (jax.jit(over_starts)(plans, cells, cells, partners) == 1.0).all()


@pytest.mark.parametrize("nearness", [NEAREST, FURTHEST, ANY])
def test_a_corner_without_chance_is_never_expected(nearness: int) -> None:
    environment = Reaching(payoffs=as_tuples(np.diag([100.0, 100.0, 1.0, 1.0])))
    partner = CornerWalker(environment, jnp.array([0.0, 0.0, 0.5, 0.5]), jnp.int32(nearness))
    assert best_response(environment, partner).value == pytest.approx(1.0)
