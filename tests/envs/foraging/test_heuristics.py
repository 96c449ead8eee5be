"""Heuristics of Level-based Foraging: targets, ties, ways, and what they earn with each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.extensions import heuristics
from coverset.envs.foraging import LOAD, NOWHERE, Foraging, ForagingState
from coverset.types import Percept
from heuristic_play import Played, draw, play, stacked_heuristics


def observed(environment: Foraging, position, cells, present) -> Percept:
    state = ForagingState(
        positions=jnp.array([position, (0, 0)], jnp.int32),
        cells=jnp.array(cells, jnp.int32),
        present=jnp.array(present),
        collected_order=jnp.full(len(cells), -1, jnp.int32),
        time=jnp.int32(0),
    )
    return Percept(environment.observe(state)[0], jnp.float32(0), jnp.array(True))


@pytest.mark.parametrize(
    ("position", "present", "targets"),
    [
        ((0, 0), (True, True, True), [0, 2, 0, 0, 1, 1, 2, 2]),
        ((5, 5), (True, True, True), [2, 0, 0, 0, 1, 1, 2, 2]),
        ((2, 5), (True, True, True), [1, 0, 0, 0, 1, 1, 2, 2]),
        ((2, 2), (True, True, True), [0, 1, 0, 0, 1, 1, 2, 2]),  # distances 2, 3, 3
        ((2, 3), (True, True, True), [1, 0, 0, 0, 1, 1, 2, 2]),  # distances 3, 2, 2
        ((5, 5), (True, True, False), [1, 0, 0, 0, 1, 1, 0, 1]),
        ((0, 0), (False, True, True), [1, 2, 1, 2, 1, 1, 2, 2]),
    ],
)
def test_foraging_targets_and_ties(position, present, targets) -> None:
    environment = Foraging()
    percept = observed(environment, position, environment.cells, present)
    _, memory = draw(stacked_heuristics(environment), percept, 1)
    assert memory.target[:, 0].tolist() == targets


def test_foraging_loads_beside_its_target_only_and_rests_when_all_is_done() -> None:
    environment = Foraging()
    policies, cells = stacked_heuristics(environment), environment.cells
    actions, _ = draw(policies, observed(environment, (0, 1), cells, (True,) * 3), 1)
    assert [action == LOAD for action in actions[:, 0].tolist()] == [True, False, True, True] + [False] * 4
    actions, _ = draw(
        stacked_heuristics(environment), observed(environment, (0, 1), environment.cells, (False,) * 3), 1
    )
    assert actions[:, 0].tolist() == [0] * 8


@pytest.mark.parametrize("name", ["H1", "H2"])
def test_foraging_keeps_its_target_until_it_is_collected(name: str) -> None:
    """Beside another object and further from its own, it still walks on; once that is gone, it chooses afresh."""
    environment, policy = Foraging(), heuristics(Foraging())[name]
    act = eqx.filter_jit(policy.act)
    _, memory = act(jax.random.key(0), observed(environment, (2, 5), environment.cells, (True,) * 3), NO_MEMORY)
    target = int(memory.target)
    later = observed(environment, (4, 2), environment.cells, (True,) * 3)._replace(first=jnp.array(False))
    _, memory = act(jax.random.key(0), later, memory)
    assert int(memory.target) == target
    present = tuple(number != target for number in range(3))
    gone = observed(environment, (4, 2), environment.cells, present)._replace(first=jnp.array(False))
    assert int(act(jax.random.key(0), gone, memory)[1].target) == {"H1": 2, "H2": 1}[name]


NO_MEMORY = heuristics(Foraging())["H1"].initial_memory()


def test_foraging_goes_around_a_cell_into_which_a_move_failed_half_of_the_time() -> None:
    environment, policy = Foraging(), heuristics(Foraging())["H3"]
    here = observed(environment, (1, 3), environment.cells, (True,) * 3)
    action, memory = eqx.filter_jit(policy.act)(jax.random.key(0), here, NO_MEMORY)
    assert int(action) == 3  # west, to (1, 2)
    again = here._replace(first=jnp.array(False))
    keys = jax.random.split(jax.random.key(0), 1000)
    actions, memories = jax.jit(jax.vmap(policy.act, (0, None, None)))(keys, again, memory)
    around = np.asarray(memories.blocked == jnp.array([[1, 2]])).all(-1)
    assert abs(around.mean() - 0.5) < 0.08
    assert set(np.asarray(actions)[around].tolist()) == {1}  # north
    assert set(np.asarray(actions)[~around].tolist()) == {3}
    assert (np.asarray(memories.blocked)[~around] == NOWHERE).all()


def cross_play(environment: Foraging, policies, number: int) -> Played:
    """Every stacked policy with every other from the same starts, [policies, policies, number]."""
    keys = jax.random.split(jax.random.key(5), number)
    starts = jax.vmap(environment.reset)(keys)

    def pair(first, second):
        return jax.vmap(lambda start, key: play(environment, start, key, (first, second)))(starts, keys)

    over_second = jax.vmap(pair, (None, 0))
    return jax.jit(jax.vmap(over_second, (0, None)))(policies, policies)


def test_foraging_orders_earn_what_the_conventions_say() -> None:
    """From every start, orders finish with themselves, and with others collect what both begin with."""
    environment = Foraging()
    orders = jax.tree.map(lambda leaf: leaf[2:], stacked_heuristics(environment))
    played = cross_play(environment, orders, 50)
    expected = np.asarray(environment.convention_payoffs)[:, :, None]
    np.testing.assert_allclose(played.total, np.broadcast_to(expected, played.total.shape), atol=1e-5)
    convention = jax.vmap(jax.vmap(jax.vmap(lambda state: environment.convention(state, 0))))
    followed = jax.jit(convention)(played.final)
    np.testing.assert_array_equal(np.diagonal(followed), np.tile(np.arange(6), (50, 1)))


@pytest.mark.parametrize(
    "environment",
    [
        Foraging(),
        Foraging(objects="random", encoding="coordinates", sees_teammate=True),
        Foraging(size=5, objects="random", num_objects=2),
        Foraging(size=3, cells=((1, 1),), num_objects=1),
        Foraging(size=8, objects="random", num_objects=4, horizon=80, encoding="coordinates"),
    ],
    ids=["fixed", "random", "two objects", "one object", "four objects"],
)
def test_two_of_one_order_always_finish(environment: Foraging) -> None:
    policies = stacked_heuristics(environment)
    chosen = jax.tree.map(lambda leaf: leaf[2:8], policies)

    def finished(policy, key):
        return play(environment, environment.reset(key), key, (policy, policy)).total

    keys = jax.random.split(jax.random.key(7), 300)
    totals = jax.jit(jax.vmap(jax.vmap(finished, (None, 0)), (0, None)))(chosen, keys)
    np.testing.assert_allclose(totals, 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "environment",
    [
        Foraging(players=3, horizon=150),
        Foraging(players=4, horizon=300),
        Foraging(players=3, needed=2, horizon=50),
        Foraging(players=3, size=8, objects="random", num_objects=4, horizon=300, encoding="coordinates"),
    ],
    ids=["three", "four", "two of three", "three, random"],
)
def test_a_team_of_one_order_always_finishes(environment: Foraging) -> None:
    """Each finds a side of the object at which no teammate stands."""
    chosen = jax.tree.map(lambda leaf: leaf[jnp.array([2, 7])], stacked_heuristics(environment))

    def finished(policy, key):
        return play(environment, environment.reset(key), key, (policy,) * environment.players).total

    keys = jax.random.split(jax.random.key(7), 150)
    totals = jax.jit(jax.vmap(jax.vmap(finished, (None, 0)), (0, None)))(chosen, keys)
    np.testing.assert_allclose(totals, 1.0, atol=1e-5)


def test_orders_of_a_team_earn_what_the_conventions_say() -> None:
    """Seat 0 with one order, both teammates with another: they collect what both orders begin with."""
    environment = Foraging(players=3, horizon=150)
    orders = jax.tree.map(lambda leaf: leaf[2:], stacked_heuristics(environment))

    def total(ego, team, key):
        return play(environment, environment.reset(key), key, (ego, team, team)).total

    over_keys = jax.vmap(total, (None, None, 0))
    over_teams = jax.vmap(over_keys, (None, 0, None))
    totals = jax.jit(jax.vmap(over_teams, (0, None, None)))(orders, orders, jax.random.split(jax.random.key(2), 8))
    expected = np.asarray(environment.convention_payoffs)[:, :, None]
    np.testing.assert_allclose(totals, np.broadcast_to(expected, totals.shape), atol=1e-5)


def test_a_collector_remembers_a_blocked_cell_for_each_partner() -> None:
    """Two sides are taken: it walks around both, where one remembered cell would lead it back to the first."""
    environment = Foraging(players=3)
    policy = heuristics(environment)["H3"]
    state = ForagingState(
        positions=jnp.array([(0, 0), (0, 1), (1, 0)], jnp.int32),
        cells=jnp.array(environment.cells, jnp.int32),
        present=jnp.ones(3, bool),
        collected_order=jnp.full(3, -1, jnp.int32),
        time=jnp.int32(0),
    )
    view = environment.view(
        environment.observe(state._replace(positions=state.positions.at[0].set(jnp.array([0, 2]))))[0]
    )
    taken = jnp.array([(1, 2), (0, 1)], jnp.int32)
    assert policy.initial_memory().blocked.shape == (2, 2)
    assert int(policy._approach(view, jnp.int32(0), taken)) == 4  # east, around (1, 2)
    assert int(policy._approach(view, jnp.int32(0), taken.at[0].set(NOWHERE))) == 2  # south, to (1, 2)


def test_nearest_and_furthest_are_never_stuck_in_each_others_way() -> None:
    """Whoever does not stand beside its target gets there, whatever the other is after."""
    environment = Foraging()
    chosen = jax.tree.map(lambda leaf: leaf[:2], stacked_heuristics(environment))
    played = cross_play(environment, chosen, 150)
    late = np.asarray(played.actions)[..., 25:, :]  # one episode's ways are shorter than 25 steps
    waiting = np.asarray(played.total) < 0.1
    assert waiting.any()
    assert (late[waiting] == LOAD).all()
