"""Teammates in words, in games that name no conventions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.base import Environment
from coverset.evaluation.behaviour import Habits, describe_habits
from coverset.evaluation.kinds import describe_row, join_kind
from coverset.evaluation.summary import measure_population
from coverset.policies.actor import ActorPolicy, dense_policy
from coverset.policies.networks.dense import MLP
from coverset.policies.population import Population
from unnamed_game import Described, Failing, Silent, Unnamed


def constant(*actions: int) -> ActorPolicy:
    """Policies that always play one action each."""
    sizes = (len(actions), 1, 3)
    return dense_policy(MLP((jnp.zeros(sizes),), (50.0 * jnp.eye(3)[jnp.array(actions)],)))


def measure(environment: Environment) -> dict:
    population = Population(constant(0, 1, 2), constant(0, 1, 2))
    return measure_population(jax.random.key(0), environment, population, margin=1.0, discount=1.0)


def habits(actions: list[float], means: list[float], variances: list[float] | None = None) -> Habits:
    return Habits(np.array(actions), np.array(means), np.array(variances or [0.0] * len(means)))


def test_a_teammate_is_told_by_what_others_do_not_do() -> None:
    found = measure(Unnamed())
    assert found["conventions"] == [
        f"kind {kind}: plays action {action} in 100% of steps (others 0%)" for action, kind in enumerate("ABC")
    ]
    assert found["best_response_conventions"][0] == "serves kind A; earns 30 with teammate 1, 0 to 12 with others"
    assert found["coverage_found"] == 3


def test_a_game_may_tell_it_from_the_whole_episode() -> None:
    assert measure(Described())["conventions"][1] == "kind B: plays [1, 1, 1] for 18 100%"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (Silent(), r"Silent.describe must return a few words, got ''\."),
        (Failing(), r"Failing.describe fails: KeyError: 'corner'\."),
    ],
)
def test_a_game_that_cannot_is_named(environment: Environment, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        measure(environment)


def test_the_most_telling_observation_is_named_with_the_action() -> None:
    """The third number differs most, but varies so much that it tells nothing."""
    own = habits([0.2, 0.7, 0.1], [0.0, 0.9, 5.0], [0.0, 0.01, 100.0])
    others = [habits([0.6, 0.1, 0.3], [0.0, 0.1, 9.0], [0.0, 0.01, 100.0])] * 2
    told = "plays go in 70% of steps (others 10%), observation[1] averages 0.9 (others 0.1)"
    assert describe_habits(own, others, ["stay", "go", "wait"]) == told


def test_an_answer_is_told_where_actions_do_not_tell() -> None:
    """Both go left in half of the steps: one when the first lamp is lit, the other when the second is."""
    half, high = habits([0.5, 0.5], [0.5, 0.5], [0.25, 0.25]), np.array([0.5, 0.5])
    own = replace(half, answers=np.array([[18.0, 2.0], [1.0, 19.0]]), high=high)
    other = replace(half, answers=np.array([[1.0, 19.0], [20.0, 0.0]]), high=high)
    told = "plays right in 95% of steps when observation[1] is above 0.5 (others 0%)"
    assert describe_habits(own, [other], ["left", "right"]) == told
    rare = replace(half, answers=np.array([[3.0, 0.0], [0.0, 3.0]]), high=high)
    assert describe_habits(rare, [other], ["left", "right"]).startswith("differs from others in no action")


def test_teammates_that_differ_in_nothing_are_not_told_apart() -> None:
    one = habits([0.5, 0.5], [1.0])
    assert describe_habits(one, [one], ["a", "b"]).startswith("differs from others in no action")
    assert describe_habits(one, [], ["a", "b"]) == "acts as all others do"


def test_rows_and_kinds_in_words() -> None:
    assert describe_row(np.array([1.0, 0.25, 0.25]), 0) == "earns 1 with teammate 1, 0.25 with others"
    assert describe_row(np.array([1.0]), 0) == "earns 1 with teammate 1"
    assert join_kind("kind A, like teammate 1", "goes left") == "kind A: goes left, like teammate 1"
