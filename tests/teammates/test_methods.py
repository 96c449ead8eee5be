"""Pair weights are the gradient of the paper's Lagrangian; the baselines' are those of its Appendix B."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverset.envs.matrix import MatrixGame
from coverset.presets import resolve_generation
from coverset.settings import GenerateSettings
from coverset.teammates.method import Method, Seen, World, gaps
from coverset.teammates.methods.brdiv import BRDiv
from coverset.teammates.methods.independent import Independent
from coverset.teammates.methods.lbrdiv import LBRDiv, Multipliers, lagrangian, lagrangian_pair_weights
from coverset.teammates.methods.lipo import LIPO
from coverset.teammates.registry import METHODS, make_method
from known_answers import MATRIX, WEIGHTED

MARGIN = 0.5
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([2, 4])
quick = settings(max_examples=20, deadline=None)

compiled_lagrangian = jax.jit(lagrangian, static_argnums=2)
compiled_weights = jax.jit(lagrangian_pair_weights)
compiled_gradients = jax.jit(jax.grad(lagrangian, argnums=(0, 1)), static_argnums=2)
compiled_update = jax.jit(partial(LBRDiv(multiplier_learning_rate=0.2).descend, margin=MARGIN))
compiled_gaps = jax.jit(gaps, static_argnums=1)


def world(size: int, **changes) -> World:
    """A run of a population of this size."""
    chosen = GenerateSettings(**{"population_size": size, "total_steps": 1, "margin": MARGIN, **changes})
    return World(MatrixGame(), chosen, size, size)


def begin(method: Method, size: int):
    """What a method remembers before training."""
    return method.init(jax.random.key(0), world(size))


def seen(returns: jax.Array, update: int = 0, restarted: tuple[int, ...] = (), **changes) -> Seen:
    """An update of which only the pair values and the restarts matter."""
    size = returns.shape[0]
    restarts = jnp.isin(jnp.arange(size), jnp.array(restarted, jnp.int32))
    nothing: Any = None
    return Seen(world(size, **changes), jnp.int32(update), jnp.float32(0.0), returns, nothing, nothing, restarts)


def gap_arrays(returns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both sets of gaps on the host."""
    return jax.device_get(compiled_gaps(jnp.asarray(returns), MARGIN))


def weight_array(multipliers: Multipliers) -> np.ndarray:
    """The pair weights on the host."""
    return np.asarray(compiled_weights(multipliers))


def draw(size: int, seed: int) -> tuple[np.ndarray, Multipliers]:
    """Pair returns that are not symmetric, and multipliers with zero diagonals."""
    random = np.random.default_rng(seed)
    off_diagonal = 1.0 - np.eye(size)
    a, b = random.uniform(0, 3, size=(2, size, size)) * off_diagonal
    returns = random.normal(size=(size, size)) * 5
    return returns.astype(np.float32), Multipliers(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32))


def paper_lagrangian(returns: np.ndarray, multipliers: Multipliers, margin: float) -> float:
    """The expression under the min-max of the paper's Lagrange dual, term by term."""
    a, b = (np.asarray(x, np.float64) for x in multipliers)
    total = 0.0
    for i in range(len(returns)):
        total += returns[i, i]
        for j in range(len(returns)):
            if i != j:
                total += a[i, j] * (returns[i, i] - margin - returns[j, i])
                total += b[i, j] * (returns[i, i] - margin - returns[i, j])
    return total


@quick
@given(size=sizes, seed=seeds)
def test_the_lagrangian_is_the_papers(size: int, seed: int) -> None:
    returns, multipliers = draw(size, seed)
    found = compiled_lagrangian(jnp.asarray(returns), multipliers, MARGIN)
    np.testing.assert_allclose(found, paper_lagrangian(returns, multipliers, MARGIN), rtol=1e-4, atol=1e-3)


@quick
@given(size=sizes, seed=seeds)
def test_weights_are_the_lagrangians_gradient_in_the_pair_returns(size: int, seed: int) -> None:
    returns, multipliers = draw(size, seed)
    weights = weight_array(multipliers)
    automatic, _ = compiled_gradients(jnp.asarray(returns), multipliers, MARGIN)
    np.testing.assert_allclose(weights, automatic, rtol=1e-5, atol=1e-5)
    base = paper_lagrangian(returns.astype(np.float64), multipliers, MARGIN)
    for place in np.ndindex(size, size):
        moved = returns.astype(np.float64)
        moved[place] += 1.0
        np.testing.assert_allclose(weights[place], paper_lagrangian(moved, multipliers, MARGIN) - base, atol=1e-4)


@quick
@given(size=sizes, seed=seeds)
def test_weights_are_algorithm_1_in_its_own_indices(size: int, seed: int) -> None:
    """There w^{i,j} weighs the return of best response j with teammate i."""
    _, multipliers = draw(size, seed)
    weights = weight_array(multipliers)
    a, b = jax.device_get(multipliers)
    for i in range(size):
        for j in range(size):
            others = [k for k in range(size) if k != j]
            wanted = 1 + sum(a[i, k] + b[i, k] for k in others) if i == j else -(a[i, j] + b[j, i])
            np.testing.assert_allclose(weights[j, i], wanted, rtol=1e-5)


@quick
@given(size=sizes, seed=seeds)
def test_the_gradient_in_a_multiplier_is_its_gap(size: int, seed: int) -> None:
    returns, multipliers = draw(size, seed)
    _, gradient = compiled_gradients(jnp.asarray(returns), multipliers, MARGIN)
    first, second = gap_arrays(returns)
    np.testing.assert_allclose(gradient.other_best_response, first, atol=1e-5)
    np.testing.assert_allclose(gradient.other_teammate, second, atol=1e-5)
    for i, j in np.ndindex(size, size):
        wanted = (0, 0) if i == j else (returns[i, i] - returns[j, i] - MARGIN, returns[i, i] - returns[i, j] - MARGIN)
        np.testing.assert_allclose((first[i, j], second[i, j]), wanted, atol=1e-5)


@quick
@given(size=sizes, seed=seeds, ceiling=st.sampled_from([0.7, float("inf")]))
def test_multipliers_descend_within_zero_and_the_ceiling(size: int, seed: int, ceiling: float) -> None:
    returns, multipliers = draw(size, seed)
    method = LBRDiv(multiplier_learning_rate=0.3, max_multiplier=ceiling)
    moved = method.descend(multipliers, jnp.asarray(returns), margin=MARGIN)
    for before, after, gap in zip(multipliers, moved, gap_arrays(returns), strict=True):
        wanted = np.minimum(np.maximum(np.asarray(before) - 0.3 * np.asarray(gap), 0.0), ceiling)
        np.testing.assert_allclose(after, wanted, atol=1e-5)
        np.testing.assert_array_equal(np.diagonal(after), 0.0)


def test_multipliers_grow_where_a_constraint_is_violated_and_fall_where_it_holds() -> None:
    method = LBRDiv(multiplier_learning_rate=0.5, initial_multiplier=0.25)
    moved = method.descend(begin(method, 2), jnp.array([[5.0, 6.0], [0.0, 5.0]]), margin=1.0)
    np.testing.assert_allclose(moved.other_best_response, [[0, 0.0], [1.25, 0]])
    np.testing.assert_allclose(moved.other_teammate, [[0, 1.25], [0.0, 0]])


ALTERNATIVE_MATRIX = ((10, 0, 0), (0, 6, 6), (0, 6, 6))
ALTERNATIVE_WEIGHTED = ((10, 10, 0, 0), (10, 10, 0, 0), (0, 0, 10, 10), (0, 0, 10, 10))


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0, 8.0])
@pytest.mark.parametrize(
    ("kind", "cross_play", "constant", "slope"),
    [
        (BRDiv, MATRIX, 22, 56),
        (BRDiv, ALTERNATIVE_MATRIX, 22, 64),
        (LIPO, MATRIX, 22, -16),
        (LIPO, ALTERNATIVE_MATRIX, 22, -12),
        (BRDiv, WEIGHTED, 36, 120),
        (BRDiv, ALTERNATIVE_WEIGHTED, 40, 160),
        (LIPO, WEIGHTED, 36, -48),
        (LIPO, ALTERNATIVE_WEIGHTED, 40, -40),
    ],
)
def test_the_tables_of_appendix_b_come_out_exactly(kind, cross_play, constant, slope, alpha) -> None:
    method = kind(alpha=alpha)
    weights = method.weights(begin(method, len(cross_play)))
    assert float(jnp.sum(weights * jnp.array(cross_play, jnp.float32))) == constant + slope * alpha


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 10.0])
def test_equal_frozen_multipliers_give_brdiv(size: int, alpha: float) -> None:
    fixed = LBRDiv(multiplier_learning_rate=0.0, initial_multiplier=alpha)
    returns = jnp.arange(size * size, dtype=jnp.float32).reshape(size, size)
    state = fixed.update(begin(fixed, size), seen(returns))
    constant = BRDiv(alpha=alpha)
    np.testing.assert_array_equal(fixed.weights(state), constant.weights(begin(constant, size)))


def test_without_cross_play_weight_every_method_is_independent_self_play() -> None:
    for method in (LIPO(alpha=0.0), BRDiv(alpha=0.0), LBRDiv(multiplier_learning_rate=1.0), Independent()):
        np.testing.assert_array_equal(method.weights(begin(method, 3)), np.eye(3))


def test_constant_weights_do_not_react_to_returns() -> None:
    for method in (LIPO(alpha=0.5), BRDiv(alpha=0.5), Independent()):
        state = begin(method, 2)
        np.testing.assert_array_equal(method.update(state, seen(jnp.array([[0.0, 9.0], [9.0, 0.0]]))), state)


@quick
@given(size=sizes, seed=seeds)
def test_relabelling_members_relabels_weights_gaps_and_updates(size: int, seed: int) -> None:
    returns, multipliers = draw(size, seed)
    order = np.random.default_rng(seed).permutation(size)

    def relabel(matrix):
        return matrix[np.ix_(order, order)]

    relabelled = Multipliers(*(relabel(np.asarray(x)) for x in multipliers))
    relabelled = jax.tree.map(jnp.asarray, relabelled)
    np.testing.assert_allclose(weight_array(relabelled), relabel(weight_array(multipliers)), rtol=1e-6)
    for found, wanted in zip(gap_arrays(relabel(returns)), gap_arrays(returns), strict=True):
        np.testing.assert_allclose(found, relabel(np.asarray(wanted)), atol=1e-6)
    moved = compiled_update(relabelled, jnp.asarray(relabel(returns)))
    for found, wanted in zip(moved, compiled_update(multipliers, jnp.asarray(returns)), strict=True):
        np.testing.assert_allclose(found, relabel(np.asarray(wanted)), atol=1e-6)


def test_methods_are_found_by_name_with_their_settings() -> None:
    chosen = {"multiplier_learning_rate": 0.2, "max_multiplier": 9.0}
    assert make_method("lbrdiv", **chosen) == LBRDiv(multiplier_learning_rate=0.2, max_multiplier=9.0)
    assert make_method("brdiv", alpha=0.4) == BRDiv(alpha=0.4)
    assert make_method("lipo", alpha=0.4) == LIPO(alpha=0.4)
    assert make_method("independent") == Independent()
    settings, method = resolve_generation("matrix", "lbrdiv", "fast", margin=0.7, **chosen)
    assert method == make_method("lbrdiv", **chosen)
    assert settings.margin == 0.7


def test_an_unknown_method_is_refused_with_the_list_of_the_known() -> None:
    with pytest.raises(ValueError, match=r"method must be .* got 'lbrdive'\. Did you mean 'lbrdiv'") as refusal:
        make_method("lbrdive")
    assert all(name in str(refusal.value) for name in METHODS)


def test_multipliers_of_a_pair_that_earns_nothing_yet_do_not_grow() -> None:
    """Pair 0 earns 2, pair 1 half of that, pair 2 nothing; every constraint is violated by one."""
    returns = jnp.array([[2.0, 2.5, 2.5], [2.5, 1.0, 1.5], [2.5, 1.5, 0.0]])
    method = LBRDiv(multiplier_learning_rate=0.1, multiplier_growth_exponent=2.0)
    grown = method.descend(begin(method, 3), returns, margin=0.5)
    plain = LBRDiv(multiplier_learning_rate=0.1).descend(begin(method, 3), returns, margin=0.5)
    for slow, fast in zip(grown, plain, strict=True):
        assert np.all(np.asarray(fast)[~np.eye(3, dtype=bool)] > 0)
        np.testing.assert_allclose(slow, fast * jnp.array([1.0, 0.25, 0.0])[:, None], atol=1e-6)


def test_multipliers_of_satisfied_constraints_fall_at_full_speed_however_little_a_pair_earns() -> None:
    returns = jnp.array([[4.0, 0.0], [0.0, 1.0]])
    method = LBRDiv(multiplier_learning_rate=0.1, initial_multiplier=1.0, multiplier_growth_exponent=2.0)
    for multipliers in method.descend(begin(method, 2), returns, margin=0.5):
        np.testing.assert_allclose(multipliers, [[0.0, 0.65], [0.95, 0.0]], atol=1e-6)


def test_nothing_grows_at_full_speed_before_anybody_earns_the_margin() -> None:
    method = LBRDiv(multiplier_learning_rate=0.1, multiplier_growth_exponent=1.0)
    grown = method.descend(begin(method, 2), jnp.full((2, 2), 0.05), margin=0.5)
    np.testing.assert_allclose(grown.other_teammate, 0.1 * 0.5 * 0.1 * (1 - np.eye(2)), rtol=1e-4)


RETURNS = jnp.array([[2.0, 2.5, 2.5], [2.5, 1.0, 1.5], [2.5, 1.5, 0.0]])


@pytest.mark.parametrize(("update", "due"), [(0, False), (1, False), (2, True), (5, True)])
def test_multipliers_move_every_few_updates_by_the_margin_of_the_run(update: int, due: bool) -> None:
    method = LBRDiv(multiplier_interval=3, initial_multiplier=0.5)
    state = begin(method, 3)
    moved = method.update(state, seen(RETURNS, update, margin=0.25))
    wanted = method.descend(state, RETURNS, margin=0.25) if due else state
    for left, right in zip(moved, wanted, strict=True):
        np.testing.assert_array_equal(left, right)
    assert np.array_equal(moved.other_teammate, state.other_teammate) is not due


@pytest.mark.parametrize("patience", [0, 5])
def test_a_restart_is_noticed_where_pairs_may_restart(patience: int) -> None:
    """Multipliers of a pair that earns nothing decay by 2.5 / patience an update; then the restarted pair's are set."""
    method = LBRDiv(initial_multiplier=0.25, multiplier_growth_exponent=1.0)
    state = begin(method, 3)
    moved = method.update(state, seen(RETURNS, restarted=(1,), restart_patience=patience))
    wanted = method.descend(state, RETURNS, margin=MARGIN, decay=0.5 if patience else 0.0)
    if patience:
        wanted = method.restart(wanted, jnp.array([False, True, False]))
        np.testing.assert_allclose(moved.other_teammate[1], [0.5, 0.0, 0.5])
        np.testing.assert_allclose(moved.other_teammate[2], [0.125, 0.0, 0.0])
    for left, right in zip(moved, wanted, strict=True):
        np.testing.assert_allclose(left, right)


def test_only_lbrdiv_reports_multipliers() -> None:
    method = LBRDiv(initial_multiplier=0.75)
    assert set(method.report(begin(method, 2))["multipliers"]) == {"other_best_response", "other_teammate"}
    assert LIPO().report(begin(LIPO(), 2)) == {}
