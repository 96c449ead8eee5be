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
        players=2,
        min_player_level=1,
        max_player_level=1,
        min_food_level=2,
        max_food_level=2,
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
            peer.field[row, column] = 2
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
    positions[0] = near[random.integers(len(near))]
    beside = [cell for cell in near if 0 < np.abs(cell - positions[0]).sum() <= 2]
    positions[1] = beside[random.integers(len(beside))]


def lively_actions(key, state: ForagingState):
    """Random moves, but beside an object often loads."""
    move_key, load_key = jax.random.split(key)
    away = jnp.abs(state.positions[:, None] - state.cells[None]).sum(-1)
    beside = jnp.any((away == 1) & state.present[None], axis=-1)
    loads = beside & jax.random.bernoulli(load_key, 0.5, (2,))
    return jnp.where(loads, LOAD, jax.random.randint(move_key, (2,), 0, 6))


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
            field[row, column] = 2
    np.testing.assert_array_equal(peer.field, field)
    assert [tuple(int(x) for x in player.position) for player in peer.players] == [
        tuple(position) for position in state.positions.tolist()
    ]
    assert float(outcome.reward) == pytest.approx(sum(rewards))
    assert rewards[0] == rewards[1]
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
    ("encoding", "objects", "sees_teammate"),
    [
        ("one-hot", "fixed", True),
        ("one-hot", "random", False),
        ("coordinates", "fixed", False),
        ("coordinates", "random", True),
    ],
)
def test_view_reads_back_what_observe_wrote(encoding: str, objects: str, sees_teammate: bool) -> None:
    environment = Foraging(encoding=encoding, objects=objects, sees_teammate=sees_teammate)

    def check(key):
        reset_key, present_key = jax.random.split(key)
        state = environment.reset(reset_key)
        state = state._replace(present=state.present & jax.random.bernoulli(present_key, 0.6, (3,)))
        observations = environment.observe(state)
        return state, observations, jax.vmap(environment.view)(observations)

    state, observations, view = jax.jit(jax.vmap(check))(jax.random.split(jax.random.key(0), 300))
    assert observations.shape[1:] == (2, environment.observation_size)
    np.testing.assert_array_equal(view.position, state.positions)
    for seat in range(2):
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
