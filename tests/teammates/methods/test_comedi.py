"""CoMeDi: objective, mixed play's actions, stages in which one pair learns after another."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countdown import Countdown
from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.collect import collect, start_playing
from coverset.teammates.methods.comedi import CoMeDi, mixed_play
from coverset.teammates.networks import init_networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.trainer import Trainer
from small_world import seen_values, small_world
from stubborn import stubborn

METHOD = CoMeDi(cross_play_weight=0.7, mixed_play_weight=0.5)
WORLD = small_world(3, total_steps=600, chunk_steps=100)
VALUES = jnp.array([[9.0, 1.0, 4.0], [2.0, 8.0, 0.0], [0.0, 3.0, 7.0]])


def state_of(learner: int):
    return METHOD.init(jax.random.key(0), WORLD)._replace(learner=jnp.int32(learner), compatibility=VALUES + VALUES.T)


@pytest.mark.parametrize(("learner", "rival"), [(1, 0), (2, 0)])
def test_weights_are_the_gradient_of_the_learners_objective(learner: int, rival: int) -> None:
    """Mixed play is part of the learner's own cell; pair 3 earns 4 with pair 1 and 3 with pair 2."""

    def objective(returns):
        own = returns[learner, learner]
        return own + 0.5 * own - 0.7 * (returns[learner, rival] + returns[rival, learner])

    state = state_of(learner)
    assert int(state.rival) == rival
    gradient, weights = np.asarray(jax.grad(objective)(VALUES)), METHOD.weights(state)
    np.testing.assert_allclose(weights.best_responses[learner], gradient[learner], rtol=1e-6)
    np.testing.assert_allclose(weights.teammates[:, learner], gradient[:, learner], rtol=1e-6)
    frozen = METHOD.frozen(state)
    assert frozen.best_responses.tolist() == frozen.teammates.tolist() == [k != learner for k in range(3)]


def test_the_first_pair_plays_with_itself_alone() -> None:
    state = state_of(0)
    for weights in METHOD.weights(state)[:2]:
        np.testing.assert_allclose(weights, 1.5 * np.outer([1, 0, 0], [1, 0, 0]))
    prefix = METHOD.prefix(state)
    np.testing.assert_array_equal(prefix.best_responses, np.arange(3)[:, None].repeat(3, axis=1))


def test_a_convention_that_is_not_learned_yet_is_no_rival() -> None:
    state = state_of(1)._replace(compatibility=jnp.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]]))
    assert int(state.rival) == 0


def test_mixed_play_draws_every_seats_action_from_both_pairs_and_then_plays_on_alone() -> None:
    """Pair 0 plays (1, 2), its rival (0, 1): before the switch all four combinations are equally frequent."""
    game, grid = Countdown(horizon=4), PairGrid(2, 2, 200)
    settings = GenerateSettings(population_size=2, total_steps=1, hidden_sizes=(4,))
    networks = init_networks(jax.random.key(0), game, settings, (2, 2))
    networks = networks._replace(
        best_responses=stubborn(networks.best_responses, (1, 0)), teammates=stubborn(networks.teammates, (2, 1))
    )
    prefix = mixed_play(jnp.array([1, 1]), weight=1.0, longest_share=1.0)

    @jax.jit
    def play():
        playing = start_playing(jax.random.key(1), game, grid, networks, prefix)
        return collect(jax.random.key(2), game, grid, networks, playing, length=8, prefix=prefix)[0]

    steps = jax.device_get(play())
    actions, is_data = steps.actions[:, 0, :200], steps.is_data[:, 0, :200]
    before = actions[~is_data]
    shares = [np.mean(np.all(before == pair, axis=-1)) for pair in ((1, 2), (1, 1), (0, 2), (0, 1))]
    np.testing.assert_allclose(shares, 0.25, atol=5 * (0.1875 / len(before)) ** 0.5)
    assert np.all(actions[is_data] == (1, 2))
    starts = is_data.reshape(2, 4, -1)[:, 0].mean()  # half have no prefix, and of the others a quarter of no length
    np.testing.assert_allclose(starts, 0.5 + 0.5 / 4, atol=5 * (0.25 / 400) ** 0.5)
    assert steps.is_data[:, 1].all(), "pair 1 is its own rival"


SMALL = GenerateSettings(
    population_size=3, total_steps=1, hidden_sizes=(8,), envs_per_pair=2, rollout_length=2, epochs=1, entropy=0.0
)


def test_pairs_learn_one_after_another_and_keep_what_they_have_learned() -> None:
    """Six chunks of two updates: two chunks for each of three pairs."""
    settings = replace(SMALL, total_steps=12 * 36, chunk_steps=2 * 36)
    trainer = Trainer(MatrixGame(), METHOD, settings)
    chunk = jax.jit(trainer.train_chunk)
    state, history = trainer.init(jax.random.key(0)), []
    for _ in range(trainer.schedule.num_chunks):
        before = np.asarray(state.optimised.networks.teammates.biases[-1])
        state, _ = chunk(state)
        after = np.asarray(state.optimised.networks.teammates.biases[-1])
        history.append(np.any(before != after, axis=-1).tolist())
        state = trainer.next_stage(state)
    wanted = [[k == learner for k in range(3)] for learner in (0, 0, 1, 1, 2, 2)]
    assert history == wanted
    assert float(trainer.progress(state)) == 1.0


def test_the_mean_of_estimates_starts_anew_with_every_stage() -> None:
    state = state_of(1)._replace(updates=jnp.int32(4), start=jnp.int32(4))
    fresh = METHOD.update(state, seen_values(jnp.ones((3, 3)), update=4))
    np.testing.assert_allclose(fresh.compatibility, 2.0)
    later = METHOD.update(fresh, seen_values(jnp.zeros((3, 3)), update=5))
    np.testing.assert_allclose(later.compatibility, 1.8, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"chunk_steps": 400, "total_steps": 600}, r"^chunk_steps must be at most 200 so that each of the stages"),
        (
            {"restart_patience": 2},
            r"^restart_patience must be 0 for comedi, whose pairs learn one after another, got 2\.$",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Trainer(MatrixGame(), METHOD, replace(SMALL, **changes))


@pytest.mark.parametrize("changes", [{"cross_play_weight": -1.0}, {"mixed_play_weight": -1.0}, {"longest_prefix": 2.0}])
def test_settings_are_checked(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        CoMeDi(**changes)
