"""Cross-play after self-play: turns, weights and prefixes; and L-BRDiv with both guards against sabotage."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.presets import resolve_generation
from coverset.teammates.methods.adversity import TURN, Adversity, is_best_responses_turn
from coverset.teammates.methods.lbrdiv import LBRDiv, Multipliers, lagrangian_pair_weights
from coverset.teammates.methods.lbrdiv_guarded import GuardedLBRDiv
from coverset.teammates.methods.lipo import LIPO
from small_world import seen_values, small_world

WORLD = small_world(3)
VALUES = jnp.array([[9.0, 1.0, 4.0], [2.0, 8.0, 0.0], [0.0, 3.0, 7.0]])
METHOD = Adversity(alpha=0.3)


def at(updates: int, method=METHOD):
    return method.init(jax.random.key(0), WORLD)._replace(updates=jnp.int32(updates))


def test_turns_change_every_few_updates() -> None:
    turns = [bool(is_best_responses_turn(jnp.int32(update))) for update in range(3 * TURN)]
    assert turns == [True] * TURN + [False] * TURN + [True] * TURN
    state = at(TURN - 1)
    assert not is_best_responses_turn(METHOD.update(state, seen_values(VALUES)).updates)


def test_over_both_turns_weights_are_those_of_cross_play_minimisation() -> None:
    wanted = LIPO(alpha=0.3).init(jax.random.key(0), WORLD)
    turns = [METHOD.weights(at(update)) for update in (0, TURN)]
    for side in range(2):
        np.testing.assert_allclose(0.5 * (turns[0][side] + turns[1][side]), wanted, rtol=1e-6)
    np.testing.assert_allclose(turns[0].teammates, np.eye(3), err_msg="cross-play counts for the deceived side alone")
    np.testing.assert_allclose(turns[1].best_responses, np.eye(3))


@pytest.mark.parametrize(("update", "owner"), [(0, 0), (TURN, 1)])
def test_a_cell_begins_with_the_self_play_of_the_pair_whose_policy_is_deceived(update: int, owner: int) -> None:
    prefix = METHOD.prefix(at(update))
    for cell in np.ndindex(3, 3):
        assert int(prefix.best_responses[cell]) == int(prefix.teammates[cell]) == cell[owner]


@pytest.mark.parametrize("changes", [{"alpha": -1.0}, {"longest_prefix": 1.5}])
def test_settings_are_checked(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        Adversity(**changes)


def guarded(method: GuardedLBRDiv, updates: int = 0):
    a = jnp.array([[0.0, 0.1, 0.2], [0.3, 0.0, 0.4], [0.5, 0.6, 0.0]])
    state = method.init(jax.random.key(0), WORLD)
    return state._replace(
        multipliers=Multipliers(a, 2.0 * a), updates=jnp.int32(updates), compatibility=VALUES + VALUES.T
    )


def test_mixed_play_adds_to_every_pairs_own_term_and_leaves_cross_play_alone() -> None:
    method = GuardedLBRDiv(mixed_play_weight=0.5)
    state = guarded(method)
    plain, weights = lagrangian_pair_weights(state.multipliers), method.weights(state)
    np.testing.assert_allclose(np.diagonal(weights), 1.5 * np.diagonal(plain), rtol=1e-6)
    others = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(np.asarray(weights)[others], np.asarray(plain)[others])
    prefix = method.prefix(state)
    assert np.diagonal(prefix.best_responses).tolist() == np.diagonal(prefix.teammates).tolist() == [2, 0, 0]
    assert prefix.probability == pytest.approx(1 / 3)
    assert prefix.own_action_probability == 0.5


def test_the_self_play_prefix_takes_turns_with_the_lagrangians_weights() -> None:
    method = GuardedLBRDiv(guard="self-play-prefix")
    plain = lagrangian_pair_weights(guarded(method).multipliers)
    turns = [method.weights(guarded(method, update)) for update in (0, TURN)]
    for side in range(2):
        np.testing.assert_allclose(0.5 * (turns[0][side] + turns[1][side]), plain, rtol=1e-5)
    assert method.prefix(guarded(method)).best_responses.tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]


def test_multipliers_move_as_without_a_guard() -> None:
    method = GuardedLBRDiv(multiplier_learning_rate=0.2)
    state, seen = guarded(method), seen_values(VALUES, update=3)
    wanted = LBRDiv(multiplier_learning_rate=0.2).update(state.multipliers, seen)
    moved = method.update(state, seen)
    for left, right in zip(moved.multipliers, wanted, strict=True):
        np.testing.assert_array_equal(left, right)
    assert int(moved.updates) == 1
    assert set(method.report(moved)) == {"multipliers", "rival"}


def test_presets_compare_pairs_at_the_states_that_they_visit() -> None:
    settings, method = resolve_generation("reaching", "lbrdiv-guarded", "fast")
    assert settings.value_states == "batch"
    assert isinstance(method, GuardedLBRDiv)
    assert method.multiplier_learning_rate == 0.15


def test_an_unknown_guard_is_refused() -> None:
    with pytest.raises(ValueError, match="guard must be"):
        GuardedLBRDiv(guard="hope")
