"""The one loop of every method: reproducible, composed of single updates, and able to solve a tiny game."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.settings import GenerateSettings
from coverset.teammates.collect import Steps, collect, start_playing
from coverset.teammates.method import PairWeights
from coverset.teammates.methods.lbrdiv import LBRDiv, Multipliers
from coverset.teammates.networks import Networks
from coverset.teammates.pair_grid import PairGrid
from coverset.teammates.registry import make_method
from coverset.teammates.trainer import Trainer, TrainState

AGREE = MatrixGame(payoffs=((1.0, 0.0), (0.0, 1.0)))
SHORT = GenerateSettings(
    population_size=2,
    total_steps=3 * 36,
    hidden_sizes=(16,),
    envs_per_pair=4,
    extra_self_play=1,
    rollout_length=2,
    epochs=2,
    learning_rate=0.005,
    critic_learning_rate=0.02,
    margin=0.3,
    target_update_rate=0.5,
    normalise_advantages=False,
    entropy=0.06,
    chunk_steps=3 * 36,
)
METHOD = LBRDiv(multiplier_learning_rate=0.1, multiplier_interval=2)
TWICE = MatrixGame(payoffs=AGREE.payoffs, horizon=2)
UPDATES = 3
SEEDS = 4
CHUNKS = 100


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    return Trainer(AGREE, METHOD, SHORT)


@pytest.fixture(scope="module")
def start(trainer: Trainer) -> TrainState:
    """Untrained states of several seeds, stacked; one program serves all tests of this file."""
    return jax.jit(jax.vmap(trainer.init))(jax.vmap(jax.random.key)(jnp.arange(SEEDS)))


@pytest.fixture(scope="module")
def train_chunk(trainer: Trainer):
    return jax.jit(jax.vmap(trainer.train_chunk))


@pytest.fixture(scope="module")
def history(trainer: Trainer, start: TrainState):
    """States before, between and after three single updates, and what the updates reported."""
    update = jax.jit(jax.vmap(trainer.update))
    states, reports = [start], []
    for _ in range(UPDATES):
        state, report = update(states[-1])
        states.append(state)
        reports.append(report)
    again, _ = update(start)
    return states, reports, again


def first_seed(tree):
    return jax.tree.map(lambda x: x[0], tree)


def on_host(state):
    return jax.device_get(jax.tree.leaves(state._replace(key=jax.random.key_data(state.key))))


def test_sizes_are_those_the_tests_count_on(trainer: Trainer) -> None:
    assert trainer.grid.num_envs == 2 * (2 * 4 + 1)
    assert trainer.schedule.steps_per_update == 2 * 2 * (2 * 4 + 1) == 36
    assert trainer.schedule.updates_per_chunk == trainer.schedule.num_updates == UPDATES


def test_progress_goes_by_updates_or_by_how_long_all_pairs_have_been_settled(start: TrainState) -> None:
    patient = Trainer(AGREE, METHOD, replace(SHORT, stop_patience=4))
    state = first_seed(start)._replace(update=jnp.int32(1), settled=jnp.int32(2))
    assert patient.schedule.num_chunks * patient.schedule.updates_per_chunk == 3
    assert patient.progress(state) == 0.5
    assert patient.progress(state._replace(update=jnp.int32(3))) == 1.0
    assert patient.progress(state._replace(settled=jnp.int32(4))) == 1.0
    assert Trainer(AGREE, METHOD, SHORT).progress(state) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("changes", "settled", "entropy", "rate"),
    [
        ({}, 0, 0.4, 1.0),
        ({"anneal": True}, 0, 0.4, 0.5),
        ({"stop_patience": 4}, 2, 0.4, 1.0),
        ({"stop_patience": 4}, 3, 0.3, 0.5),
        ({"stop_patience": 4, "anneal": True}, 3, 0.3, 0.125),
        ({"stop_patience": 4}, 4, 0.2, 0.0),
    ],
)
def test_pace_slows_as_a_run_settles(start: TrainState, changes, settled: int, entropy: float, rate: float) -> None:
    """Half of the updates are done: the entropy bonus falls and, with `anneal`, so have the learning rates."""
    settings = replace(SHORT, entropy=0.4, entropy_final=0.2, **changes)
    trainer = Trainer(AGREE, METHOD, settings)
    half = jnp.float32(0.5 * trainer.schedule.num_updates)
    pace = trainer.pace(first_seed(start)._replace(update=half, settled=jnp.int32(settled)))
    np.testing.assert_allclose(pace, (entropy, rate), rtol=1e-6)


def test_the_same_key_gives_the_same_update(history) -> None:
    states, _, again = history
    for left, right in zip(on_host(states[1]), on_host(again), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(states[1].update, 1)
    assert not np.array_equal(jax.random.key_data(states[0].key), jax.random.key_data(states[1].key))


def test_seeds_lead_to_different_networks(history) -> None:
    weights = np.asarray(history[0][0].optimised.networks.teammates.weights[0])
    assert len(np.unique(weights[:, :, 0, 0])) == SEEDS * SHORT.population_size


def test_a_chunk_is_its_updates_one_after_the_other(train_chunk, history) -> None:
    states, reports, _ = history
    state, metrics = train_chunk(states[0])
    for left, right in zip(on_host(state), on_host(states[-1]), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(metrics.tally.episodes, sum(report.tally.episodes for report in reports))
    np.testing.assert_allclose(metrics.tally.returns, sum(report.tally.returns for report in reports))
    losses = [report.losses.critic for report in reports]
    np.testing.assert_allclose(metrics.losses.critic, np.mean(losses, axis=0), rtol=1e-4)
    np.testing.assert_allclose(metrics.pair_values, reports[-1].pair_values, rtol=1e-4)
    assert np.all(metrics.finite)
    assert not np.any(metrics.restarted), "without patience no pair restarts"


def test_pair_values_are_the_new_critics_estimates_of_every_pair(history) -> None:
    """The game shows nothing, so every state is the same and the estimate is one value of the critic."""
    states, reports, _ = history
    critic, found = first_seed((states[1].optimised.networks.critic, reports[0].pair_values))
    for i, j in np.ndindex(2, 2):
        wanted = critic.step(jnp.ones((2, 1)), (), critic.identity(jnp.int32(i), jnp.int32(j)))[0]
        np.testing.assert_allclose(found[i, j], wanted, rtol=1e-4)


def test_multipliers_move_by_the_pair_values_every_few_updates(history) -> None:
    states, reports, _ = history
    for before, after, report, due in zip(states, states[1:], reports, (False, True, False), strict=False):
        descend = jax.vmap(partial(METHOD.descend, margin=SHORT.margin))
        wanted = descend(before.method, report.pair_values) if due else before.method
        for left, right in zip(after.method, wanted, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-6)
    assert float(jnp.max(states[2].method.other_teammate)) > 0


def test_the_target_critic_follows_by_its_rate(history) -> None:
    states, _, _ = history
    old, new, critic = states[1].target_critic, states[2].target_critic, states[2].optimised.networks.critic
    for moved, before, goal in zip(*map(jax.tree.leaves, (new, old, critic)), strict=True):
        np.testing.assert_allclose(moved, 0.5 * before + 0.5 * goal, atol=1e-6)


@pytest.mark.parametrize(("rate", "uses_target"), [(0.5, True), (1.0, False)])
def test_the_critics_targets_come_from_the_target_critic_if_there_is_one(trainer, history, rate, uses_target) -> None:
    """Episodes of two rounds: the first is bootstrapped by the critic in charge, advantages by the critic itself."""
    other = Trainer(TWICE, trainer.method, replace(SHORT, target_update_rate=rate, gae_lambda=0.0))
    state = first_seed(history[0][-1])
    steps = play(other.grid, state.optimised.networks)
    shifted = jax.tree.map(lambda x: x + 0.5, state.target_critic)
    weights = PairWeights(jnp.eye(2), jnp.eye(2))
    before, after = (other.batch(s, steps, weights)[0] for s in (state, state._replace(target_critic=shifted)))
    np.testing.assert_array_equal(before.teammates.weighted_advantage, after.teammates.weighted_advantage)
    moved = np.abs(np.asarray(after.critic.target - before.critic.target))
    assert bool((moved[:, 0] > 0).all()) == uses_target
    assert not moved[:, 1].any()


@partial(jax.jit, static_argnums=0)
def play(grid: PairGrid, networks: Networks) -> Steps:
    playing = start_playing(jax.random.key(0), TWICE, grid, networks)
    return collect(jax.random.key(0), TWICE, grid, networks, playing, length=2)[0]


def test_multipliers_may_be_moved_by_values_of_the_batch(trainer: Trainer, history) -> None:
    other = Trainer(AGREE, trainer.method, replace(SHORT, value_states="batch", value_samples=5))
    state = first_seed(history[0][1])
    critic = state.optimised.networks.critic
    steps = play(other.grid, state.optimised.networks)._replace(observations=jnp.full((2, 2, 9, 2, 1), 3.0))
    found, _ = other.team_values(jax.random.key(0), critic, steps)
    wanted = critic.step(jnp.full((2, 1), 3.0), (), critic.identity(jnp.int32(1), jnp.int32(0)))[0]
    np.testing.assert_allclose(found[1, 0], wanted, rtol=1e-5)


ON_THE_SQUARE = ["lbrdiv", "brdiv", "lipo", "independent"]
"""Methods of the paper; test_battery.py has all."""


@pytest.fixture(scope="module")
def solved(trainer: Trainer, start: TrainState, train_chunk):
    """Every method on the game of agreement for several seeds; methods with constant weights share one program."""
    constant = [name for name in ON_THE_SQUARE if name != "lbrdiv"]
    weights = [make_method(name).init(jax.random.key(0), trainer.world) for name in constant]
    together = jax.tree.map(lambda x: jnp.concatenate([x] * len(constant)), start)
    together = together._replace(method=jnp.repeat(jnp.stack(weights), SEEDS, axis=0))
    other = jax.jit(jax.vmap(Trainer(AGREE, make_method("brdiv"), SHORT).train_chunk))
    returns, _ = train(other, together)
    returns_of = dict(zip(constant, np.split(returns, len(constant)), strict=True))
    returns_of["lbrdiv"], multipliers = train(train_chunk, start)
    return returns_of, multipliers


def train(chunk, state: TrainState):
    """The returns of every pair by the final policies, exactly, [seeds, K, K]; and what the method remembers."""
    for _ in range(CHUNKS):
        state, _ = chunk(state)
    networks, one = state.optimised.networks, jnp.ones((1, 1))
    seats = [jax.nn.softmax(jax.vmap(jax.vmap(lambda mlp: mlp(one)[0]))(stack)) for stack in networks[:2]]
    payoffs = jnp.array(AGREE.payoffs)
    return np.asarray(jnp.einsum("sia,ab,sjb->sij", seats[0], payoffs, seats[1])), jax.device_get(state.method)


@pytest.mark.parametrize("method", ON_THE_SQUARE)
def test_every_method_finds_the_best_payoff_in_self_play_for_every_seed(solved, method: str) -> None:
    returns = solved[0][method]
    assert returns.shape == (SEEDS, 2, 2)
    assert np.diagonal(returns, axis1=1, axis2=2).min() > 0.9


@pytest.mark.parametrize("method", [name for name in ON_THE_SQUARE if name != "independent"])
def test_every_method_but_self_play_alone_keeps_its_pairs_apart(solved, method: str) -> None:
    returns = solved[0][method]
    assert returns[:, ~np.eye(2, dtype=bool)].max() < 0.1


def test_multipliers_return_to_zero_once_the_constraints_hold(solved) -> None:
    _, multipliers = solved
    assert isinstance(multipliers, Multipliers)
    assert max(np.max(x) for x in multipliers) < 0.05


def test_one_policy_per_pair_stays_one_and_learns_from_both_seats() -> None:
    shared = replace(SHORT, share_pair_parameters=True, fourier_bandwidth=1.0)
    trainer = Trainer(AGREE, METHOD, shared)
    start = trainer.init(jax.random.key(0))
    state, metrics = jax.jit(trainer.train_chunk)(start)
    networks = state.optimised.networks
    for mine, theirs in zip(*map(jax.tree.leaves, (networks.best_responses, networks.teammates)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(networks.teammates.weights[0], start.optimised.networks.teammates.weights[0])
    assert np.all(metrics.finite)
