"""Recurrent policies and critics in training: what is recomputed for the loss is what was computed while playing.

Rollouts of four steps cross the ends of episodes of three, and start in the middle of episodes.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countdown import Countdown
from coverset.learning.losses import log_probabilities
from coverset.settings import GenerateSettings
from coverset.teammates.batches import Batch, estimate, take_part
from coverset.teammates.collect import Steps, collect
from coverset.teammates.method import PairWeights
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.networks import Networks
from coverset.teammates.ppo import actor_loss, critic_loss
from coverset.teammates.trainer import Trainer, TrainState

HORIZON, LENGTH, K = 3, 4, 2
HEAD = 300.0
"""Policies start nearly uniform; larger heads make what they remember visible."""
WEIGHTS = PairWeights(jnp.ones((K, K)), jnp.ones((K, K)))


class Echo(Countdown):
    """Observes random numbers, which differ between seats, in place of the time."""

    def observe(self, state):
        key = jax.random.fold_in(jax.random.key(7), state.seen[0] * 10 + state.seen[1] * 3 + state.time)
        return jax.random.normal(key, (2, 1))


def make_trainer(**changes: Any) -> Trainer:
    chosen = {
        "population_size": K, "total_steps": 1, "hidden_sizes": (5,), "memory_size": 4, "envs_per_pair": 2,
        "extra_self_play": 2, "rollout_length": LENGTH, "epochs": 2, "minibatches": 2, **changes,
    }  # fmt: skip
    return Trainer(Echo(horizon=HORIZON), LBRDiv(), GenerateSettings(**chosen))


def enlarge(networks: Networks) -> Networks:
    """Larger heads for all policies that have one."""
    scale = lambda stack: jax.tree_util.tree_map_with_path(  # noqa: E731
        lambda path, x: HEAD * x if ".head" in jax.tree_util.keystr(path) else x, stack
    )
    return networks._replace(best_responses=scale(networks.best_responses), teammates=scale(networks.teammates))


KINDS = [("gru", "gru"), ("lstm", "lstm"), ("gru", "dense"), ("dense", "lstm")]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def played(request) -> tuple[Trainer, TrainState, Steps, Batch]:
    """A rollout that starts in the middle of episodes, after another."""
    trainer = make_trainer(network=request.param[0], critic_network=request.param[1])

    @jax.jit
    def play(key):
        state = trainer.init(key)
        networks = enlarge(state.optimised.networks)
        state = state._replace(optimised=state.optimised._replace(networks=networks))
        for number in range(2):
            steps, _, playing = collect(
                jax.random.key(number), trainer.environment, trainer.grid, networks, state.playing, length=LENGTH
            )
            batch, memories, _ = trainer.batch(state, steps, WEIGHTS)
            before = state
            state = state._replace(playing=playing, critic_memories=memories)
        return before, steps, batch

    return trainer, *play(jax.random.key(0))


def parts(trainer: Trainer, batch: Batch) -> list[tuple[Batch, Any]]:
    """The whole rollout, and a minibatch of environments in another order."""
    chosen = jnp.array([5, 0, 2])
    assert trainer.grid.row_size == 6
    return [(batch, None), (take_part(batch, chosen, trainer.settings, recurrent=True), chosen)]


@pytest.mark.parametrize("seat", [0, 1])
def test_log_probabilities_of_the_loss_are_those_of_the_rollout(played, seat: int) -> None:
    trainer, state, _, batch = played
    networks = state.optimised.networks[seat]
    for part, _ in parts(trainer, batch):
        own = part[seat]
        logits = actor_loss(networks, own, jnp.zeros(K), 0.2)[2]
        np.testing.assert_allclose(log_probabilities(logits, own.actions), own.log_p, atol=1e-4)
        if networks.recurrent:
            late = own._replace(fresh=jnp.roll(own.fresh, 1, axis=1))
            forgetful = own._replace(memory=jax.tree.map(jnp.zeros_like, own.memory))
            for wrong in (late, forgetful):
                other = log_probabilities(actor_loss(networks, wrong, jnp.zeros(K), 0.2)[2], own.actions)
                assert np.abs(np.asarray(other - own.log_p)).max() > 1e-3, "the test could not fail"


def test_the_critics_values_in_its_loss_are_those_of_the_advantages(played) -> None:
    trainer, state, steps, batch = played
    critic = state.optimised.networks.critic
    advantage, target, _ = estimate(trainer.grid, critic, steps, state.critic_memories.critic, trainer.settings)
    values = jnp.swapaxes(target - advantage, 0, 1)
    for part, chosen in parts(trainer, batch):
        own = values if chosen is None else values[:, :, chosen]
        assert float(critic_loss(critic, trainer.grid, part.critic._replace(target=own))) < 1e-6
        assert float(critic_loss(critic, trainer.grid, part.critic._replace(target=own + 1.0))) > 0.5


def test_episodes_start_inside_the_rollout_and_memories_are_cleared_exactly_there(played) -> None:
    _, state, steps, _ = played
    fresh = np.asarray(steps.fresh)
    np.testing.assert_array_equal(
        fresh, np.broadcast_to(np.array([False, False, True, False])[:, None, None], fresh.shape)
    )
    if state.optimised.networks.best_responses.recurrent:
        for leaf in jax.tree.leaves(state.playing.memories):
            assert np.all(np.any(np.asarray(leaf) != 0, axis=-1)), "one step of an episode is behind everybody"


def test_memories_are_empty_where_an_episode_has_just_ended() -> None:
    trainer = make_trainer(network="gru", rollout_length=HORIZON)
    state = trainer.init(jax.random.key(0))

    def play(length: int):
        networks, grid = state.optimised.networks, trainer.grid
        key = jax.random.key(1)
        return jax.jit(lambda: collect(key, trainer.environment, grid, networks, state.playing, length=length)[2])()

    at_the_end, one_before = play(HORIZON), play(HORIZON - 1)
    assert at_the_end.fresh.all()
    assert not one_before.fresh.any()
    for empty, full in zip(*map(jax.tree.leaves, (at_the_end.memories, one_before.memories)), strict=True):
        np.testing.assert_array_equal(empty, 0.0)
        assert np.any(np.asarray(full) != 0.0)


def test_minibatches_over_environments_train_and_every_epoch_uses_each_environment_once() -> None:
    trainer = make_trainer(network="gru", critic_network="lstm", target_update_rate=0.5)
    start = trainer.init(jax.random.key(0))
    state, metrics = jax.jit(trainer.update)(start)
    assert bool(metrics.finite)
    assert int(state.optimised.moments.critic.count) == 2 * 2
    assert metrics.pair_values.shape == (K, K)
    for role in ("best_responses", "teammates"):
        before, after = (getattr(s.optimised.networks, role) for s in (start, state))
        assert np.all(np.any(np.asarray(before.recurrent_weight != after.recurrent_weight), axis=(1, 2)))


def test_minibatches_that_do_not_divide_the_environments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"minibatches must divide the 6 environments of one policy, got 4\.$"):
        make_trainer(network="gru", minibatches=4)
