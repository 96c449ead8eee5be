"""Every heuristic of Appendix A: what it does, how it breaks ties, how often it draws what."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.foraging import LOAD, NOWHERE, Foraging, ForagingState
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import WEIGHTED, Reaching, ReachingState
from coverset.policies.scripted import describe, heuristics
from coverset.types import Percept

ORDERS = ["1-2-3", "1-3-2", "2-1-3", "2-3-1", "3-1-2", "3-2-1"]


class Played(NamedTuple):
    """An episode's states before each step, joint actions, return and length."""

    states: object
    actions: jax.Array
    total: jax.Array
    steps: jax.Array
    final: object


def play(environment, start, key, policies) -> Played:
    """One episode of two policies from `start`; after its end everything stands still."""

    def body(carry, key):
        state, memories, first, ended = carry
        observations = environment.observe(state)
        keys = jax.random.split(key, 3)
        moves = [
            policy.act(keys[seat], Percept(observations[seat], jnp.float32(0), first), memories[seat])
            for seat, policy in enumerate(policies)
        ]
        actions, memories = jnp.stack([move[0] for move in moves]), tuple(move[1] for move in moves)
        outcome = environment.step(keys[2], state, actions)
        after = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, outcome.state)
        carry = (after, memories, jnp.array(False), ended | outcome.terminated | outcome.truncated)
        return carry, (state, actions, jnp.where(ended, 0.0, outcome.reward), ~ended)

    memories = tuple(policy.initial_memory() for policy in policies)
    carry = (start, memories, jnp.array(True), jnp.array(False))
    (final, *_), (states, actions, rewards, running) = jax.lax.scan(
        body, carry, jax.random.split(key, environment.horizon)
    )
    return Played(states, actions, rewards.sum(), running.sum(dtype=jnp.int32), final)


def stacked(environment):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *heuristics(environment).values())


@partial(jax.jit, static_argnames="number")
def draw(policies, percept, number: int):
    """Actions of all stacked policies at the start of `number` trials, [policies, number], and their memories."""

    def one(policy, key):
        return policy.act(key, percept, policy.initial_memory())

    keys = jax.random.split(jax.random.key(0), number)
    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(policies, keys)


def frequencies(values, number: int) -> np.ndarray:
    return np.stack([np.bincount(row, minlength=number) / len(row) for row in np.asarray(values)])


def test_matrix_heuristics_are_the_papers() -> None:
    environment = MatrixGame()
    assert list(heuristics(environment)) == [f"H{number}" for number in range(1, 7)]
    mixes = 0.15 + 0.55 * np.eye(3)
    probabilities = stacked(environment).probabilities
    np.testing.assert_allclose(probabilities, np.concatenate([np.eye(3), mixes]), atol=1e-6)
    percept = Percept(jnp.ones(1), jnp.float32(0), jnp.array(True))
    actions, _ = draw(stacked(environment), percept, 4000)
    played = frequencies(actions, 3)
    np.testing.assert_array_equal(played[:3], np.eye(3))
    np.testing.assert_allclose(played[3:], mixes, atol=5 * np.sqrt(0.25 / 4000))


def test_matrix_heuristics_of_another_size() -> None:
    environment = MatrixGame(payoffs=((1.0, 0.0, 0.0, 2.0, 0.0),))
    assert list(heuristics(environment)) == [f"H{number}" for number in range(1, 11)]
    np.testing.assert_allclose(heuristics(environment)["H7"].probabilities, [0.075, 0.7, 0.075, 0.075, 0.075])
    assert list(heuristics(MatrixGame(payoffs=((1.0,),)))) == ["H1"]


REACHING = [Reaching(), Reaching(payoffs=WEIGHTED, ends_apart=True, encoding="coordinates", sees_teammate=True)]
CHOICES = {  # of H1 to H6 from a cell: nearest, furthest, the same of A and B, of C and D; ties to the lowest letter
    (1, 1): "ACABDC",
    (1, 3): "BDBACD",
    (3, 3): "CABACD",
    (3, 1): "DBABDC",
    (2, 2): "AAAACC",
    (1, 2): "ACAACC",
    (2, 1): "ABABDC",
    (2, 3): "BABACD",
    (3, 2): "CAAACC",
}


def chosen_corners(environment: Reaching, cell: tuple[int, int]) -> str:
    state = ReachingState(positions=jnp.array([cell, (2, 2)], jnp.int32), time=jnp.int32(0))
    percept = Percept(environment.observe(state)[0], jnp.float32(0), jnp.array(True))
    _, corners = draw(stacked(environment), percept, 1)
    return "".join("ABCD"[corner] for corner in np.asarray(corners)[:, 0])


@pytest.mark.parametrize("environment", REACHING, ids=["plain", "weighted"])
def test_reaching_choices_and_ties(environment: Reaching) -> None:
    assert list(heuristics(environment)) == [f"H{number}" for number in range(1, 16)]
    for cell, corners in CHOICES.items():
        chosen = chosen_corners(environment, cell)
        assert chosen[:6] == corners, cell
        assert chosen[7:11] == "ABCD"


def test_reaching_draws_with_the_stated_chances() -> None:
    environment = REACHING[0]
    percept = Percept(environment.observe(environment.reset(jax.random.key(0)))[0], jnp.float32(0), jnp.array(True))
    _, corners = draw(stacked(environment), percept, 4000)
    drawn = frequencies(corners, 4)
    np.testing.assert_allclose(drawn[6], np.full(4, 0.25), atol=5 * np.sqrt(0.25 / 4000))
    np.testing.assert_allclose(drawn[11:], 0.15 + 0.4 * np.eye(4), atol=5 * np.sqrt(0.25 / 4000))


def test_reaching_keeps_its_corner_and_draws_anew_with_the_episode() -> None:
    environment = REACHING[0]
    h7 = heuristics(environment)["H7"]
    observation = environment.observe(environment.reset(jax.random.key(0)))[0]

    def corners(first):
        def body(memory, key):
            memory = h7.act(key, Percept(observation, jnp.float32(0), jnp.array(first)), memory)[1]
            return memory, memory

        return jax.lax.scan(body, jnp.int32(2), jax.random.split(jax.random.key(0), 60))[1]

    assert set(np.asarray(corners(False)).tolist()) == {2}
    assert set(np.asarray(corners(True)).tolist()) == {0, 1, 2, 3}


def test_reaching_walks_vertically_then_horizontally_then_stays() -> None:
    environment = REACHING[0]
    h10, h8 = (heuristics(environment)[name] for name in ("H10", "H8"))
    start = ReachingState(positions=jnp.array([(1, 2), (3, 3)], jnp.int32), time=jnp.int32(0))
    played = jax.jit(partial(play, environment))(start, jax.random.key(0), (h10, h8))
    assert played.actions[:8].tolist() == [[2, 1], [2, 1], [2, 1], [4, 3], [4, 3], [0, 3], [0, 0], [0, 0]]
    assert played.states.positions[7].tolist() == [[4, 4], [0, 0]]


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
    _, memory = draw(stacked(environment), percept, 1)
    assert memory.target[:, 0].tolist() == targets


def test_foraging_loads_beside_its_target_only_and_rests_when_all_is_done() -> None:
    environment = Foraging()
    actions, _ = draw(stacked(environment), observed(environment, (0, 1), environment.cells, (True,) * 3), 1)
    assert [action == LOAD for action in actions[:, 0].tolist()] == [True, False, True, True] + [False] * 4
    actions, _ = draw(stacked(environment), observed(environment, (0, 1), environment.cells, (False,) * 3), 1)
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
    orders = jax.tree.map(lambda leaf: leaf[2:], stacked(environment))
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
    policies = stacked(environment)
    chosen = jax.tree.map(lambda leaf: leaf[2:8], policies)

    def finished(policy, key):
        return play(environment, environment.reset(key), key, (policy, policy)).total

    keys = jax.random.split(jax.random.key(7), 300)
    totals = jax.jit(jax.vmap(jax.vmap(finished, (None, 0)), (0, None)))(chosen, keys)
    np.testing.assert_allclose(totals, 1.0, atol=1e-5)


def test_nearest_and_furthest_are_never_stuck_in_each_others_way() -> None:
    """Whoever does not stand beside its target gets there, whatever the other is after."""
    environment = Foraging()
    chosen = jax.tree.map(lambda leaf: leaf[:2], stacked(environment))
    played = cross_play(environment, chosen, 150)
    late = np.asarray(played.actions)[..., 25:, :]  # one episode's ways are shorter than 25 steps
    waiting = np.asarray(played.total) < 0.1
    assert waiting.any()
    assert (late[waiting] == LOAD).all()


def test_heuristics_are_described_and_unknown_environments_have_none() -> None:
    for environment in (MatrixGame(), *REACHING, Foraging(), Foraging(objects="random", num_objects=6)):
        assert describe(environment).keys() == heuristics(environment).keys()
        assert all(sentence.endswith(".") for sentence in describe(environment).values())
    orders = [describe(Foraging())[f"H{number}"] for number in range(3, 9)]
    assert orders == [f"Collects the objects in the order {order}." for order in ORDERS]
    assert len(heuristics(Foraging(objects="random", num_objects=6))) == 2


def test_an_environment_of_somebody_else_has_no_heuristics() -> None:
    class Other(MatrixGame.__mro__[1]):
        horizon = 1
        observation_size = 1
        num_actions = (1, 1)
        reset = step = observe = render = lambda *_: None

    assert heuristics(Other()) == {}
    assert describe(Other()) == {}
