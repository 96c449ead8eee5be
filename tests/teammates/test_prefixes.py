"""Prefix cells: who acts before and after the switch, when the switch comes, and that only what follows is data."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countdown import Countdown
from coverset.envs.seats import seating
from coverset.settings import GenerateSettings
from coverset.teammates.batches import Batch, critic_batch, data_shares, estimate, seat_batch
from coverset.teammates.collect import Playing, Steps, Tally, collect, start_playing
from coverset.teammates.method import PairWeights, Prefix
from coverset.teammates.networks import Networks, init_networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.ppo import grid_loss
from coverset.teammates.prefixes import draw_prefixes
from grids import pair_of
from stubborn import stubborn

HORIZON = 3
LENGTH = 2 * HORIZON
GAME = Countdown(horizon=HORIZON)
GRID = PairGrid(2, 2, 8, 1)
SETTINGS = GenerateSettings(
    population_size=2, total_steps=1, hidden_sizes=(4,), rollout_length=LENGTH, gae_lambda=1.0, discount=1.0
)
ROW_ACTIONS, COLUMN_ACTIONS = (1, 0), (2, 1)
SELF_PLAY_FIRST = Prefix(jnp.array([[0, 1], [1, 1]]), jnp.array([[0, 1], [1, 1]]))
"""Cell (0, 1) begins with pair (1, 1), cell (1, 0) likewise; self-play has no prefix."""
OWN_PAIR = Prefix(jnp.array([[0, 0], [1, 1]]), jnp.array([[0, 1], [0, 1]]))
NOWHERE = np.array([[True, False], [False, True]])
WEIGHTS = PairWeights(*(jnp.array([[2.0, -1.0], [-0.5, 3.0]]),) * 2)

Collected = tuple[Steps, Tally, Playing]


@pytest.fixture(scope="module")
def networks() -> Networks:
    return init_networks(jax.random.key(0), GAME, SETTINGS, (2, 2))


@partial(jax.jit, static_argnames="length")
def play(networks: Networks, prefix: Prefix | None, seed: int = 1, length: int = LENGTH) -> Collected:
    key = jax.random.key(seed)
    playing = start_playing(key, GAME, GRID, networks, prefix)
    return collect(jax.random.fold_in(key, 1), GAME, GRID, networks, playing, length=length, prefix=prefix)


@pytest.fixture(scope="module")
def sure(networks: Networks) -> Networks:
    return networks._replace(
        best_responses=stubborn(networks.best_responses, ROW_ACTIONS),
        teammates=stubborn(networks.teammates, COLUMN_ACTIONS),
    )


@pytest.fixture(scope="module")
def collected(sure: Networks) -> Collected:
    return jax.device_get(play(sure, SELF_PLAY_FIRST))


def episodes(steps: Steps) -> np.ndarray:
    """`is_data` by episode: [episodes, steps, R, B]; all episodes last for the horizon."""
    return np.asarray(steps.is_data).reshape(-1, HORIZON, GRID.rows, GRID.row_size)


def test_the_prefix_acts_before_the_switch_and_the_cells_own_pair_from_it_on(collected: Collected) -> None:
    steps, _, _ = collected
    assert steps.is_data is not None
    for t, *place in np.ndindex(*steps.reward.shape):
        i, j = pair = pair_of(GRID, *place)
        if not steps.is_data[t, *place]:
            i, j = (int(x[pair]) for x in SELF_PLAY_FIRST[:2])
        assert tuple(steps.actions[t, *place]) == (ROW_ACTIONS[i], COLUMN_ACTIONS[j])


def test_log_probabilities_are_the_cells_own_pairs_wherever_they_are_data(collected: Collected) -> None:
    steps, _, _ = collected
    np.testing.assert_allclose(steps.log_p[steps.is_data], 0.0, atol=1e-6)
    assert steps.log_p[~steps.is_data].min() < -1000, "the prefix does what the cell's own pair never would"


def test_an_episode_is_a_prefix_and_then_data_with_a_switch_of_its_own(collected: Collected) -> None:
    is_data = episodes(collected[0])
    assert np.all(np.diff(is_data.astype(int), axis=1) >= 0)
    assert is_data[:, -1].all(), "the switch comes before the last step at the latest"
    switches = is_data.argmax(axis=1)
    assert np.any(switches[0] != switches[1]), "the next episode has another"


def test_cells_whose_prefix_is_their_own_pair_and_extra_self_play_have_none(collected: Collected) -> None:
    is_data = np.asarray(collected[0].is_data)
    for place in np.ndindex(GRID.rows, GRID.row_size):
        in_cell = place[1] < GRID.columns * GRID.per_pair
        if NOWHERE[pair_of(GRID, *place)] or not in_cell:
            assert is_data[:, *place].all()
    assert not is_data.all()


def test_the_switch_is_uniform_over_the_steps_up_to_the_horizon() -> None:
    draws = draw_prefixes(jax.random.key(0), GAME, GRID, SELF_PLAY_FIRST, 500)
    drawn = np.asarray(draws.switch)[:, np.asarray(GRID.best_responses() != GRID.teammates())]
    counts = np.bincount(drawn.ravel(), minlength=HORIZON)
    assert len(counts) == HORIZON
    np.testing.assert_allclose(counts / drawn.size, 1 / HORIZON, atol=5 * (0.25 / drawn.size) ** 0.5)
    assert not np.asarray(draws.switch)[:, np.asarray(GRID.best_responses() == GRID.teammates())].any()


def test_prefixes_may_be_limited_in_length_and_to_a_share_of_the_episodes() -> None:
    game = Countdown(horizon=10)
    prefix = SELF_PLAY_FIRST._replace(probability=0.25, longest_share=0.4)
    drawn = np.asarray(draw_prefixes(jax.random.key(0), game, GRID, prefix, 500).switch)
    drawn = drawn[:, np.asarray(GRID.best_responses() != GRID.teammates())]
    wanted = 0.25 * np.full(4, 0.25) + 0.75 * np.eye(4)[0]
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / drawn.size, wanted, atol=5 * (0.25 / drawn.size) ** 0.5)


@pytest.mark.parametrize(("probability", "low", "high"), [(1.0, 1.0, 1.0), (0.5, 0.3, 0.7)])
def test_own_actions_are_mixed_into_the_prefix_with_their_probability(
    sure: Networks, probability: float, low: float, high: float
) -> None:
    prefix = SELF_PLAY_FIRST._replace(own_action_probability=jnp.float32(probability))
    steps, _, _ = jax.device_get(play(sure, prefix, length=10 * HORIZON))
    rows = np.array(ROW_ACTIONS)[np.asarray(GRID.best_responses())]
    columns = np.array(COLUMN_ACTIONS)[np.asarray(GRID.teammates())]
    before = ~steps.is_data
    own = [(steps.actions[..., seat] == wanted)[before] for seat, wanted in enumerate((rows, columns))]
    # Only one seat of each prefix differs from the cell's own: (1, 1) before (0, 1) in seat 0, before (1, 0) in seat 1.
    cell = np.broadcast_to(np.asarray(GRID.best_responses()), before.shape)[before]
    for seat, row in ((0, 0), (1, 1)):
        share = own[seat][cell == row].mean()
        assert low <= share <= high
        assert own[1 - seat][cell == row].all()


def test_tallied_returns_count_only_data(collected: Collected) -> None:
    steps, tally, _ = collected
    wanted = np.zeros((2, 2))
    for place in np.ndindex(GRID.rows, GRID.row_size):
        wanted[pair_of(GRID, *place)] += np.sum(steps.reward[:, *place] * steps.is_data[:, *place])
    np.testing.assert_allclose(tally.returns, wanted, rtol=1e-5)
    np.testing.assert_array_equal(tally.episodes, [[18, 16], [16, 18]])


@jax.jit
def gradient(networks: Networks, steps: Steps) -> Networks:
    """Of all losses on a rollout; targets and advantages by the networks themselves, as in training."""
    advantage, target, _ = estimate(GRID, networks.critic, steps, (), SETTINGS)
    seats = [seat_batch(seat, seating(GAME), GRID, steps, advantage, WEIGHTS[seat], (), SETTINGS) for seat in (0, 1)]
    batch = Batch(*seats, critic_batch(GRID, steps, target, ()))
    bonuses = (jnp.full(2, 0.1), jnp.full(2, 0.1))
    return jax.grad(grid_loss, has_aux=True)(networks, GRID, batch, bonuses, 0.2)[0]


def same(left: Networks, right: Networks) -> bool:
    return all(map(np.array_equal, jax.tree.leaves(left), jax.tree.leaves(right)))


def test_nothing_before_the_switch_changes_a_gradient_and_anything_after_it_does(networks: Networks) -> None:
    steps, _, _ = play(networks, SELF_PLAY_FIRST)
    assert steps.is_data is not None
    before = ~steps.is_data
    assert before.any()
    wanted = gradient(networks, steps)

    def change(where: jax.Array) -> list[Steps]:
        other = jnp.where(where[..., None], 1 - jnp.minimum(steps.actions, 1), steps.actions)
        seen = jnp.where(where[..., None, None], -steps.observations, steps.observations)
        return [
            steps._replace(reward=jnp.where(where, steps.reward + 7.0, steps.reward)),
            steps._replace(actions=other, log_p=jnp.where(where[..., None], steps.log_p - 0.5, steps.log_p)),
            steps._replace(observations=seen),
        ]

    for changed in change(before):
        assert same(gradient(networks, changed), wanted)
    for changed in change(steps.is_data & ~steps.terminated):
        assert not same(gradient(networks, changed), wanted)


def test_every_cell_weighs_the_same_however_much_of_it_is_data(collected: Collected) -> None:
    steps, _, _ = collected
    shares = np.asarray(data_shares(GRID, jax.tree.map(jnp.asarray, steps)))
    np.testing.assert_array_equal(shares > 0, steps.is_data)
    numbers = np.random.default_rng(0).normal(size=shares.shape)
    pairs = np.stack([GRID.best_responses(), GRID.teammates()], axis=-1)
    for row in range(GRID.rows):
        means = []
        for column in range(GRID.columns):
            where = np.all(pairs == (row, column), axis=-1) & steps.is_data
            means.append(numbers[where].mean())
        np.testing.assert_allclose((numbers * shares)[:, row].mean(), np.mean(means), rtol=1e-4)


def test_prefixes_of_own_pairs_change_nothing(networks: Networks) -> None:
    """Without a prefix the same random numbers are drawn, and everything is data."""
    with_prefix, tally, _ = jax.device_get(play(networks, OWN_PAIR))
    without, wanted, _ = jax.device_get(play(networks, None))
    assert without.is_data is None
    assert with_prefix.is_data.all()
    np.testing.assert_array_equal(with_prefix.actions, without.actions)
    np.testing.assert_array_equal(with_prefix.log_p, without.log_p)
    np.testing.assert_array_equal(tally.returns, wanted.returns)


def test_a_rollout_goes_on_with_the_switches_of_the_one_before(sure: Networks) -> None:
    """Rollouts that are no multiple of the horizon: an episode that spans two of them has one switch."""

    @jax.jit
    def three_rollouts() -> Steps:
        playing = start_playing(jax.random.key(0), GAME, GRID, sure, SELF_PLAY_FIRST)
        rollouts = []
        for seed in (1, 2, 3):
            steps, _, playing = collect(
                jax.random.key(seed), GAME, GRID, sure, playing, length=4, prefix=SELF_PLAY_FIRST
            )
            rollouts.append(steps)
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *rollouts)

    steps = jax.device_get(three_rollouts())
    is_data = episodes(steps)
    assert np.all(np.diff(is_data.astype(int), axis=1) >= 0)
    assert is_data[:, -1].all()
    np.testing.assert_array_equal(steps.fresh.reshape(-1, HORIZON, *steps.fresh.shape[1:])[:, 0], True)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_prefix_policies_have_memories_of_their_own_which_episodes_clear(kind: str) -> None:
    """A prefix of the cell's own pair with networks that remember: it acts as the cell's own pair would.

    Both draw their actions independently, so what is compared is the memory, two steps into the second episode.
    """
    settings = GenerateSettings(population_size=2, total_steps=1, hidden_sizes=(4,), memory_size=3, network=kind)
    networks = init_networks(jax.random.key(0), GAME, settings, (2, 2))
    _, _, playing = jax.jit(lambda: play(networks, OWN_PAIR, length=HORIZON + 2))()
    cells = GRID.columns * GRID.per_pair
    own = jax.tree.map(lambda x: x[:, :cells].reshape(2, 2, GRID.per_pair, -1), playing.memories.best_responses)
    for mine, theirs in zip(jax.tree.leaves(own), jax.tree.leaves(playing.prefixes.memories[0]), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
        assert np.any(np.asarray(mine) != 0)
