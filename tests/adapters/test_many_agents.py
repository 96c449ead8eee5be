"""Games of three and more agents, in which agents may leave, be masked, act in turn and be opposed to each other.

Parity: observations, rewards, masks and ends equal those of the real packages under the same random actions.
"""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxmarl import make as make_jaxmarl
from jumanji.environments.routing.lbf.env import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator

from coverset.adapters.hanabi import mini_hanabi
from coverset.adapters.jaxmarl import JaxMarl, from_jaxmarl
from coverset.adapters.jumanji import JumanjiForaging
from coverset.adapters.pettingzoo import from_parallel, to_parallel
from coverset.adapters.promotion import implicit_promotion
from coverset.envs.base import Environment, autoreset
from coverset.envs.conformance import check_environment
from coverset.envs.registry import make
from coverset.envs.seats import action_mask, has_common_reward, sides

OLD_API = pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")
MPE = {
    "mpe2.simple_spread_v3:parallel_env": ((5, 5, 5), (18, 18, 18)),
    "mpe2.simple_adversary_v3:parallel_env": ((5, 5, 5), (8, 10, 10)),
    "mpe2.simple_tag_v3:parallel_env": ((5, 5, 5, 5), (16, 16, 16, 14)),
}
EPISODES, LIMIT = 40, 25
SMALLEST = np.finfo(np.float32).tiny
"""Compiled code takes what is smaller for zero."""
CONNECT_FOUR = "pettingzoo.classic.connect_four.connect_four:env"


def bidding(**changes):
    return from_parallel("parallel_games:Bidding", **{"horizon": 9, **changes})


def make_theirs(name: str, **arguments):
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)(**arguments)


def draw_legal(key, environment: Environment, state):
    """One random action for each seat, legal where the environment masks."""
    exists = jnp.arange(max(environment.num_actions))[None] < jnp.array(environment.num_actions)[:, None]
    mask = action_mask(environment, state)
    return jax.random.categorical(key, jnp.where(exists if mask is None else mask, 0.0, -jnp.inf)).astype(jnp.int32)


def play_episodes(environment: Environment, episodes: int, seed: int = 0):
    """Random episodes side by side: first states, and arrays with axes [episode, step, ...]."""

    def step(state, key):
        actions = draw_legal(key, environment, state)
        outcome = environment.step(key, state, actions)
        seen = (actions, environment.legal_actions(state), environment.observe(outcome.state), *outcome[1:4])
        return outcome.state, seen

    def play(key):
        state = environment.reset(key)
        return (state, environment.observe(state)), jax.lax.scan(
            step, state, jax.random.split(key, environment.horizon)
        )[1]

    keys = jax.random.split(jax.random.key(seed), episodes)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))


@pytest.mark.parametrize("name", list(MPE))
def test_the_numbers_are_those_of_mpe2(name: str) -> None:
    environment = from_parallel(name, LIMIT, max_cycles=LIMIT)
    assert (environment.num_actions, tuple(n for (n,) in environment.observation_shapes)) == MPE[name]
    assert not has_common_reward(environment)
    (states, first), (actions, legal, observed, rewards, terminated, truncated) = play_episodes(environment, EPISODES)
    assert legal is None
    assert not terminated.any()
    assert truncated.sum() == EPISODES
    for episode in range(EPISODES):
        theirs = make_theirs(name, max_cycles=LIMIT)
        seen, _ = theirs.reset(seed=int(states.seed[episode]))
        check_seen(environment, seen, first[episode])
        for time in range(LIMIT):
            joint = dict(zip(theirs.possible_agents, actions[episode, time].tolist(), strict=True))
            seen, earned, *_ = theirs.step(joint)
            check_seen(environment, seen, observed[episode, time])
            np.testing.assert_allclose(rewards[episode, time], list(earned.values()), rtol=1e-6)


def check_seen(environment: Environment, theirs: dict, ours: np.ndarray) -> None:
    for (size,), one, row in zip(environment.observation_shapes, theirs.values(), ours, strict=True):
        np.testing.assert_allclose(row[:size], np.asarray(one, np.float32), rtol=0, atol=SMALLEST)
        assert not row[size:].any()


def test_rewards_of_opponents_are_kept_apart() -> None:
    """In a game of adversaries the mean of the rewards says little, and is taken only if asked for."""
    (_, _), (*_, rewards, _, _) = play_episodes(from_parallel("mpe2.simple_adversary_v3:parallel_env", LIMIT), 4)
    assert rewards.shape == (4, LIMIT, 3)
    np.testing.assert_array_equal(rewards[..., 1], rewards[..., 2]), "two are a team"
    assert np.corrcoef(rewards[..., 0].ravel(), rewards[..., 1].ravel())[0, 1] < 0.9
    (_, _), (*_, mean, _, _) = play_episodes(
        from_parallel("mpe2.simple_adversary_v3:parallel_env", LIMIT, reward="mean"), 4
    )
    np.testing.assert_allclose(mean, rewards.mean(axis=-1), rtol=1e-5)


@pytest.mark.parametrize("where", ["info", "observation"])
def test_masks_and_agents_that_leave(where: str) -> None:
    """The game itself asserts that all actions are legal, and that nobody acts after leaving."""
    environment = bidding(where=where, stay=2)
    check_environment(environment)
    assert environment.num_actions == (2, 3, 4)
    assert [side.num_actions for side in sides(environment)] == [2, 4]
    _, (actions, legal, observed, rewards, terminated, truncated) = play_episodes(environment, 12)
    np.testing.assert_array_equal(legal[:, 0].sum(axis=-1), [[2, 3, 4]] * 12)
    np.testing.assert_array_equal(legal[:, 1].sum(axis=-1), [[1, 2, 3]] * 12)
    taken = np.take_along_axis(legal[:, 1], actions[:, 0, :, None], axis=-1)
    assert not taken.any(), "what was bid cannot be bid again"
    assert not legal[:, 2:, 2].any(), "the third has left"
    assert not observed[:, 1:, 2].any()
    np.testing.assert_allclose(rewards[:, :2].sum(axis=-1), 0, atol=1e-6)
    np.testing.assert_array_equal(rewards[:, 2:, 2], 0)
    assert (rewards[:, 2:5, :2] != 0).any()
    assert not terminated.any()
    assert truncated[:, 4].all()
    assert not truncated[:, :4].any(), "the others play on"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"where": "late"},
            "must return an action_mask for agent 'a' from reset, if it returns one from step, got none",
        ),
        ({"short": True}, "must return an action_mask of 2 entries for agent 'a' from reset, got shape [1]."),
    ],
)
def test_masks_that_break_the_rules_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"environment 'parallel_games:Bidding' {message}")):
        bidding(**changes)


def test_agents_that_act_in_turn() -> None:
    """Connect Four ends with a reward of -1 for the mover if a move is illegal; opposed rewards sum to 0."""
    environment = from_parallel(CONNECT_FOUR, 42)
    check_environment(environment, quick=True)
    _, (_, legal, observed, rewards, terminated, truncated) = play_episodes(environment, 30)
    for episode in range(30):
        length = int(np.argmax(terminated[episode] | truncated[episode])) + 1
        turns = np.arange(length) % 2
        acting = legal[episode, :length].any(axis=-1)
        np.testing.assert_array_equal(acting, turns[:, None] == np.arange(2))
        pieces = observed[episode, :length, 0].sum(axis=-1)
        np.testing.assert_array_equal(pieces, np.arange(1, length + 1), "every move is a piece on the board")
        won = rewards[episode, length - 1]
        assert sorted(won.tolist()) in ([-1, 1], [0, 0])
        assert not won.any() or won[turns[-1]] == 1, "the last mover wins"
        assert not rewards[episode, : length - 1].any()


def test_text_for_a_seat_holds_what_it_observes() -> None:
    environment = from_parallel("mpe2.simple_adversary_v3:parallel_env", LIMIT)
    state = environment.reset(jax.random.key(0))
    everything = environment.render(state).splitlines()
    for seat in range(3):
        step, own = environment.render(state, seat).splitlines()
        assert step == "step 0"
        assert own.startswith(f"seat {seat}: [")
        assert own in everything


@OLD_API
@pytest.mark.parametrize(
    "environment",
    [JumanjiForaging(num_agents=3, size=6, reward="by-agent"), from_jaxmarl("MPE_simple_adversary_v3")],
    ids=["jumanji", "jaxmarl"],
)
def test_games_of_many_seats_pass_the_tests_of_pettingzoo(environment: Environment) -> None:
    from pettingzoo.test import parallel_api_test
    from pettingzoo.test.seed_test import parallel_seed_test

    if environment.legal_actions(environment.reset(jax.random.key(0))) is None:
        parallel_api_test(to_parallel(environment), num_cycles=60)
        parallel_seed_test(lambda: to_parallel(environment), num_cycles=60)
    there = to_parallel(environment)
    observations, infos = there.reset(seed=1)
    assert list(observations) == ["seat_0", "seat_1", "seat_2"]
    for _ in range(30):
        for seat, observation in observations.items():
            assert there.observation_space(seat).contains(observation)
        actions = {seat: there.action_space(seat).sample(infos[seat].get("action_mask")) for seat in there.agents}
        observations, rewards, _, _, infos = there.step(actions)
        assert list(rewards) == list(observations)
        if not there.agents:
            break


def test_a_game_of_turns_goes_there_and_comes_back() -> None:
    """Hanabi as PettingZoo sees it, read again by the adapter: the same masks, and illegal actions refused."""
    there = to_parallel(mini_hanabi())
    _, infos = there.reset(seed=0)
    np.testing.assert_array_equal(infos["seat_1"]["action_mask"], [0] * 12 + [1])
    assert infos["seat_0"]["action_mask"].dtype == np.int8
    with pytest.raises(ValueError, match=r"^Action of 'seat_1' must be legal, one of 12, got 3\.$"):
        there.step({"seat_0": 3, "seat_1": 3})
    infos["seat_1"]["action_mask"][:] = 1
    with pytest.raises(ValueError, match="must be legal"):
        there.step({"seat_0": 3, "seat_1": 3})
    _, rewards, *_ = there.step({"seat_0": 3, "seat_1": 12})
    assert rewards["seat_0"] == rewards["seat_1"]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("MPE_simple_spread_v3", (18, 18, 18)),
        ("MPE_simple_adversary_v3", (8, 10, 10)),
        ("MPE_simple_tag_v3", (16, 16, 16, 14)),
    ],
)
def test_the_numbers_are_those_of_jaxmarl(name: str, sizes: tuple) -> None:
    environment, theirs = from_jaxmarl(name), make_jaxmarl(name)
    assert environment.observation_shapes == tuple((size,) for size in sizes)
    assert environment.horizon == 25

    def step(inner, both):
        key, actions = both
        observations, inner, rewards, _, _ = theirs.step_env(key, inner, dict(zip(theirs.agents, actions, strict=True)))
        return inner, (observations, jnp.stack([rewards[agent] for agent in theirs.agents]))

    def play(key, actions):
        _, inner = theirs.reset(key)
        return jax.lax.scan(step, inner, (jax.random.split(key, 25), actions))[1]

    _, (actions, legal, observed, rewards, terminated, truncated) = play_episodes(environment, 80, seed=3)
    with implicit_promotion():
        seen, earned = jax.vmap(play)(jax.random.split(jax.random.key(3), 80), actions)
    assert legal is None
    np.testing.assert_allclose(rewards, earned, rtol=1e-5, atol=1e-5)
    for seat, (agent, size) in enumerate(zip(theirs.agents, sizes, strict=True)):
        np.testing.assert_allclose(observed[:, :, seat, :size], seen[agent], rtol=1e-5, atol=1e-5)
        assert not observed[:, :, seat, size:].any()
    assert not terminated.any()
    assert truncated[:, -1].all(), "at the horizon the time is up"
    assert truncated.sum() == 80


@pytest.mark.parametrize("name", ["MPE_simple_spread_v3", "MPE_simple_adversary_v3"])
def test_jaxmarl_keeps_our_contract(name: str) -> None:
    environment = from_jaxmarl(name)
    check_environment(environment)
    assert not has_common_reward(environment)
    assert has_common_reward(from_jaxmarl(name, reward="mean"))
    assert from_jaxmarl("MPE_simple_spread_v3", 10, seats_swap=True).seats_alike


def test_masks_of_jaxmarl() -> None:
    environment = from_jaxmarl("hanabi", horizon=90)
    mask = environment.legal_actions(environment.reset(jax.random.key(0)))
    assert mask is not None
    assert not mask[0, :5].any(), "no token can be won at first"
    np.testing.assert_array_equal(np.flatnonzero(mask[1]), [20])


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("MPE_simple_spread_v3", {"action_type": "Continuous"}, "Actions of 'agent_0' .* must be Discrete, got Box"),
        ("MPE_simple_facmac_v1", {}, "Actions of 'adversary_0' .* must be Discrete, got Box"),
        ("MPE_simple_v3", {}, "'MPE_simple_v3' must have two or more agents, got 1"),
        ("MPE_simple_spread_v3", {"horizon": 26}, "horizon must be at most 25, the time limit .*, got 26"),
        ("hanabi", {}, "horizon must be given for 'hanabi', which has no time limit of its own"),
        ("storm", {"horizon": 9}, "'storm' must have an action space and .* but KeyError: 0"),
        ("jaxnav", {"horizon": 9}, "environment must be one of .*, got 'jaxnav'"),
        ("MPE_simple_spread", {}, "environment must be one of .*Did you mean 'MPE_simple_spread_v3'"),
    ],
)
def test_what_jaxmarl_has_but_cannot_be_adapted_is_named(name: str, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_jaxmarl(name, **arguments)


def test_jaxmarl_by_name_and_by_import_path_are_the_same_game() -> None:
    named = make("coverset.adapters.jaxmarl:from_jaxmarl", environment="MPE_simple_spread_v3", num_agents=4)
    path = JaxMarl("jaxmarl.environments.mpe:SimpleSpreadMPE", 25, arguments=(("num_agents", 4),))
    assert named.num_actions == path.num_actions == (5,) * 4


@pytest.mark.parametrize("reward", ["by-agent", "sum"])
def test_the_numbers_are_those_of_jumanji(reward: str) -> None:
    environment = JumanjiForaging(
        num_agents=3, size=6, num_objects=1, horizon=40, sight=2, force_coop=False, penalty=0.1, reward=reward
    )
    if reward == "by-agent":
        check_environment(environment, quick=True)
    generator = RandomGenerator(grid_size=6, fov=2, num_agents=3, num_food=1, max_agent_level=2, force_coop=False)
    theirs = LevelBasedForaging(generator, time_limit=40, penalty=0.1)

    def step(inner, actions):
        inner, reached = theirs.step(inner, actions)
        return inner, (reached.observation.agents_view, reached.observation.action_mask, reached.reward)

    def play(key, actions):
        return jax.lax.scan(step, theirs.reset(jax.random.key_data(key))[0], actions)[1]

    _, (actions, legal, observed, rewards, terminated, _) = play_episodes(environment, 100, seed=2)
    with implicit_promotion():
        seen, mask, earned = jax.vmap(play)(jax.random.split(jax.random.key(2), 100), actions)
    np.testing.assert_array_equal(observed, seen)
    np.testing.assert_array_equal(legal[:, 1:], mask[:, :-1])
    np.testing.assert_allclose(rewards, earned if reward == "by-agent" else earned.sum(-1), rtol=1e-6, atol=1e-7)
    assert (rewards > 0).any()
    assert (rewards < 0).any()
    assert terminated.any()


def test_three_players_see_what_is_near() -> None:
    environment = JumanjiForaging(num_agents=3, size=7, sight=2)
    state = environment.reset(jax.random.key(0))
    assert {"X", "O", "A"} <= set(environment.render(state))
    assert "?" not in environment.render(state)
    for seat, letter in enumerate("XOA"):
        lines = environment.render(state, seat).splitlines()
        (row,) = (number for number, line in enumerate(lines) if letter in line)
        column = lines[row].split().index(letter)
        for place in np.ndindex(7, 7):
            far = max(abs(place[0] - row), abs(place[1] - column)) > 2
            assert (lines[place[0]].split()[place[1]] == "?") == far


def test_strict_promotion_around_third_party_code() -> None:
    """Callers that forbid implicit promotion can still use code that needs it."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        for environment in (mini_hanabi(), from_jaxmarl("MPE_simple_tag_v3"), JumanjiForaging(num_agents=3)):

            def step(key, environment=environment):
                state = environment.reset(key)
                outcome = environment.step(key, state, jnp.zeros(environment.num_seats, jnp.int32))
                return autoreset(outcome, state), environment.legal_actions(outcome.state)

            jax.eval_shape(step, jax.random.key(0))
