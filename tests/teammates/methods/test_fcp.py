"""FCP's checkpoints: when they are taken, which one is half way, and what is saved."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import coverset
from coverset.policies.actor import ActorPolicy
from coverset.policies.population import Population
from coverset.teammates.methods.fcp import FCP, choose_half_way
from coverset.teammates.networks import actor_spec, init_networks
from small_world import seen_values, small_world

UPDATES, WINDOWS = 32, 4
WORLD = small_world(2, total_steps=UPDATES * 8, chunk_steps=UPDATES * 8, envs_per_pair=1, rollout_length=2)
METHOD = FCP(checkpoints=WINDOWS)


def networks_of(number: int):
    """Networks all of whose entries are the number of an update."""
    drawn = init_networks(jax.random.key(0), WORLD.environment, WORLD.settings, (2, 2))
    return jax.tree.map(lambda x: jnp.full_like(x, number), drawn)


@pytest.fixture(scope="module")
def followed():
    """A run in which update u earns u in the first pair and 1 in the second, one episode each."""
    assert METHOD.schedule(WORLD.settings).num_updates == UPDATES
    state = METHOD.init(jax.random.key(0), WORLD)
    no = jnp.zeros((1, 2, 1), bool)
    for number in range(UPDATES):
        reward = jnp.array([[[number], [1]]], jnp.float32)
        steps = SimpleNamespace(reward=reward, terminated=~no, truncated=no)
        seen = seen_values(jnp.zeros((2, 2)), number, networks=networks_of(number), world=WORLD, steps=steps)
        state = METHOD.update(state, seen)
    return state


def test_windows_end_at_the_squares_of_their_shares(followed) -> None:
    """(s / 4)^2 of 32 updates: 2, 8, 18 and 32. The last update of each window leaves its networks."""
    ends = np.array([2, 8, 18, 32])
    np.testing.assert_array_equal(followed.teammates.biases[0][:, 0, 0], ends - 1)


def test_returns_are_means_over_the_episodes_of_a_window(followed) -> None:
    starts, ends = np.array([0, 2, 8, 18]), np.array([2, 8, 18, 32])
    means = [np.arange(a, b).mean() for a, b in zip(starts, ends, strict=True)]
    np.testing.assert_allclose(followed.returns[:, 0], means)
    np.testing.assert_allclose(followed.returns[:, 1], 1.0)


@pytest.mark.parametrize(
    ("returns", "chosen"),
    [
        ([0.0, 2.0, 5.0, 9.0, 10.0], 2),
        ([4.0, 6.9, 7.0, 10.0, 10.0], 2),
        ([-50.0, -40.0, -20.0, -10.0, -10.0], 2),
        ([0.0, 9.0, 1.0, 9.0, 10.0], 1),
        ([np.nan, 0.0, 3.0, 6.0, 10.0], 3),
        ([5.0, 5.0, 5.0, 5.0, 5.0], 0),
        ([5.0, 4.0, 3.0, 2.0, 1.0], 0),
        ([np.nan] * 5, 4),
    ],
)
def test_half_way_is_the_first_window_that_reaches_the_middle_of_first_and_final_return(returns, chosen) -> None:
    assert choose_half_way(np.array(returns)[:, None]).tolist() == [chosen]


def test_three_teammates_of_every_pair_are_saved_the_final_ones_first(followed) -> None:
    final = networks_of(99)
    policies = [
        ActorPolicy(stack, "dense", actor_spec(WORLD.environment, WORLD.settings, side))
        for side, stack in enumerate((final.best_responses, final.teammates))
    ]
    population = METHOD.population(followed, Population(*policies))
    saved = np.asarray(population.teammates.network.biases[0])[:, 0]
    assert saved[:2].tolist() == [99, 99]
    assert saved[2:4].tolist() == [17, 1], "the first pair reaches half of its way in the third window"
    assert saved[4:].tolist() == [0, 0], "biases of untrained networks are zero"
    assert len(population.best_responses.network.biases[0]) == 2


def test_an_agent_trains_with_all_of_them(tmp_path) -> None:
    options = {"total_steps": 2_000, "chunk_steps": 1_000, "hidden_sizes": (4,), "population_size": 2}
    (summary,) = coverset.generate("matrix", method="fcp", out=tmp_path, **options)
    assert np.shape(summary["cross_play"]) == (2, 6)
    coverset.train(tmp_path, total_steps=1_000, evaluations=0, hidden_sizes=(4,), memory_size=4)
    row = (tmp_path / "seed-0" / "rl2" / "metrics.jsonl").read_text().splitlines()[-1]
    assert len(json.loads(row)["returns_by_partner"]) == 6


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="checkpoints must be at least 2"):
        FCP(checkpoints=1)
