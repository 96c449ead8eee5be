"""Episodes and trials of recording policies: what they saw, when, and what they remembered."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from countdown import Countdown
from coverset.envs.base import Environment
from coverset.learning.rollout import play_episode, play_trial
from coverset.policy import Policy

LENGTH = 3
CAPACITY = 16


class Diary(NamedTuple):
    calls: Int[Array, ""]
    observations: Float[Array, "c"]
    rewards: Float[Array, "c"]
    firsts: Float[Array, "c"]


class Recorder(Policy):
    """Plays one action and writes down every percept."""

    action: Int[Array, ""]

    def initial_memory(self):
        return Diary(jnp.int32(0), jnp.zeros(CAPACITY), jnp.zeros(CAPACITY), jnp.zeros(CAPACITY))

    def act(self, key, percept, memory):
        at = memory.calls
        return self.action, Diary(
            at + 1,
            memory.observations.at[at].set(percept.observation[0]),
            memory.rewards.at[at].set(percept.reward),
            memory.firsts.at[at].set(percept.first.astype(jnp.float32)),
        )


class Speaker(Policy):
    """Acts by what it saw, so that the episode's return tells it: 1 where the reward before was `wanted`, else 0."""

    wanted: Float[Array, ""]

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        heard = jnp.abs(percept.reward - self.wanted) < 1e-3
        return heard.astype(jnp.int32), memory + 1


def diaries(environment: Environment, episodes: int):
    """The memories of two recorders after a trial."""
    policies = (Recorder(jnp.int32(1)), Recorder(jnp.int32(2)))
    memories = tuple(policy.initial_memory() for policy in policies)
    reward = jnp.zeros(2)
    play = jax.jit(lambda key, memories, reward: play_episode(key, environment, policies, memories, reward))
    for key in jax.random.split(jax.random.key(0), episodes):
        _, memories, reward = play(key, memories, reward)
    return memories


@pytest.fixture(scope="module")
def two_episodes():
    return diaries(Countdown(), 2)


def test_each_seat_sees_its_own_observation_once_per_step(two_episodes) -> None:
    for seat, diary in enumerate(two_episodes):
        assert diary.calls == 2 * LENGTH
        wanted = [100.0 * seat + t for t in (0, 1, 2, 0, 1, 2)]
        np.testing.assert_array_equal(diary.observations[:6], wanted)


def test_first_marks_the_first_step_of_each_episode_and_no_other(two_episodes) -> None:
    for diary in two_episodes:
        np.testing.assert_array_equal(diary.firsts[:7], [1, 0, 0, 1, 0, 0, 0])


def test_a_percept_holds_the_reward_of_the_step_before_also_across_episodes(two_episodes) -> None:
    paid = [1 + 1.2, 10 + 1.2, 100 + 1.2]
    for diary in two_episodes:
        np.testing.assert_allclose(diary.rewards[:6], [0, *paid, *paid[:2]], rtol=1e-6)


def test_a_trial_hands_memory_and_closing_reward_to_the_next_episode() -> None:
    """The speaker hears the last reward of an episode only in the first step of the next."""
    closing = jnp.float32(100.0)
    policies = (Speaker(closing), Recorder(jnp.int32(0)))
    played = jax.jit(lambda key: play_trial(key, Countdown(), policies, episodes=3))(jax.random.key(1))
    np.testing.assert_allclose(played.returns, [111.0, 112.0, 112.0], rtol=1e-6)
    np.testing.assert_array_equal(played.length, [LENGTH] * 3)


@pytest.mark.parametrize("terminates", [True, False])
def test_an_episode_ends_by_the_game_or_by_the_time_limit(terminates: bool) -> None:
    environment = Countdown(horizon=4, terminates=terminates)
    policies = (Recorder(jnp.int32(0)), Recorder(jnp.int32(0)))
    played = jax.jit(lambda key: play_trial(key, environment, policies, episodes=2))(jax.random.key(0))
    np.testing.assert_array_equal(played.length, [4, 4])
    np.testing.assert_allclose(played.returns, [1111.0, 1111.0])


def test_returns_are_discounted_from_the_first_step_on_and_conventions_are_read_at_the_end() -> None:
    policies = (Recorder(jnp.int32(1)), Recorder(jnp.int32(2)))
    play = jax.jit(lambda key: play_trial(key, Countdown(), policies, episodes=2, discount=0.5))
    played = play(jax.random.key(0))
    wanted = sum(0.5**t * (10.0**t + 1.2) for t in range(LENGTH))
    np.testing.assert_allclose(played.discounted_returns, [wanted] * 2, rtol=1e-6)
    np.testing.assert_allclose(played.returns, [111 + 3 * 1.2] * 2, rtol=1e-6)
    np.testing.assert_array_equal(played.conventions, [[1, 2], [1, 2]])
