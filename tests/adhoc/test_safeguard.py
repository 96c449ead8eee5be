"""The regret of a safeguarded agent is bounded whatever is suggested, and suggestions are followed while that holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.safeguard import (
    ArmRecord,
    Limits,
    budget,
    may_follow,
    note_episode,
    regret_bound,
    start_record,
    upper_bounds,
)

LIMITS = Limits(-2.0, 3.0, 0.1)
MEANS = jnp.array([0.1, 0.8, 0.3])
"""Of the arms, as shares of the range."""


def play(key: jax.Array, suggestion: int, episodes: int) -> tuple[jax.Array, jax.Array, ArmRecord]:
    """Returns of all episodes, whether each was suggested, and the record; a suggestion is always the same arm."""

    def episode(record: ArmRecord, key: jax.Array):
        suggested = may_follow(record, LIMITS)
        arm = jnp.where(suggested, suggestion, jnp.argmax(upper_bounds(record, LIMITS)))
        earned = jnp.where(jax.random.bernoulli(key, MEANS[arm]), LIMITS.high, LIMITS.low)
        return note_episode(record, LIMITS, arm, earned, suggested), (earned, suggested)

    record, (earned, suggested) = jax.lax.scan(episode, start_record(len(MEANS)), jax.random.split(key, episodes))
    return earned, suggested, record


def regrets(earned: jax.Array) -> np.ndarray:
    best = LIMITS.low + float(MEANS.max()) * (LIMITS.high - LIMITS.low)
    return np.cumsum(best - np.asarray(earned), axis=-1)


@pytest.mark.parametrize("suggestion", [0, 1, 2])
def test_regret_keeps_to_its_bound_at_all_times_whatever_is_suggested(suggestion: int) -> None:
    keys = jax.random.split(jax.random.key(suggestion), 20)
    earned, suggested, record = jax.vmap(lambda key: play(key, suggestion, 8000))(keys)
    bounds = np.array([regret_bound(t, len(MEANS), LIMITS) for t in (1.0, 20.0, 500.0, 8000.0)])
    held = regrets(earned)[:, [0, 19, 499, 7999]] <= bounds
    assert held.all(axis=1).mean() >= 1 - 2 * LIMITS.confidence
    assert np.all(record.charged <= budget(8000.0, len(MEANS), LIMITS) * 1.001)
    assert bool(suggested[:, :20].all()), "within the trials of the paper, every suggestion is followed"
    assert bounds[-1] < 8000 * (LIMITS.high - LIMITS.low) * 0.8, "the bound says something"


def test_the_worst_suggestion_is_followed_ever_less_and_without_the_safeguard_would_break_the_bound() -> None:
    earned, suggested, _ = play(jax.random.key(0), 0, 20_000)
    assert float(suggested[10_000:].mean()) < 0.6 * float(suggested[:1000].mean())
    always = 0.7 * (LIMITS.high - LIMITS.low) * np.arange(1, 20_001)
    assert always[-1] > regret_bound(20_000.0, len(MEANS), LIMITS) > regrets(earned)[-1]


def test_intervals_hold_and_shrink() -> None:
    unplayed = start_record(2)
    np.testing.assert_allclose(upper_bounds(unplayed, LIMITS), 3.0)
    plays = jnp.array([400.0, 10.0])
    record = unplayed._replace(counts=plays, sums=plays * 2.0)
    upper = np.asarray(upper_bounds(record, LIMITS))
    reach = 5.0 * np.sqrt(np.log(np.pi**2 * 2 * 400**2 / 0.3) / 800)
    np.testing.assert_allclose(upper[0], reach, rtol=1e-5)
    assert upper[0] < upper[1] <= 3.0


def test_the_budget_is_linear_at_first_and_grows_like_a_root() -> None:
    for t in (1.0, 5.0, 20.0):
        assert float(budget(t, 4, LIMITS)) == pytest.approx(5.0 * t)
    assert float(budget(4e6, 4, LIMITS) / budget(1e6, 4, LIMITS)) < 2.2
