"""Foraging against the real `lbforaging`, step by step, and against its own description."""

from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.foraging import EAST, LOAD, NORTH, NOWHERE, SOUTH, WEST, Foraging, ForagingState
from coverset.envs.registry import make

PEER_WARNINGS = pytest.mark.filterwarnings("ignore:.*Box.*precision lowered:UserWarning")
LAYOUTS = [
    Foraging(),
    Foraging(size=5, cells=((1, 3), (3, 1)), num_objects=2),
    Foraging(size=8, cells=((1, 1), (1, 4), (3, 6), (4, 3), (6, 1)), num_objects=5, horizon=40),
    Foraging(size=5, objects="random", num_objects=4),
    Foraging(size=8, objects="random", num_objects=4),
]
DELTAS = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)])


def described(environment: Foraging) -> str:
    return f"{environment.size}-{environment.objects}-{environment.num_objects}"


def state_of(positions, cells, present=None, time=0) -> ForagingState:
    present = [True] * len(cells) if present is None else present
    return ForagingState(
        positions=jnp.array(positions, jnp.int32),
        cells=jnp.array(cells, jnp.int32),
        present=jnp.array(present),
        collected_order=jnp.full(len(cells), -1, jnp.int32),
        time=jnp.int32(time),
    )


def peer_of(environment: Foraging):
    """A fresh `lbforaging` environment with the same parameters."""
    from lbforaging.foraging.environment import ForagingEnv

    size = environment.size
    peer = ForagingEnv(
        players=environment.players,
        min_player_level=1,
        max_player_level=1,
        min_food_level=environment.level,
        max_food_level=environment.level,
        field_size=(size, size),
        max_num_food=environment.num_objects,
        sight=size,
        max_episode_steps=environment.horizon,
        force_coop=True,
    )
    peer._make_gym_obs = tuple  # slow, and of no interest here
    return peer


def set_peer(peer, state: ForagingState) -> None:
    """Put the peer into the very state `state`, at the start of an episode."""
    peer.field = np.zeros(peer.field_size, np.int32)
    for (row, column), present in zip(state.cells.tolist(), state.present.tolist(), strict=True):
        if present:
            peer.field[row, column] = peer.max_food_level[0]
    peer._food_spawned = peer.field.sum()
    for player, position in zip(peer.players, state.positions.tolist(), strict=True):
        player.setup(tuple(position), 1, peer.field_size)
        player.reward = 0
    peer.current_step = 0
    peer._game_over = False
    peer._gen_valid_moves()


def crowd(random: np.random.Generator, positions, cells, present, size: int) -> None:
    """Leave few objects, and the players near one and near each other, so that they get into each other's way."""
    present[1:] &= random.random(len(present) - 1) < 0.3
    here = [tuple(cell) for cell in cells[present]]
    free = [np.array(cell) for cell in np.ndindex(size, size) if cell not in here]
    near = [cell for cell in free if np.abs(cell - here[0]).sum() <= 2]
    if len(positions) > 2:
        positions[:] = random.permutation(near)[: len(positions)]
        return
    positions[0] = near[random.integers(len(near))]
    beside = [cell for cell in near if 0 < np.abs(cell - positions[0]).sum() <= 2]
    positions[1] = beside[random.integers(len(beside))]


def lively_actions(key, state: ForagingState):
    """Random moves, but beside an object often loads."""
    move_key, load_key = jax.random.split(key)
    away = jnp.abs(state.positions[:, None] - state.cells[None]).sum(-1)
    beside = jnp.any((away == 1) & state.present[None], axis=-1)
    loads = beside & jax.random.bernoulli(load_key, 0.5 if len(beside) == 2 else 0.8, beside.shape)
    return jnp.where(loads, LOAD, jax.random.randint(move_key, beside.shape, 0, 6))


def play(environment: Foraging, key, state: ForagingState):
    """A whole episode of lively actions, and what was before and after each; steps after its end are to be ignored."""

    def body(state, key):
        actions = lively_actions(key, state)
        outcome = environment.step(key, state, actions)
        return outcome.state, (state, actions, outcome)

    return jax.lax.scan(body, state, jax.random.split(key, environment.horizon))[1]


def episodes(environment: Foraging, number: int) -> list:
    """Lists of (state, actions, outcome) in numpy, one list per episode; every second one starts crowded."""
    random, keys = np.random.default_rng(0), jax.random.split(jax.random.key(0), number)
    starts = jax.tree.map(np.array, jax.jit(jax.vmap(environment.reset))(keys))
    for episode in range(1, number, 2):
        crowd(random, starts.positions[episode], starts.cells[episode], starts.present[episode], environment.size)
    played = jax.jit(jax.vmap(partial(play, environment)))(keys, starts)
    leaves, tree = jax.tree.flatten(jax.tree.map(np.asarray, played))
    return [
        [jax.tree.unflatten(tree, [leaf[episode, step] for leaf in leaves]) for step in range(environment.horizon)]
        for episode in range(number)
    ]


def kinds_of(before: ForagingState, actions: np.ndarray, after: ForagingState) -> list[str]:
    """What this step shows about the rules; told without the code under test."""
    start, end = np.asarray(before.positions), np.asarray(after.positions)
    cells, present = np.asarray(before.cells), np.asarray(before.present)
    away = np.abs(start[:, None] - cells).sum(-1)
    beside = (away == 1) & present
    wanted, moves = start + DELTAS[actions], (actions >= NORTH) & (actions <= EAST)
    size_off = (wanted < 0).any(-1) & moves
    into_object = ((wanted[:, None] == cells).all(-1) & present).any(-1) & moves
    loading = (actions == LOAD) & beside.any(-1)
    same = (wanted[0] == wanted[1]).all()
    kinds = {
        "off the grid": size_off.any(),
        "into an object": into_object.any(),
        "both into one cell": moves.all() and same and not into_object.any(),
        "into a standing partner": moves.sum() == 1 and same,
        "swap": moves.all() and (wanted == start[::-1]).all(),
        "follow": moves.all() and (wanted[0] == start[1]).all() != (wanted[1] == start[0]).all(),
        "load together": (loading.all() and (beside[0] & beside[1]).any()),
        "load alone": loading.sum() == 1,
        "load different objects": loading.all() and not (beside[0] & beside[1]).any(),
        "load nothing": ((actions == LOAD) & ~beside.any(-1)).any(),
        "moved": (start != end).any(),
    }
    return [kind for kind, happened in kinds.items() if happened]


def same_step(peer, peer_step, outcome) -> None:
    """Assert that the peer stepped to the same place, and said so with the same rewards and end."""
    state = outcome.state
    _, rewards, done, _, _ = peer_step
    field = np.zeros_like(peer.field)
    for (row, column), present in zip(state.cells.tolist(), state.present.tolist(), strict=True):
        if present:
            field[row, column] = peer.max_food_level[0]
    np.testing.assert_array_equal(peer.field, field)
    assert [tuple(int(x) for x in player.position) for player in peer.players] == [
        tuple(position) for position in state.positions.tolist()
    ]
    assert float(outcome.reward) == pytest.approx(sum(rewards))
    assert len(rewards) > 2 or rewards[0] == rewards[1]
    assert bool(outcome.terminated | outcome.truncated) == done
    assert bool(outcome.terminated) == (peer.field.sum() == 0)


KINDS = (
    "off the grid",
    "into an object",
    "both into one cell",
    "into a standing partner",
    "swap",
    "follow",
    "load together",
    "load alone",
    "load nothing",
    "moved",
)


@PEER_WARNINGS
@pytest.mark.parametrize("environment", LAYOUTS, ids=described)
def test_steps_are_those_of_lbforaging(environment: Foraging) -> None:
    peer, seen, ends, steps = peer_of(environment), Counter(), Counter(), 0
    for episode in episodes(environment, 60):
        set_peer(peer, episode[0][0])
        for state, actions, outcome in episode:
            same_step(peer, peer.step(actions.tolist()), outcome)
            seen.update(kinds_of(state, actions, outcome.state))
            steps += 1
            if outcome.terminated or outcome.truncated:
                ends["terminated" if outcome.terminated else "truncated"] += 1
                break
    assert steps > 1000
    assert all(seen[kind] >= 2 for kind in KINDS), seen
    assert ends["truncated"] > 0, ends
    assert ends["terminated"] > 0, ends


TEAMS = [  # short episodes, because crowds disperse
    Foraging(players=3, horizon=10),
    Foraging(players=4, horizon=10),
    Foraging(players=3, needed=2, horizon=10),
    Foraging(players=4, needed=2, size=7, objects="random", num_objects=5, horizon=20),
    Foraging(players=4, needed=3, size=5, objects="random", horizon=10),
    Foraging(players=4, needed=1, horizon=10),
    Foraging(players=6, size=8, objects="random", num_objects=4, horizon=10),
]


def team_kinds(before: ForagingState, actions: np.ndarray, after: ForagingState, level: int) -> list[str]:
    """What a step of three or more shows about the rules; told without the code under test."""
    start, end = np.asarray(before.positions), np.asarray(after.positions)
    present = np.asarray(before.present)
    beside = (np.abs(start[:, None] - np.asarray(before.cells)).sum(-1) == 1) & present
    loaders = (beside & (actions == LOAD)[:, None]).sum(axis=0)
    wanted, moves = start + DELTAS[actions], (actions >= NORTH) & (actions <= EAST)
    entering = Counter(tuple(cell) for cell in wanted[moves].tolist())
    shared_before, shared = (len(np.unique(cells, axis=0)) < len(cells) for cells in (start, end))
    pairs = [(one, other) for one in range(len(start)) for other in range(one) if moves[one] and moves[other]]
    kinds = {
        "two into one cell": 2 in entering.values(),
        "three into one cell": 3 in entering.values(),
        "swap": any((wanted[a] == start[b]).all() and (wanted[b] == start[a]).all() for a, b in pairs),
        "into a cell whose player failed to leave": shared and not shared_before,
        "leave a shared cell": shared_before and not shared,
        "loaded by just enough": (loaders == level).any(),
        "loaded by more": (loaders > level).any(),
        "too few": ((loaders > 0) & (loaders < level)).any(),
        "two objects at once": (loaders >= level).sum() > 1,
    }
    return [kind for kind, happened in kinds.items() if happened]


def shares_of(before: ForagingState, actions: np.ndarray, outcome, spawned: int) -> np.ndarray:
    """What `lbforaging` pays each player: an equal share, by its level, of 1 / objects for what it has loaded."""
    beside = np.abs(np.asarray(before.positions)[:, None] - np.asarray(before.cells)).sum(-1) == 1
    loading = beside & (actions == LOAD)[:, None] & (np.asarray(before.present) & ~np.asarray(outcome.state.present))
    return (loading / np.maximum(loading.sum(axis=0), 1)).sum(axis=1) / spawned


@PEER_WARNINGS
@pytest.mark.parametrize("environment", TEAMS, ids=lambda e: f"{e.players}-{e.level}-{e.size}-{e.objects}")
def test_steps_of_teams_are_those_of_lbforaging(environment: Foraging) -> None:
    """Positions, objects, rewards and ends of whole random episodes; and that these show what is special in a team."""
    peer, seen, steps = peer_of(environment), Counter(), 0
    for episode in episodes(environment, 300):
        set_peer(peer, episode[0][0])
        spawned = int(episode[0][0].present.sum())
        for state, actions, outcome in episode:
            answer = peer.step(actions.tolist())
            same_step(peer, answer, outcome)
            np.testing.assert_allclose(answer[1], shares_of(state, actions, outcome, spawned), atol=1e-12)
            seen.update(team_kinds(state, actions, outcome.state, environment.level))
            steps += 1
            if outcome.terminated or outcome.truncated:
                break
    assert steps > 1500
    expected = {"two into one cell", "swap", "into a cell whose player failed to leave", "loaded by just enough"}
    expected |= {"too few"} if environment.level > 1 else set()
    expected |= {"loaded by more"} if environment.level < min(environment.players, 4) else set()
    expected |= {"two objects at once"} if 2 * environment.level <= environment.players else set()
    assert expected <= seen.keys(), seen


@PEER_WARNINGS
@pytest.mark.parametrize(
    ("positions", "actions", "expected"),
    [
        ([(2, 2), (3, 1), (2, 0)], [WEST, NORTH, EAST], [(2, 2), (3, 1), (2, 0)]),  # three into one cell
        ([(2, 2), (2, 3), (2, 5)], [EAST, EAST, WEST], [(2, 3), (2, 3), (2, 5)]),  # into that of one who cannot leave
        ([(2, 3), (2, 3), (2, 5)], [0, 0, WEST], [(2, 3), (2, 3), (2, 4)]),  # a shared cell keeps both
        ([(2, 3), (2, 3), (2, 5)], [WEST, 0, 0], [(2, 2), (2, 3), (2, 5)]),  # and each may leave
        ([(2, 3), (2, 3), (2, 5)], [WEST, WEST, 0], [(2, 3), (2, 3), (2, 5)]),  # but not to one place
        ([(2, 2), (2, 3), (2, 4)], [EAST, EAST, EAST], [(2, 3), (2, 4), (2, 5)]),  # in a row
        ([(2, 2), (2, 3), (2, 4)], [EAST, EAST, 0], [(2, 3), (2, 3), (2, 4)]),  # the second stays, the first does not
    ],
)
def test_moves_of_three_one_by_one_agree_with_lbforaging(positions, actions, expected) -> None:
    environment = Foraging(players=3)
    state, peer = state_of(positions, environment.cells), peer_of(environment)
    set_peer(peer, state)
    outcome = environment.step(jax.random.key(0), state, jnp.array(actions))
    assert outcome.state.positions.tolist() == [list(cell) for cell in expected]
    same_step(peer, peer.step(actions), outcome)


def test_an_object_needs_as_many_players_as_it_says() -> None:
    """Sides of the object at (1, 1), in turn: who loads, and what is collected then."""
    sides = [(0, 1), (1, 0), (1, 2), (2, 1)]
    for players, needed, level in ((3, None, 3), (4, None, 4), (4, 2, 2), (5, None, 4), (3, 1, 1)):
        environment = Foraging(players=players, needed=needed)
        assert environment.level == level
        state = state_of([*sides, (5, 5)][:players], environment.cells)
        for loaders in range(players + 1):
            actions = jnp.array([LOAD] * loaders + [0] * (players - loaders))
            outcome = environment.step(jax.random.key(0), state, actions)
            assert outcome.state.present.tolist() == [loaders < level, True, True]
            assert float(outcome.reward) == pytest.approx((loaders >= level) / 3)


def test_two_objects_in_one_step_pay_twice() -> None:
    environment = Foraging(players=3, needed=1)
    state = state_of([(0, 1), (0, 4), (5, 5)], environment.cells)
    outcome = environment.step(jax.random.key(0), state, jnp.array([LOAD, LOAD, 0]))
    assert float(outcome.reward) == pytest.approx(2 / 3)
    assert outcome.state.collected_order.tolist() == [0, 0, -1]
    last = environment.step(
        jax.random.key(0),
        outcome.state._replace(positions=state.positions.at[2].set(jnp.array([5, 3]))),
        jnp.array([0, 0, LOAD]),
    )
    assert last.state.collected_order.tolist() == [0, 0, 2]
    assert bool(last.terminated)


def test_orders_are_conventions_only_where_all_players_are_needed() -> None:
    assert Foraging(players=3).conventions == Foraging().conventions
    assert Foraging(players=4).convention_payoffs == Foraging().convention_payoffs
    assert Foraging(players=3, needed=2).conventions == ()
    assert Foraging(players=5).conventions == ()


def test_a_player_is_shown_only_what_it_observes() -> None:
    blind, seeing = Foraging(players=3), Foraging(players=3, sees_teammate=True)
    state = state_of([(0, 0), (2, 5), (2, 5)], blind.cells, [True, False, True])
    rows = ("X . . . . .", ". 1 . . . .", ". . . . . *", ". . . . . .", ". . . 3 . .", ". . . . . .")
    assert blind.render(state) == seeing.render(state, 0) == "\n".join(rows)
    assert blind.render(state, 0) == "\n".join(rows).replace("*", ".")
    assert blind.render(state, 2) == "\n".join(rows).replace("X", ".").replace("*", "P")
    assert blind.scene(state, 1).positions == (None, (2, 5), None)
    assert blind.scene(state).positions == seeing.scene(state, 1).positions == ((0, 0), (2, 5), (2, 5))
    assert blind.scene(state, 1).objects == blind.scene(state).objects
    assert "when all 3 players stand" in blind.board().rules
    assert "when 2 of the 3 players stand" in Foraging(players=3, needed=2).board().rules


@PEER_WARNINGS
def test_players_of_a_team_spawn_as_in_lbforaging() -> None:
    """How often each cell holds each of four players, or an object, within 5 standard errors."""
    environment, trials = Foraging(players=4, size=5, objects="random", num_objects=2), 1500
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(1), 4 * trials))
    numbers = np.asarray(states.positions @ jnp.array([5, 1]))
    objects = np.asarray(states.cells @ jnp.array([5, 1]))[np.asarray(states.present)]
    ours = np.stack([np.bincount(column, minlength=25) for column in (*numbers.T, objects)]) / (4 * trials)
    theirs, peer = np.zeros((5, 25)), peer_of(environment)
    peer.seed(0)
    for _ in range(trials):
        for player in peer.players:  # a reused environment still sees its old players
            player.position = None
        peer.reset()
        theirs[4] += (peer.field > 0).reshape(-1)
        for seat, player in enumerate(peer.players):
            theirs[seat, player.position[0] * 5 + player.position[1]] += 1
    error = np.sqrt(np.maximum(ours * (1 - ours), 1e-4) / trials * 1.25)
    np.testing.assert_array_less(np.abs(theirs / trials - ours), 5 * error)


def test_starts_of_three_are_distinct_uniform_and_listed() -> None:
    environment = Foraging(size=3, cells=((1, 1),), num_objects=1, players=3)
    listed, chances = environment.initial_states()
    codes = np.asarray(listed.positions @ jnp.array([3, 1])) @ np.array([81, 9, 1])
    assert len(set(codes.tolist())) == len(chances) == 8 * 7 * 6
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), 33_600))
    counts = Counter((np.asarray(states.positions @ jnp.array([3, 1])) @ np.array([81, 9, 1])).tolist())
    assert set(counts) == set(codes.tolist())
    assert max(abs(count - 100) for count in counts.values()) < 5 * np.sqrt(100)
    assert Foraging(players=4).initial_states() is None


@PEER_WARNINGS
def test_an_ended_game_and_two_loads_apart_agree_with_lbforaging() -> None:
    """What random play seldom shows: players at different objects both load, and everything gets collected."""
    environment, actions = Foraging(), jnp.array([LOAD, LOAD])
    state = state_of([(0, 1), (1, 3)], environment.cells)
    peer = peer_of(environment)
    set_peer(peer, state)
    outcome = environment.step(jax.random.key(0), state, actions)
    same_step(peer, peer.step([LOAD, LOAD]), outcome)
    assert outcome.state.present.all()
    last = state_of([(4, 2), (5, 3)], environment.cells, [False, False, True])._replace(
        collected_order=jnp.array([1, 0, -1])
    )
    outcome = environment.step(jax.random.key(0), last, actions)
    assert bool(outcome.terminated)
    assert float(outcome.reward) == pytest.approx(1 / 3)
    assert environment.conventions[int(environment.convention(outcome.state, 0))] == "order 2-1-3"


@PEER_WARNINGS
def test_random_spawning_has_the_distribution_of_lbforaging() -> None:
    """How often each cell holds an object or a player, and how many objects find room, within 5 standard errors."""
    environment, trials = Foraging(size=6, objects="random", num_objects=3), 1500
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(1), 4 * trials))
    ours = np.zeros((4, 36))  # objects, seat 0, seat 1, number of objects
    numbers = np.asarray(states.cells @ jnp.array([6, 1]))[np.asarray(states.present)]
    ours[0] = np.bincount(numbers, minlength=36) / (4 * trials)
    for seat in range(2):
        ours[1 + seat] = np.bincount(np.asarray(states.positions[:, seat] @ jnp.array([6, 1])), minlength=36)
        ours[1 + seat] /= 4 * trials
    ours[3] = np.bincount(np.asarray(states.present.sum(-1)), minlength=36) / (4 * trials)
    theirs, peer = np.zeros((4, 36)), peer_of(environment)
    peer.seed(0)
    for _ in range(trials):
        for player in peer.players:  # a reused environment still sees its old players
            player.position = None
        peer.reset()
        theirs[0] += (peer.field > 0).reshape(-1)
        for seat, player in enumerate(peer.players):
            theirs[1 + seat, player.position[0] * 6 + player.position[1]] += 1
        theirs[3, (peer.field > 0).sum()] += 1
    error = np.sqrt(np.maximum(ours * (1 - ours), 1e-4) / trials * 1.25)
    np.testing.assert_array_less(np.abs(theirs / trials - ours), 5 * error)
    assert 0.005 < ours[3, 2] < 0.03  # sometimes there is no room for the third


@pytest.mark.parametrize("environment", LAYOUTS, ids=described)
def test_reset_places_everything_apart(environment: Foraging) -> None:
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(3), 2000))
    positions, cells, present = (np.asarray(x) for x in (states.positions, states.cells, states.present))
    assert (positions[:, 0] != positions[:, 1]).any(-1).all()
    assert not ((positions[:, :, None] == cells[:, None]).all(-1) & present[:, None]).any()
    assert len(np.unique(positions.reshape(-1, 2), axis=0)) == environment.size**2 - (
        environment.num_objects if environment.objects == "fixed" else 0
    )
    numbers = np.where(present, cells[..., 0] * environment.size + cells[..., 1], environment.size**2)
    assert (np.diff(numbers, axis=-1) >= 0).all()
    assert (cells[~present] == NOWHERE).all()
    apart = np.abs(cells[:, :, None] - cells[:, None])
    both = present[:, :, None] & present[:, None] & ~np.eye(environment.num_objects, dtype=bool)
    assert (np.square(apart).sum(-1)[both] > 4).all()


def test_fixed_starts_are_uniform_over_pairs_of_free_cells() -> None:
    environment = Foraging(size=3, cells=((1, 1),), num_objects=1)
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), 28_000))
    pairs = np.asarray(states.positions @ jnp.array([3, 1]))
    counts = Counter(map(tuple, pairs.tolist()))
    assert len(counts) == 8 * 7
    assert max(abs(count - 500) for count in counts.values()) < 5 * np.sqrt(500)


@pytest.mark.parametrize(
    ("encoding", "objects", "sees_teammate", "players"),
    [
        ("one-hot", "fixed", True, 2),
        ("one-hot", "random", False, 2),
        ("coordinates", "fixed", False, 2),
        ("coordinates", "random", True, 2),
        ("one-hot", "fixed", True, 3),
        ("coordinates", "random", True, 4),
    ],
)
def test_view_reads_back_what_observe_wrote(encoding: str, objects: str, sees_teammate: bool, players: int) -> None:
    environment = Foraging(encoding=encoding, objects=objects, sees_teammate=sees_teammate, players=players)

    def check(key):
        reset_key, present_key = jax.random.split(key)
        state = environment.reset(reset_key)
        state = state._replace(present=state.present & jax.random.bernoulli(present_key, 0.6, (3,)))
        observations = environment.observe(state)
        return state, observations, jax.vmap(environment.view)(observations)

    state, observations, view = jax.jit(jax.vmap(check))(jax.random.split(jax.random.key(0), 300))
    assert observations.shape[1:] == (players, environment.observation_size)
    np.testing.assert_array_equal(view.position, state.positions)
    for seat in range(players):
        np.testing.assert_array_equal(view.present[:, seat], state.present)
        shown = jnp.where(state.present[..., None], state.cells, NOWHERE)
        np.testing.assert_array_equal(view.cells[:, seat], shown)


def test_observation_layout() -> None:
    state = state_of([(0, 0), (5, 5)], [(1, 1), (1, 4), (4, 3)], [True, False, True])
    own, partner = np.eye(36)[0], np.eye(36)[35]
    observe = lambda environment: np.asarray(environment.observe(state)[0])  # noqa: E731
    np.testing.assert_array_equal(observe(Foraging()), [*own, 1, 0, 1])
    np.testing.assert_array_equal(observe(Foraging(sees_teammate=True)), [*own, *partner, 1, 0, 1])
    slots = [*np.eye(36)[7], *np.zeros(36), *np.eye(36)[27]]
    np.testing.assert_array_equal(observe(Foraging(objects="random")), [*own, *slots])
    expected = [-1, -1, 1, 1, -0.6, -0.6, 1, 0, 0, 0, 0.6, 0.2, 1]
    np.testing.assert_allclose(observe(Foraging(encoding="coordinates", sees_teammate=True)), expected, atol=1e-6)
    three = state_of([(0, 0), (5, 5), (0, 5)], [(1, 1)])
    seen = Foraging(players=3, cells=((1, 1),), num_objects=1, encoding="coordinates", sees_teammate=True).observe(
        three
    )
    np.testing.assert_allclose(seen[1, :6], [1, 1, -1, 1, -1, -1])  # its own cell, then the next seats'


def test_conventions_are_the_orders_of_collection() -> None:
    environment = Foraging()
    names = [f"order {order}" for order in ("1-2-3", "1-3-2", "2-1-3", "2-3-1", "3-1-2", "3-2-1")]
    assert list(environment.conventions) == names
    state = environment.reset(jax.random.key(0))
    assert int(environment.convention(state, 0)) == 6
    followed = environment.convention(state._replace(collected_order=jnp.array([1, 2, 0])), 1)
    assert environment.conventions[int(followed)] == "order 3-1-2"
    unfinished = environment.convention(state._replace(collected_order=jnp.array([0, 1, -1])), 1)
    assert int(unfinished) == 6
    assert environment.convention_payoffs[0] == (1.0, 1 / 3, 0.0, 0.0, 0.0, 0.0)
    assert Foraging(objects="random").conventions == ()
    assert int(Foraging(objects="random").convention(state, 0)) == 0


def test_time_runs_out_as_a_truncation() -> None:
    environment = Foraging(horizon=3)
    state = environment.reset(jax.random.key(0))._replace(time=jnp.int32(2))
    outcome = environment.step(jax.random.key(0), state, jnp.array([NORTH, SOUTH]))
    assert bool(outcome.truncated)
    assert not bool(outcome.terminated)
    last = state_of([(0, 1), (1, 0)], environment.cells, [True, False, False], time=2)
    outcome = environment.step(jax.random.key(0), last, jnp.array([LOAD, LOAD]))
    assert bool(outcome.terminated)
    assert not bool(outcome.truncated)


def test_fewer_objects_share_the_whole_reward() -> None:
    """As in lbforaging, whose rewards are normalised by what was spawned."""
    environment = Foraging(objects="random")
    state = state_of([(0, 1), (1, 0)], [(1, 1), (4, 4), (NOWHERE, NOWHERE)], [True, True, False])
    outcome = environment.step(jax.random.key(0), state, jnp.array([LOAD, LOAD]))
    assert float(outcome.reward) == pytest.approx(0.5)


def test_render_shows_ids_and_players() -> None:
    environment = Foraging()
    state = state_of([(0, 0), (2, 5)], environment.cells, [True, False, True])
    rows = ("X . . . . .", ". 1 . . . .", ". . . . . O", ". . . . . .", ". . . 3 . .", ". . . . . .")
    assert environment.render(state) == "\n".join(rows)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"size": 5}, r"off the border, in 1\.\.3 for size 5, got \(1, 4\)"),
        ({"cells": ((1, 1), (2, 2), (4, 4))}, r"must not touch.*got \(1, 1\) and \(2, 2\)"),
        ({"cells": ((1, 1), (3, 1), (4, 4))}, r"common neighbour, got \(1, 1\) and \(3, 1\)"),
        ({"cells": ((1, 1),)}, "num_objects must be the number of cells.* 1, got 3"),
        ({"objects": "few"}, "objects must be one of fixed, random"),
        ({"encoding": "pixels"}, "encoding must be one of"),
        ({"objects": "random", "size": 3}, "size must be at least 4"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"players": 1}, "players must lie between 2 and 33, got 1"),
        ({"players": 4, "size": 4, "objects": "random"}, "players must lie between 2 and 3, got 4"),
        ({"players": 3, "needed": 4}, "needed must lie between 1 and 3, got 4"),
        ({"players": 6, "needed": 5}, "needed must lie between 1 and 4, got 5"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Foraging(**parameters)


def test_cells_are_sorted_and_equal_however_they_are_written() -> None:
    assert make("foraging", cells=((4, 3), (1, 4), (1, 1))) == Foraging()
    assert hash(make("foraging", cells=((4, 3), (1, 4), (1, 1)))) == hash(Foraging())


def test_moves_one_by_one() -> None:
    environment = Foraging()
    state = state_of([(2, 2), (2, 3)], environment.cells)

    def after(*actions):
        return environment.step(jax.random.key(0), state, jnp.array(actions)).state.positions.tolist()

    assert after(EAST, WEST) == [[2, 3], [2, 2]]
    assert after(EAST, 0) == [[2, 2], [2, 3]]
    assert after(EAST, LOAD) == [[2, 2], [2, 3]]
    assert after(EAST, EAST) == [[2, 3], [2, 4]]
    assert after(NORTH, SOUTH) == [[1, 2], [3, 3]]
