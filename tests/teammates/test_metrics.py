"""A row of the log from hand-made sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countdown import Countdown
from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Tally
from coverset.teammates.method import World
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.metrics import metrics_row
from coverset.teammates.ppo import Losses
from coverset.teammates.trainer import Metrics, Trainer

SETTINGS = GenerateSettings(population_size=2, total_steps=1, margin=0.5, envs_per_pair=2, rollout_length=4)
TRAINER = Trainer(MatrixGame(), LBRDiv(), SETTINGS)


def metrics(conventions: int) -> Metrics:
    """Best response 1 met teammate 2 in no episode that ended; pair 1 plays its first convention, pair 2 wavers."""
    counts = jnp.zeros((2, 2, conventions)).at[:, 0, 0].set(4.0).at[:, 1, :2].set(2.0)
    tally = Tally(jnp.array([[4.0, 0.0], [2.0, 4.0]]), jnp.array([[40.0, 0.0], [3.0, 8.0]]), counts)
    values = jnp.array([[9.0, 1.0], [2.0, 3.0]])
    entropy = (jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4]))
    losses = Losses(entropy, jnp.float32(0.25), {"distance": jnp.float32(0.125)})
    return Metrics(tally, values, losses, jnp.bool_(True), jnp.array([False, True]), jnp.bool_(True))


@pytest.fixture(scope="module")
def row() -> dict:
    method = LBRDiv(initial_multiplier=0.75)
    state = method.init(jax.random.key(0), World(MatrixGame(), SETTINGS, 2, 2))
    return metrics_row(TRAINER, 6, metrics(4), method.report(state))


def test_chunks_are_counted_from_one(row: dict) -> None:
    assert (row["chunk"], row["update"], row["env_steps"]) == (7, 7, 7 * 2 * 2 * 2 * 4)


def test_pairs_that_restarted_are_named_by_their_place(row: dict) -> None:
    assert row["restarted"] == [2], "counted from 1"


def test_returns_are_means_over_episodes_and_unknown_where_none_ended(row: dict) -> None:
    assert row["pair_returns"] == [[10.0, None], [1.5, 2.0]]
    assert row["self_play_return"] == 6.0
    assert row["cross_play_return"] == 1.5


def test_gaps_are_those_of_the_critics_values(row: dict) -> None:
    assert row["pair_values"] == [[9.0, 1.0], [2.0, 3.0]]
    assert row["gaps"] == {
        "other_best_response": [[None, 6.5], [1.5, None]],
        "other_teammate": [[None, 7.5], [0.5, None]],
    }


def test_what_is_covered_is_read_from_self_play(row: dict) -> None:
    assert row["covers"] == ["action 1", None]
    assert row["coverage_found"] == 1


def test_entropies_losses_and_what_the_method_reports_are_passed_on(row: dict) -> None:
    assert row["entropy"] == {"best_responses": [0.1, 0.2], "teammates": [0.3, 0.4]}
    assert row["critic_loss"] == 0.25
    assert row["method"]["multipliers"]["other_teammate"] == [[0.0, 0.75], [0.75, 0.0]]
    assert row["method"]["distance"] == 0.125


def test_a_method_that_reports_nothing_has_the_numbers_of_its_loss_alone() -> None:
    assert metrics_row(TRAINER, 0, metrics(4), {})["method"] == {"distance": 0.125}


def test_an_environment_whose_coverage_set_is_unknown_has_a_log_too() -> None:
    """This one names conventions but not what they pay."""
    assert Countdown().convention_payoffs == ()
    row = metrics_row(Trainer(Countdown(), LBRDiv(), SETTINGS), 0, metrics(4), {})
    assert row["covers"] == [None, None]
    assert row["coverage_found"] == 0


def test_nothing_is_known_before_an_episode_ends() -> None:
    empty = metrics(4)._replace(tally=Tally(jnp.zeros((2, 2)), jnp.zeros((2, 2)), jnp.zeros((2, 2, 4))))
    row = metrics_row(TRAINER, 0, empty, {})
    assert row["self_play_return"] is None
    assert row["cross_play_return"] is None
    assert row["covers"] == [None, None]
    assert np.all(np.array(row["pair_returns"], object) == None)  # noqa: E711
