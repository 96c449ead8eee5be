"""Mixed teams in generation: the grid against loops, the constraints against their Lagrangian, and a solved game."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.evaluation.mixed_play import play_mixed_teams
from coverset.presets import resolve_generation
from coverset.settings import GenerateSettings
from coverset.teammates.batches import estimate
from coverset.teammates.collect import collect
from coverset.teammates.method import PairWeights, Seen, World, mixed_gaps, violates_constraints
from coverset.teammates.methods.lbrdiv import LBRDiv, Multipliers, TeamMultipliers, team_lagrangian, team_weights
from coverset.teammates.mixed_grid import MixedGrid
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.trainer import Trainer
from coverset.types import Percept
from grids import pair_of
from relay import Relay

MARGIN = 0.5
GRIDS = [
    MixedGrid(2, 2, 2, num_seats=2, per_mixed_team=1),
    MixedGrid(3, 3, 1, 2, num_seats=2, per_mixed_team=2),
    MixedGrid(4, 4, 1, num_seats=3, per_mixed_team=1),
]


def team_of(grid: MixedGrid, row: int, place: int) -> tuple[int, ...]:
    """Who plays in each seat of one environment, as the module says."""
    place -= grid.whole_size
    if place < 0:
        return (pair_of(grid, row, place + grid.whole_size)[1],) * grid.num_seats
    step, within = divmod(place, grid.num_seats * grid.per_mixed_team)
    taken = within // grid.per_mixed_team
    return tuple((row + 1 + step) % grid.rows if seat == taken else row for seat in range(grid.num_seats))


@pytest.fixture(params=GRIDS, ids=str)
def grid(request) -> MixedGrid:
    return request.param


def test_every_mixed_team_plays_in_as_many_environments(grid: MixedGrid) -> None:
    for row in range(grid.rows):
        teams = [team_of(grid, row, place) for place in range(grid.whole_size, grid.row_size)]
        wanted = {
            tuple(other if seat == taken else row for seat in range(grid.num_seats))
            for taken in range(grid.num_seats)
            for other in set(range(grid.rows)) - {row}
        }
        assert set(teams) == wanted
        assert {teams.count(team) for team in wanted} == {grid.per_mixed_team}
    assert grid.cells_per_row == grid.columns + len(wanted)


def test_teams_name_who_plays_where(grid: MixedGrid) -> None:
    teams, teammates, alone = (np.asarray(x) for x in (grid.teams(), grid.teammates(), grid.in_self_play()))
    for row, place in np.ndindex(grid.rows, grid.row_size):
        team = team_of(grid, row, place)
        if place < grid.whole_size:
            assert teams[row, place] == teammates[row, place] == team[0]
        else:
            (taken,) = (seat for seat, member in enumerate(team) if member != row)
            assert teams[row, place] == grid.columns * (1 + taken) + team[taken]
            assert teammates[row, place] == row
        assert alone[row, place] == (set(team) == {row})


def test_grouping_by_teammate_puts_every_seat_into_the_block_of_who_plays_it(grid: MixedGrid) -> None:
    shape = (grid.rows, grid.row_size, grid.num_seats)
    names = np.arange(np.prod(shape)).reshape(shape)
    grouped = np.asarray(grid.by_teammate(jnp.asarray(names)))
    assert grouped.shape == (grid.columns, grid.column_size, grid.num_seats)
    for teammate in range(grid.columns):
        for seat in range(grid.num_seats):
            places = np.ndindex(*shape[:2])
            own = [names[*place, seat] for place in places if team_of(grid, *place)[seat] == teammate]
            assert sorted(grouped[teammate, :, seat]) == own
    np.testing.assert_array_equal(grid.by_best_response(jnp.asarray(grouped)), names)


def slow_cells(grid: MixedGrid, rows: np.ndarray) -> dict[tuple[int, tuple[int, ...]], list[float]]:
    cells: dict[tuple[int, tuple[int, ...]], list[float]] = {}
    for row, place in np.ndindex(*rows.shape):
        cells.setdefault((row, team_of(grid, row, place)), []).append(float(rows[row, place]))
    return cells


def test_sums_shares_and_means_equal_loops_over_teams(grid: MixedGrid) -> None:
    rows = np.random.default_rng(0).normal(size=(grid.rows, grid.row_size)).astype(np.float32)
    cells = slow_cells(grid, rows)
    whole, mixed = (np.asarray(part) for part in grid.split_teams(grid.cell_sums(jnp.asarray(rows))))
    for i, k in np.ndindex(grid.rows, grid.rows):
        np.testing.assert_allclose(whole[i, k], np.sum(cells[i, (k,) * grid.num_seats]), atol=1e-5)
        for seat in range(grid.num_seats):
            team = tuple(k if s == seat else i for s in range(grid.num_seats))
            np.testing.assert_allclose(mixed[seat, i, k], 0.0 if i == k else np.sum(cells[i, team]), atol=1e-5)
    shared = rows * np.asarray(grid.cell_shares())
    for i in range(grid.rows):
        own = [np.mean(values) for (row, _), values in cells.items() if row == i]
        np.testing.assert_allclose(shared[i].mean(), np.mean(own), atol=1e-5)
        seats = [np.mean(values) for (_, team), values in cells.items() for member in team if member == i]
        np.testing.assert_allclose(grid.teammate_means(jnp.asarray(shared))[i], np.mean(seats), atol=1e-5)
        # What self-play counts in the objective is what it counts without mixed teams: one of `columns` cells.
        counted = np.mean(np.asarray(grid.cell_shares() * grid.importance(0))[i] * np.asarray(grid.in_self_play())[i])
        np.testing.assert_allclose(counted, 1.0 / grid.columns, rtol=1e-5)


def test_splitting_undoes_joining(grid: MixedGrid) -> None:
    pairs = jnp.arange(float(grid.rows**2)).reshape(grid.rows, grid.rows)
    mixed = -jnp.arange(1.0, 1.0 + grid.num_seats * grid.rows**2).reshape(grid.num_seats, grid.rows, grid.rows)
    for found, wanted in zip(grid.split_teams(grid.join_teams(pairs, mixed)), (pairs, mixed), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(grid.split_teams(grid.join_teams(pairs, None))[1], 0.0)


def draw(size: int, seats: int, seed: int) -> tuple[jax.Array, jax.Array, TeamMultipliers]:
    numbers = np.random.default_rng(seed)
    off = 1.0 - np.eye(size)

    def positive(*shape: int) -> jax.Array:
        return jnp.asarray(numbers.uniform(size=shape) * off, jnp.float32)

    returns, mixed = (jnp.asarray(numbers.normal(size=s), jnp.float32) for s in ((size, size), (seats, size, size)))
    whole = Multipliers(positive(size, size), positive(size, size))
    return returns, mixed, TeamMultipliers(whole, positive(seats, size, size))


@pytest.mark.parametrize(("size", "seats"), [(2, 2), (3, 3)])
def test_the_lagrangian_equals_a_loop_and_weights_are_its_gradient(size: int, seats: int) -> None:
    """R_ii >= R_i(s <- k) + tau adds c_sik (R_ii - tau - R_i(s <- k)) for every seat s and every k != i."""
    returns, mixed, multipliers = draw(size, seats, seed=1)
    (a, b), c = jax.device_get((tuple(multipliers.whole), multipliers.mixed))
    wanted = float(np.trace(returns))
    for i, k in np.ndindex(size, size):
        if i == k:
            continue
        wanted += a[i, k] * (returns[i, i] - MARGIN - returns[k, i]) + b[i, k] * (
            returns[i, i] - MARGIN - returns[i, k]
        )
        wanted += sum(c[s, i, k] * (returns[i, i] - MARGIN - mixed[s, i, k]) for s in range(seats))
    np.testing.assert_allclose(team_lagrangian(returns, mixed, multipliers, MARGIN), wanted, rtol=1e-5)
    by_pairs, by_mixed, by_multipliers = jax.grad(team_lagrangian, argnums=(0, 1, 2))(
        returns, mixed, multipliers, MARGIN
    )
    weights = team_weights(multipliers)
    np.testing.assert_allclose(weights.best_responses, by_pairs, atol=1e-5)
    np.testing.assert_allclose(weights.teammates, by_pairs, atol=1e-5)
    np.testing.assert_allclose(weights.mixed_teams, by_mixed, atol=1e-5)
    np.testing.assert_allclose(mixed_gaps(returns, mixed, MARGIN), by_multipliers.mixed, atol=1e-5)


def world(size: int, **changes: Any) -> World:
    chosen = GenerateSettings(**{"population_size": size, "total_steps": 1, "margin": MARGIN, **changes})
    return World(Relay(), chosen, size, size)


def test_multipliers_of_mixed_teams_descend_restart_and_are_reported() -> None:
    method = LBRDiv(multiplier_learning_rate=0.5, initial_multiplier=0.25, envs_per_mixed_team=1)
    state = method.init(jax.random.key(0), world(2))
    assert isinstance(state, TeamMultipliers)
    nothing: Any = None
    seen = Seen(
        world(2, restart_patience=4), jnp.int32(0), jnp.float32(0.0), jnp.array([[5.0, 0.0], [0.0, 5.0]]), nothing,
        nothing, jnp.zeros(2, bool), jnp.array([[[5.0, 5.0], [4.6, 5.0]], [[5.0, 1.0], [4.5, 5.0]]]),
    )  # fmt: skip
    moved = method.update(state, seen)
    # Gaps -0.5 and -0.1 in the first seat, 3.5 and 0 in the second.
    np.testing.assert_allclose(moved.mixed, [[[0.0, 0.5], [0.3, 0.0]], [[0.0, 0.0], [0.25, 0.0]]], atol=1e-6)
    np.testing.assert_allclose(moved.whole.other_teammate, 0.0)
    again = method.update(state, seen._replace(restarted=jnp.array([True, False])))
    np.testing.assert_allclose(again.mixed, [[[0.0, 0.5], [0.0, 0.0]]] * 2)
    assert set(method.report(moved)) == {"multipliers", "mixed_team_multipliers"}
    np.testing.assert_allclose(method.summarise(moved)["mixed_team_multipliers"], moved.mixed, atol=1e-6)
    assert LBRDiv().summarise(LBRDiv().init(jax.random.key(0), world(2))) == {}


def test_a_pair_is_settled_only_if_its_mixed_teams_are() -> None:
    returns, mixed = jnp.eye(3), jnp.zeros((2, 3, 3)).at[1, 2, 0].set(0.75)
    assert violates_constraints(returns, MARGIN).tolist() == [False, False, False]
    assert violates_constraints(returns, MARGIN, mixed).tolist() == [False, False, True]


K, LENGTH = 3, 5


def relay_trainer(**changes: Any) -> Trainer:
    chosen = {
        "population_size": K, "total_steps": 1, "hidden_sizes": (5,), "memory_size": 4, "envs_per_pair": 1,
        "extra_self_play": 1, "rollout_length": LENGTH, "epochs": 1, "discount": 0.9, **changes,
    }  # fmt: skip
    return Trainer(Relay(), LBRDiv(envs_per_mixed_team=1), GenerateSettings(**chosen))


@pytest.fixture(
    scope="module", params=[("shared", "dense", 1.0), ("separate", "dense", 0.0), ("shared", "gru", 0.0)], ids=str
)
def played(request) -> tuple:
    """A rollout over the end of an episode, with weights that tell all teams apart."""
    networks, kind, share = request.param
    trainer = relay_trainer(
        team_networks=networks, network=kind, ego_reward_share=share, normalise_advantages=False,
        normalise_pair_weights=False,
    )  # fmt: skip
    weights = jnp.arange(1.0, 1.0 + K * K).reshape(K, K)
    mixed = -jnp.arange(1.0, 1.0 + 2 * K * K).reshape(2, K, K)

    @jax.jit
    def play(key):
        state = trainer.init(key)
        networks = state.optimised.networks
        steps, _, _ = collect(key, Relay(), trainer.grid, networks, state.playing, length=LENGTH)
        memory = state.critic_memories.critic
        advantage, _, _ = estimate(trainer.grid, networks.critic, steps, memory, trainer.settings)
        return state, steps, advantage, trainer.batch(state, steps, PairWeights(weights, weights, mixed))[0]

    state, *seen = play(jax.random.key(0))
    return trainer, state, *jax.device_get((*seen, weights, mixed))


def test_every_seat_is_played_by_its_member(played) -> None:
    """Log-probabilities by the policies as they are saved."""
    trainer, state, steps, *_ = played
    grid, (rows, columns) = trainer.grid, trainer.population(state)
    act = jax.jit(lambda policy, percept, memory: policy.logits(percept, memory))
    for place in [(0, 0), *((row, grid.row_size - 1 - 2 * row) for row in range(K))]:
        seated = (rows, place[0]), *((columns, member) for member in team_of(grid, *place))
        for seat, (stack, number) in enumerate(seated):
            member = jax.tree.map(lambda x, n=number: x[n], stack)
            for t in range(LENGTH):
                percept = Percept(
                    jnp.asarray(steps.observations[t, *place, seat]), jnp.float32(0), jnp.bool_(t % 4 == 0),
                    jnp.asarray(steps.legal[t, *place, seat, : member.spec.num_outputs]), jnp.int32(seat),
                )  # fmt: skip
                memory = member.initial_memory() if t % 4 == 0 else memory
                logits, memory = act(member, percept, memory)
                wanted = jax.nn.log_softmax(logits)[int(steps.actions[t, *place, seat])]
                np.testing.assert_allclose(steps.log_p[t, *place, seat], wanted, rtol=1e-4, atol=1e-5)


def test_everybody_who_plays_learns_with_the_weight_of_the_team(played) -> None:
    """w A, times cells over columns so that self-play counts as it does without mixed teams; -c for mixed teams."""
    trainer, _, steps, advantage, batch, weights, mixed = played
    grid = trainer.grid
    heads = advantage.reshape(*steps.reward.shape, -1)
    wanted = np.zeros((*steps.reward.shape, 3))
    for place in np.ndindex(K, grid.row_size):
        row, team = place[0], team_of(grid, *place)
        taken = [seat for seat, member in enumerate(team) if member != row]
        is_mixed = place[1] >= grid.whole_size
        weight = mixed[taken[0], row, team[taken[0]]] if is_mixed else weights[row, team[0]]
        wanted[:, *place] = heads[:, *place, :1] * weight * grid.cells_per_row / grid.columns
        if set(team) == {row} and heads.shape[-1] > 1:
            wanted[:, *place, 1:] += heads[:, *place, 1:] - heads[:, *place, :1]
    for member in range(K):
        found = batch.best_responses.weighted_advantage[member]
        np.testing.assert_allclose(found, wanted[:, member, :, 0], rtol=1e-4, atol=1e-4)
        for seat in (1, 2):
            own = [place for place in np.ndindex(K, grid.row_size) if team_of(grid, *place)[seat - 1] == member]
            for part, values in (("weighted_advantage", wanted), ("log_p", steps.log_p), ("actions", steps.actions)):
                found = getattr(batch.teammates, part)[member, ..., seat - 1]
                seen = np.stack([values[:, *place, seat] for place in own], axis=1)
                np.testing.assert_allclose(np.sort(found, axis=1), np.sort(seen, axis=1), rtol=1e-4, atol=1e-4)


def loose(wanted: int) -> list:
    return [[10.0 if first == wanted else 0.0 for _ in range(2)] for first in range(2)]


def strict(wanted: int) -> list:
    return [[9.0 if first == second == wanted else 0.0 for second in range(2)] for first in range(2)]


GAME = MatrixGame(payoffs=tuple(map(tuple, (loose(0), loose(1), strict(0), strict(1)))))
"""Actions 1 and 2 of the ego pay 10 if the first seat of its team plays along, whatever the second does; actions 3 and
4 pay 9 if both do. Whole-team constraints hold, with 20 in all, for actions 1 and 2, and a mixed team in which only the
second seat is another's earns as much. With constraints on mixed teams and a margin of 5 the ego must play action 3 or
4 with a chance of 5/9 or more, and the second seats must play different actions."""


def solve(networks: str = "shared", **changes: Any) -> tuple[Trainer, Any, Any]:
    chosen = {
        "population_size": 2, "total_steps": 24_000, "chunk_steps": 10**9, "envs_per_pair": 4, "margin": 5.0,
        "anneal": True, "team_networks": networks, **changes,
    }  # fmt: skip
    settings, method = resolve_generation("matrix", "lbrdiv", "fast", None, **chosen)
    trainer = Trainer(GAME, method, settings)
    return trainer, *jax.jit(lambda key: trainer.train_chunk(trainer.init(key)))(jax.random.key(0))


def action_probabilities(trainer: Trainer, state: Any) -> list[np.ndarray]:
    """Of the ego and of both seats of the team, [members, actions] each."""

    def of_seat(policies: Any, seat: int) -> np.ndarray:
        percept = Percept(jnp.ones(1), jnp.float32(0), jnp.bool_(True), None, jnp.int32(seat))
        return np.asarray(
            jax.vmap(lambda policy: jax.nn.softmax(policy.logits(percept, policy.initial_memory())[0]))(policies)
        )

    rows, columns = trainer.population(state)
    return [of_seat(rows, 0), of_seat(columns, 1), of_seat(columns, 2)]


def exact_gaps(ego: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Slack of the constraints on mixed teams, [seat, best response, teammate], from the payoffs."""
    returns = np.einsum("ia,jb,kc,abc->ijk", ego, first, second, np.asarray(GAME.payoffs))
    pairs = np.arange(2)
    whole = returns[pairs, pairs, pairs]
    taken = np.stack([returns[pairs, :, pairs], returns[pairs, pairs, :]])
    return whole[None, :, None] - taken - 5.0


def test_whole_teams_alone_leave_a_seat_in_which_nobody_differs() -> None:
    trainer, state, metrics = solve()
    ego, first, second = action_probabilities(trainer, state)
    assert ego[:, 2:].sum(axis=1).max() < 0.25
    assert {*first.argmax(axis=1)} == {0, 1}
    assert metrics.mixed_values is None
    gaps = exact_gaps(ego, first, second)[:, [0, 1], [1, 0]]
    assert gaps[0].min() > 2.0
    assert gaps[1].max() < -3.0, "another's second seat costs next to nothing: the gap is nearly -tau"


@pytest.mark.parametrize("networks", ["shared", pytest.param("separate", marks=pytest.mark.slow)])
def test_constraints_on_mixed_teams_make_every_seat_differ(networks: str) -> None:
    trainer, state, metrics = solve(networks, envs_per_mixed_team=4)
    ego, first, second = action_probabilities(trainer, state)
    assert ego[:, 2:].sum(axis=1).mean() > 0.45
    assert {*first.argmax(axis=1)} == {*second.argmax(axis=1)} == {0, 1}
    assert second.max(axis=1).min() > 0.8
    assert float(np.asarray(state.method.mixed)[0].max()) == 0.0, "the first seat always matters"
    gaps = exact_gaps(ego, first, second)[:, [0, 1], [1, 0]]
    assert gaps[0].min() > 2.0
    assert gaps[1].min() > -2.0, "multipliers and policies may circle around the border"
    assert gaps[1].mean() > -1.0
    np.testing.assert_allclose(metrics.mixed_values[:, [0, 1], [0, 1]], [np.diagonal(metrics.pair_values)] * 2)


def test_mixed_play_seats_the_other_teammate_where_it_says() -> None:
    """Payoffs spell out the joint action; member 1 of each side always plays action 1, member 2 action 2."""
    table = np.arange(8.0).reshape(2, 2, 2)
    game = MatrixGame(payoffs=tuple(tuple(tuple(row) for row in part) for part in table.tolist()))
    trainer = Trainer(game, LBRDiv(), GenerateSettings(population_size=2, total_steps=1, hidden_sizes=(3,)))
    drawn = trainer.population(jax.jit(trainer.init)(jax.random.key(0)))
    zeroed, sure = jax.tree.map(jnp.zeros_like, drawn), jnp.array([[100.0, 0.0], [0.0, 100.0]])
    heads = lambda both: (both[0].network.biases[-1], both[1].network.network.biases[-1])  # noqa: E731
    population = eqx.tree_at(heads, zeroed, (sure, sure))
    for taken, episode in enumerate(play_mixed_teams(jax.random.key(0), game, population, trials=2)):
        for i, k in np.ndindex(2, 2):
            team = [k if seat == taken else i for seat in range(2)]
            np.testing.assert_array_equal(np.ravel(episode.returns[i, k]), table[i, *team])


def test_without_the_option_nothing_is_added() -> None:
    """The grid, what is carried from update to update, and the rows are those of whole teams."""
    settings = GenerateSettings(population_size=2, total_steps=1, hidden_sizes=(3,))
    trainer = Trainer(GAME, LBRDiv(), settings)
    assert type(trainer.grid) is PairGrid
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    assert type(state.method) is Multipliers
    assert state.optimised.networks.critic.teammate_embedding.shape[0] == 2
    _, metrics = jax.eval_shape(trainer.update, state)
    assert metrics.mixed_values is None
    assert metrics.tally.returns.shape == (2, 2)
    mixed = Trainer(GAME, LBRDiv(envs_per_mixed_team=1), settings)
    assert mixed.grid.num_envs == trainer.grid.num_envs + 2 * 2
    assert jax.eval_shape(mixed.init, jax.random.key(0)).optimised.networks.critic.teammate_embedding.shape[0] == 6


def test_games_of_two_players_are_refused_in_one_sentence() -> None:
    settings = GenerateSettings(population_size=2, total_steps=1)
    wanted = r"^envs_per_mixed_team must be 0 in games of two players, where a team has one seat, got 4\.$"
    with pytest.raises(ValueError, match=wanted):
        Trainer(MatrixGame(), LBRDiv(envs_per_mixed_team=4), settings)
    with pytest.raises(ValueError, match=r"^envs_per_mixed_team must be at least 0, got -1\.$"):
        LBRDiv(envs_per_mixed_team=-1)
    with pytest.raises(ValueError, match=r"differ in number, got 1 for 3 and 2\.$"):
        MixedGrid(3, 2, 1, num_seats=2, per_mixed_team=1)
