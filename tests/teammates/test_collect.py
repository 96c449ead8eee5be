"""The steps of a rollout over the grid: who acted where, what was kept at an episode's end, and the tally."""

import jax
import numpy as np
import pytest

from countdown import Countdown
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Playing, Steps, Tally, collect, start_playing
from coverset.teammates.networks import Networks, init_networks
from coverset.teammates.pair_grid import PairGrid
from grids import pair_of
from stubborn import stubborn

GRID = PairGrid(2, 2, 2, 1)
LENGTH = 4
HORIZON = 3
BEST_RESPONSE_ACTIONS, TEAMMATE_ACTIONS = (1, 0), (2, 1)


@pytest.fixture(scope="module")
def collected() -> tuple[Steps, Tally, Playing]:
    environment = Countdown(horizon=HORIZON, terminates=False)
    settings = GenerateSettings(population_size=2, total_steps=1, hidden_sizes=(4,))
    networks = init_networks(jax.random.key(0), environment, settings, (2, 2))
    sure = Networks(
        stubborn(networks.best_responses, BEST_RESPONSE_ACTIONS),
        stubborn(networks.teammates, TEAMMATE_ACTIONS),
        networks.critic,
    )

    @jax.jit
    def run(key):
        playing = start_playing(key, environment, GRID, sure)
        return collect(key, environment, GRID, sure, playing, length=LENGTH)

    return jax.device_get(run(jax.random.key(1)))


def test_each_environment_is_played_by_its_pair(collected) -> None:
    steps, _, _ = collected
    for t, *place in np.ndindex(*steps.reward.shape):
        i, j = pair_of(GRID, *place)
        wanted = BEST_RESPONSE_ACTIONS[i], TEAMMATE_ACTIONS[j]
        assert tuple(steps.actions[t, *place]) == wanted
        np.testing.assert_allclose(steps.reward[t, *place], 10 ** (t % HORIZON) + wanted[0] + 0.1 * wanted[1])
    np.testing.assert_allclose(steps.log_p, 0.0, atol=1e-6)


def test_observations_follow_time_and_reset_behind_the_final_one(collected) -> None:
    """The observation after the last step is kept, not that of the fresh episode."""
    steps, _, _ = collected
    times = np.array([0, 1, 2, 0])
    for seat in (0, 1):
        seen, led_to = (x[..., seat, 0] for x in (steps.observations, steps.final_observations))
        np.testing.assert_array_equal(seen, np.broadcast_to((100 * seat + times)[:, None, None], seen.shape))
        np.testing.assert_array_equal(led_to, seen + 1)


def test_a_time_limit_is_a_truncation_and_nothing_else(collected) -> None:
    steps, _, _ = collected
    assert not steps.terminated.any()
    np.testing.assert_array_equal(steps.truncated.all(axis=(1, 2)), [False, False, True, False])
    np.testing.assert_array_equal(steps.truncated.any(axis=(1, 2)), [False, False, True, False])


def test_the_tally_counts_whole_episodes_of_each_pair(collected) -> None:
    _, tally, playing = collected
    np.testing.assert_array_equal(tally.episodes, [[3, 2], [2, 3]])
    for i, j in np.ndindex(2, 2):
        per_episode = 111 + HORIZON * (BEST_RESPONSE_ACTIONS[i] + 0.1 * TEAMMATE_ACTIONS[j])
        np.testing.assert_allclose(tally.returns[i, j], per_episode * tally.episodes[i, j], rtol=1e-6)
        np.testing.assert_allclose(playing.returns[0, 0], 1 + BEST_RESPONSE_ACTIONS[0] + 0.1 * TEAMMATE_ACTIONS[0])


def test_conventions_are_counted_in_self_play_by_seat(collected) -> None:
    _, tally, _ = collected
    wanted = np.zeros((2, 2, 4))
    for member in range(2):
        wanted[0, member, BEST_RESPONSE_ACTIONS[member]] = 3
        wanted[1, member, TEAMMATE_ACTIONS[member]] = 3
    np.testing.assert_array_equal(tally.conventions, wanted)
