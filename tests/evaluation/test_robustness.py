"""Agents with known returns, in both seats, and the curves of one that learns and one that does not."""

import json
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from coverset.envs.extensions import heuristics, oracles
from coverset.envs.foraging import Foraging
from coverset.envs.matrix import MatrixGame
from coverset.envs.matrix.heuristics import MixedAction
from coverset.envs.oracle import Oracle
from coverset.envs.reaching import WEIGHTED, Reaching
from coverset.evaluation.robustness import RobustnessRecord, evaluate_agent, mix_teams
from coverset.policy import Policy

LOPSIDED = ((10.0, 0.0, 4.0), (1.0, 6.0, 5.0), (2.0, 3.0, 7.0))


def always(action: int, actions: int = 3) -> MixedAction:
    return MixedAction(jnp.eye(actions, dtype=jnp.float32)[action])


class Tried(NamedTuple):
    episode: Int[Array, ""]
    last: Int[Array, ""]
    rewards: Float[Array, "3"]


class TryThenKeep(Policy):
    """Plays each of three actions for an episode, then what paid best."""

    def initial_memory(self) -> Tried:
        return Tried(jnp.int32(0), jnp.int32(0), jnp.full(3, -jnp.inf))

    def act(self, key, percept, memory: Tried):
        heard = jnp.maximum(memory.rewards[memory.last], percept.reward)
        rewards = jnp.where(memory.episode > 0, memory.rewards.at[memory.last].set(heard), memory.rewards)
        action = jnp.where(memory.episode < 3, memory.episode, jnp.argmax(rewards)).astype(jnp.int32)
        return action, Tried(memory.episode + 1, action, rewards)


class Named(Policy):
    """Plays a fixed action that is no array: cannot be stacked with another."""

    action: int = eqx.field(static=True)

    def initial_memory(self) -> tuple[()]:
        return ()

    def act(self, key, percept, memory):
        return jnp.int32(self.action), memory


@pytest.fixture(scope="module", params=[0, 1])
def first_action(request) -> RobustnessRecord:
    """An agent that always plays its first action, in either seat of a table that is not symmetric."""
    environment = MatrixGame(payoffs=LOPSIDED)
    return evaluate_agent(jax.random.key(0), environment, always(0), seat=request.param, trials=200, episodes=5)


def test_a_fixed_action_earns_its_row_or_column(first_action: RobustnessRecord) -> None:
    paid = np.array(LOPSIDED)[0] if first_action.seat == 0 else np.array(LOPSIDED)[:, 0]
    assert list(first_action.returns) == [f"H{number}" for number in range(1, 7)]
    for number in range(3):
        np.testing.assert_array_equal(first_action.returns[f"H{number + 1}"], np.full((200, 5), paid[number]))
        mix = np.where(np.arange(3) == number, 0.7, 0.15)
        mixed = f"H{number + 4}"
        error = first_action.standard_error(mixed)
        assert error > 0
        assert abs(first_action.mean_return(mixed) - paid @ mix) < 5 * error


def test_fractions_are_of_the_oracle_in_the_agents_seat(first_action: RobustnessRecord) -> None:
    wanted = oracles(MatrixGame(payoffs=LOPSIDED), first_action.seat)
    written = first_action.to_json()
    for name, partner in written["partners"].items():
        assert partner["oracle"] == pytest.approx(wanted[name].value, rel=1e-5)
        assert partner["full_information"] == pytest.approx(wanted[name].full_information, rel=1e-5)
        assert partner["oracle_exact"] is True
        assert partner["oracle_fraction"] == pytest.approx(partner["mean_return"] / partner["oracle"], rel=1e-4)
    assert written["partners"]["H1"]["oracle_fraction"] == 1.0
    assert written["partners"]["H1"]["standard_error"] == 0.0
    for field in ("mean_return", "oracle_fraction"):
        mean = np.mean([partner[field] for partner in written["partners"].values()])
        assert written[field] == pytest.approx(mean, rel=1e-4)
    assert (written["seat"], written["trials"], written["episodes"]) == (first_action.seat, 200, 5)
    assert (written["oracle_partners"], written["oracle_exact"]) == (6, True)
    assert json.loads(json.dumps(written, allow_nan=False)) == written


def test_the_curve_of_an_agent_that_learns_rises_and_that_of_another_does_not() -> None:
    key, environment = jax.random.key(1), MatrixGame()
    learner = evaluate_agent(key, environment, TryThenKeep(), trials=2, episodes=8)
    np.testing.assert_array_equal(learner.curve("H1"), [10, 0, 4, 10, 10, 10, 10, 10])
    np.testing.assert_array_equal(learner.curve("H2"), [0, 6, 4, 6, 6, 6, 6, 6])
    np.testing.assert_array_equal(learner.curve("H3"), [4, 4, 6, 6, 6, 6, 6, 6])
    memoryless = evaluate_agent(key, environment, always(2), trials=2, episodes=8)
    assert len(set(memoryless.curve("H2").tolist())) == 1
    curve = learner.to_json()["curve"]
    assert len(curve) == 8
    assert min(curve[3:]) > max(curve[:3])


def test_partners_of_several_kinds_keep_their_names_and_order() -> None:
    partners = {"one": Named(1), "mix": always(2), "zero": Named(0), "first": always(0), "again": Named(1)}
    record = evaluate_agent(jax.random.key(0), MatrixGame(), always(0), partners=partners, trials=3, episodes=2)
    assert {name: record.mean_return(name) for name in record.returns} == {
        "one": 0.0, "mix": 4.0, "zero": 10.0, "first": 10.0, "again": 0.0
    }  # fmt: skip
    assert list(record.returns) == list(partners)
    written = record.to_json()
    assert written["oracle_fraction"] is None
    assert written["oracle_exact"] is None
    assert written["partners"]["one"]["oracle"] is None
    assert written["mean_return"] == pytest.approx(24 / 5)


def test_a_partners_trials_do_not_depend_on_who_else_is_met() -> None:
    key, environment = jax.random.key(3), MatrixGame()
    known = heuristics(environment)
    some = {name: known[name] for name in ("H6", "H4")}
    everyone = evaluate_agent(key, environment, always(1), trials=20, episodes=3)
    few = evaluate_agent(
        key, environment, always(1), partners=some, oracles=oracles(environment), trials=20, episodes=3
    )
    for name in some:
        np.testing.assert_array_equal(few.returns[name], everyone.returns[name])
    assert few.oracles.keys() == some.keys()
    assert (few.returns["H6"] != few.returns["H4"]).any()


def test_the_oracles_own_policy_has_fraction_one_in_weighted_reaching() -> None:
    """And trials end early or late as they like: the returns of each are its own."""
    environment = Reaching(payoffs=WEIGHTED, ends_apart=True)
    known = oracles(environment)
    partners = {name: policy for name, policy in heuristics(environment).items() if name in ("H3", "H10")}
    agent = known["H10"].policy
    assert agent is not None
    record = evaluate_agent(
        jax.random.key(0), environment, agent, partners=partners, oracles=known, trials=50, episodes=3
    )
    np.testing.assert_array_equal(record.returns["H10"], np.full((50, 3), 8.0))
    np.testing.assert_array_equal(record.returns["H3"], np.full((50, 3), 6.0))  # C with A or B
    assert record.oracle_fraction("H10") == pytest.approx(1.0)
    assert record.oracle_fraction("H3") < 1.0


def record_of(oracle: Oracle | None, *returns: float) -> RobustnessRecord:
    return RobustnessRecord(0, {"X": np.array([returns])}, {} if oracle is None else {"X": oracle})


def test_without_anything_to_win_there_is_no_fraction() -> None:
    for value in (0.0, -2.0):
        written = record_of(Oracle(value, True, value), -4.0).to_json()
        assert written["oracle_fraction"] is None
        assert written["oracle_partners"] == 0
        assert written["partners"]["X"]["oracle_fraction"] is None
        assert written["partners"]["X"]["oracle"] == value
    assert record_of(None, 1.0).to_json()["oracle_fraction"] is None


def test_fractions_are_not_clipped_and_bounds_are_labelled() -> None:
    written = record_of(Oracle(1.0, False, 1.0), 3.0, 2.0).to_json()
    assert written["oracle_fraction"] == 2.5
    assert written["oracle_exact"] is False
    assert written["partners"]["X"]["oracle_exact"] is False
    assert record_of(Oracle(2.0, True, 2.0), -1.0).to_json()["oracle_fraction"] == -0.5


def test_one_trial_has_no_standard_error() -> None:
    assert record_of(None, 1.0, 5.0).to_json()["partners"]["X"]["standard_error"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seat": 2, "trials": 1}, "seat must be 0 or 1, got 2"),
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"trials": 1, "episodes": 0}, "episodes must be at least 1, got 0"),
        ({"trials": 1, "partners": {}}, "partners must name at least one policy"),
    ],
)
def test_refusals(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate_agent(jax.random.key(0), Foraging(), always(0, 6), **options)


def test_mixed_teams_are_measured_apart_from_whole_ones() -> None:
    """A game of three whose return tells who sits where: 100, 10 and 1 for the second action of seats 0, 1 and 2."""
    table = tuple(tuple(tuple(100.0 * i + 10.0 * j + k for k in (0, 1)) for j in (0, 1)) for i in (0, 1))
    partners = {"zero": always(0, 2), "one": always(1, 2)}
    record = evaluate_agent(
        jax.random.key(0), MatrixGame(payoffs=table), always(1, 2), partners=partners, trials=2, episodes=1
    )
    content = record.to_json()
    assert {name: cell["mean_return"] for name, cell in content["partners"].items()} == {"zero": 100.0, "one": 111.0}
    mixed = {name: cell["mean_return"] for name, cell in content["mixed_teams"].items()}
    assert mixed == {"zero + one": 101.0, "one + zero": 110.0}
    assert (content["mean_return"], content["mixed_mean_return"]) == (105.5, 105.5)
    assert content["partners"]["one"]["seat_returns"] is None


def test_every_seat_is_reported_where_rewards_differ() -> None:
    """From any seat of the agent: seats are those of the game."""
    game = MatrixGame(payoffs=tuple(tuple((s + 1.0, -s - 1.0) for _ in range(2)) for s in range(2)), by_player=True)
    for seat in (0, 1):
        partners = {"first": always(0, 2), "second": always(1, 2)}
        record = evaluate_agent(
            jax.random.key(0), game, always(0, 2), seat=seat, partners=partners, trials=1, episodes=1
        ).to_json()
        sign = -1.0 if seat == 0 else 1.0
        assert record["partners"]["first"]["seat_returns"] == [1.0, 2.0]
        assert record["partners"]["second"]["seat_returns"] == [1.0 * sign, 2.0 * sign]
        assert record["partners"]["second"]["mean_return"] == (1.0, 2.0)[seat] * sign
        assert record["mixed_teams"] == {}
        assert record["mixed_mean_return"] is None


def test_partners_of_several_classes_mix() -> None:
    partners = {"a": always(0), "b": Named(1), "c": always(2)}
    assert [*mix_teams(partners, 2)] == ["a + b", "b + c", "c + a"]
    assert next(iter(mix_teams(partners, 4))) == "a + b + c + a"
    assert mix_teams(partners, 1) == {}
    assert mix_teams({"a": always(0)}, 2) == {}
    table = tuple(tuple(map(tuple, rows)) for rows in np.arange(27.0).reshape(3, 3, 3).tolist())
    record = evaluate_agent(
        jax.random.key(0), MatrixGame(payoffs=table), always(1), partners=partners, trials=1, episodes=1
    )
    assert [record.mean_return(team) for team in record.mixed_returns] == [9 + 0 + 1, 9 + 3 + 2, 9 + 6 + 0]
