"""Training with three seats, rewards by seat and legal actions, each piece compared with a slow loop."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.conformance import check_environment
from coverset.envs.matrix import MatrixGame
from coverset.envs.seats import PASS_ACTION, seating
from coverset.evaluation.cross_play import cross_play
from coverset.learning.losses import entropy
from coverset.settings import GenerateSettings
from coverset.teammates.batches import Batch, objective_rewards
from coverset.teammates.collect import Steps, Tally, collect
from coverset.teammates.method import PairWeights
from coverset.teammates.methods.independent import Independent
from coverset.teammates.methods.lbrdiv import LBRDiv
from coverset.teammates.networks import Networks, num_value_heads
from coverset.teammates.ppo import actor_loss
from coverset.teammates.trainer import Trainer, TrainState
from coverset.types import Percept
from grids import pair_of
from relay import SIZES, Relay, legal_table

K, LENGTH = 2, 5
GAME = Relay()
WEIGHTS = jnp.array([[3.0, -0.5], [-1.0, 2.0]])
HEAD = 100.0
"""Policies start nearly uniform; larger heads make seats and members differ."""


def make_trainer(**changes: Any) -> Trainer:
    chosen = {
        "population_size": K, "total_steps": 1, "hidden_sizes": (5,), "memory_size": 4, "envs_per_pair": 2,
        "extra_self_play": 1, "rollout_length": LENGTH, "epochs": 1, "discount": 0.9, "own_reward_scale": 0.5,
        **changes,
    }  # fmt: skip
    return Trainer(GAME, LBRDiv(), GenerateSettings(**chosen))


def enlarge(networks: Networks) -> Networks:
    """The same networks with larger outputs."""

    def scale(stack: Any) -> Any:
        is_head = lambda path: any(name in jax.tree_util.keystr(path) for name in ("weights[1]", "head"))  # noqa: E731
        return jax.tree_util.tree_map_with_path(lambda path, x: HEAD * x if is_head(path) else x, stack)

    return networks._replace(best_responses=scale(networks.best_responses), teammates=scale(networks.teammates))


KINDS = [("shared", "dense"), ("separate", "dense"), ("shared", "gru"), ("separate", "gru")]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def played(request) -> tuple[Trainer, TrainState, Steps, Tally, Batch]:
    """A rollout of five steps, which crosses the end of episodes of four."""
    trainer = make_trainer(team_networks=request.param[0], network=request.param[1])

    @jax.jit
    def play(key):
        state = trainer.init(key)
        networks = enlarge(state.optimised.networks)
        state = state._replace(optimised=state.optimised._replace(networks=networks))
        steps, tally, _ = collect(key, GAME, trainer.grid, networks, state.playing, length=LENGTH)
        return state, steps, tally, trainer.batch(state, steps, PairWeights(WEIGHTS, WEIGHTS))[0]

    state, *seen = play(jax.random.key(0))
    return trainer, state, *jax.device_get(seen)  # pyright: ignore[reportReturnType]


def test_the_game_keeps_the_contract() -> None:
    check_environment(GAME, quick=True)


def test_every_seat_of_an_environment_is_played_by_its_pair_and_only_legally(played) -> None:
    """Log-probabilities by policies as they are saved, one environment, seat and step after the other."""
    trainer, state, steps, _, _ = played
    rows, columns = trainer.population(state)
    table = legal_table()
    act = jax.jit(lambda policy, percept, memory: policy.logits(percept, memory))
    seen_log_p = []
    for place in np.ndindex(trainer.grid.rows, trainer.grid.row_size):
        i, j = pair_of(trainer.grid, *place)
        members = [jax.tree.map(lambda x, n=n: x[n], stack) for stack, n in ((rows, i), (columns, j), (columns, j))]
        memories = [member.initial_memory() for member in members]
        for t in range(LENGTH):
            for seat, size in enumerate(SIZES):
                legal = table[t % 4, seat, : max(SIZES[1:]) if seat else size].copy()
                if not legal.any():
                    legal[PASS_ACTION] = True
                percept = Percept(
                    jnp.asarray(steps.observations[t, *place, seat]), jnp.float32(0), jnp.bool_(t % 4 == 0),
                    jnp.asarray(legal), jnp.int32(seat),
                )  # fmt: skip
                logits, memories[seat] = act(members[seat], percept, memories[seat])
                action = int(steps.actions[t, *place, seat])
                assert legal[action]
                np.testing.assert_array_equal(steps.legal[t, *place, seat, : len(legal)], legal)
                log_p = float(jax.nn.log_softmax(logits)[action])
                np.testing.assert_allclose(steps.log_p[t, *place, seat], log_p, rtol=1e-4, atol=1e-5)
                seen_log_p.append(log_p)
    assert min(seen_log_p) < -0.2, "policies must not all be sure, or this test could not fail"


def test_rewards_are_split_between_the_ego_and_its_team(played) -> None:
    _, _, steps, tally, _ = played
    for t, *place in np.ndindex(*steps.reward.shape):
        done = int(steps.actions[t, *place, t % 4 % 3])
        np.testing.assert_allclose(steps.reward[t, *place], 1.0 + done)
        np.testing.assert_allclose(steps.team_rewards[t, *place], [2.0 * (1 + done), 3.0 * (1 + done)])
    first_episode = steps.reward[:4].sum(axis=0)
    np.testing.assert_allclose(tally.returns.sum(), first_episode.sum(), rtol=1e-6)
    np.testing.assert_array_equal(tally.episodes, [[3, 2], [2, 3]])


def test_a_team_follows_a_convention_if_all_its_seats_do(played) -> None:
    trainer, _, steps, tally, _ = played
    wanted = np.zeros((2, K, 3))
    for place in np.ndindex(trainer.grid.rows, trainer.grid.row_size):
        i, j = pair_of(trainer.grid, *place)
        if i == j:
            ego, one, other = (min(int(a), 1) for a in steps.actions[3, *place])
            wanted[0, i, ego] += 1
            wanted[1, j, one if one == other else 2] += 1
    np.testing.assert_array_equal(tally.conventions, wanted)


def slow_advantages(trainer: Trainer, state: TrainState, steps: Steps) -> np.ndarray:
    """Generalised advantages of each seat's objective, one environment after the other; [T, R, B, seats]."""
    critic, s = state.optimised.networks.critic, trainer.settings
    evaluate = jax.jit(lambda seen, i, j: critic.step(seen, (), critic.identity(i, j))[0])
    result = np.zeros((*steps.reward.shape, 3))
    for place in np.ndindex(trainer.grid.rows, trainer.grid.row_size):
        i, j = map(jnp.int32, pair_of(trainer.grid, *place))
        following = np.zeros(3)
        for t in reversed(range(LENGTH)):
            own = s.own_reward_scale * np.asarray(steps.team_rewards[t, *place])
            rewards = np.concatenate([[steps.reward[t, *place]], own])
            value, later = (
                evaluate(jnp.asarray(x[t, *place]), i, j) for x in (steps.observations, steps.final_observations)
            )
            ended = bool(steps.terminated[t, *place])
            delta = rewards + (0.0 if ended else s.discount * np.asarray(later)) - np.asarray(value)
            following = delta + (0.0 if ended else s.discount * s.gae_lambda) * following
            result[t, *place] = following
    return result


def test_batches_hold_each_policys_data_with_the_weights_of_its_objective(played) -> None:
    """w_ij A_ij for best responses; for teammates, in self-play, what each seat wants in place of the ego's return."""
    trainer, state, steps, _, batch = played
    grid, advantage = trainer.grid, slow_advantages(trainer, state, steps)
    share = np.asarray(grid.cell_shares())
    weighted = np.zeros((*steps.reward.shape, 3))
    for place in np.ndindex(grid.rows, grid.row_size):
        i, j = pair_of(grid, *place)
        weighted[:, *place] = float(WEIGHTS[i, j]) * advantage[:, *place, :1]
        if i == j:
            weighted[:, *place, 1:] += advantage[:, *place, 1:] - advantage[:, *place, :1]
    squares = np.mean(np.square(advantage), axis=0) * share[..., None]
    for member in range(K):
        own = [place for place in np.ndindex(grid.rows, grid.row_size) if pair_of(grid, *place)[0] == member]
        scale = np.sqrt(np.mean([squares[*place, 0] for place in own])) * float(WEIGHTS[member].max())
        wanted = np.stack([weighted[:, *place, 0] for place in own], axis=1) / scale
        np.testing.assert_allclose(batch.best_responses.weighted_advantage[member], wanted, rtol=1e-3, atol=1e-4)

        own = [place for place in np.ndindex(grid.rows, grid.row_size) if pair_of(grid, *place)[1] == member]
        scale = np.sqrt(np.mean([squares[place].mean() for place in own])) * float(WEIGHTS[:, member].max())
        wanted = np.stack([weighted[:, *place, 1:] for place in own], axis=1) / scale
        found = batch.teammates.weighted_advantage[member]
        assert found.shape == (LENGTH, grid.column_size, 2)
        np.testing.assert_allclose(np.sort(found, axis=1), np.sort(wanted, axis=1), rtol=1e-3, atol=1e-4)
        seen = np.stack([steps.actions[:, *place, 1:] for place in own], axis=1)
        np.testing.assert_array_equal(np.sort(batch.teammates.actions[member], axis=1), np.sort(seen, axis=1))


def test_illegal_actions_have_no_probability_no_gradient_and_no_entropy(played) -> None:
    _, state, _, _, batch = played
    networks = state.optimised.networks
    for stack, part in ((networks.best_responses, batch.best_responses), (networks.teammates, batch.teammates)):
        loss, entropies, logits = jax.jit(lambda n, b: actor_loss(n, b, jnp.ones(K), 0.2))(stack, part)
        p = np.asarray(jax.nn.softmax(logits))
        assert np.isfinite(loss)
        assert np.all(p[~part.legal] == 0.0)
        assert np.all(p[part.legal] > 0.0)
        alone = part.legal.sum(axis=-1) == 1
        np.testing.assert_array_equal(np.asarray(entropy(logits))[alone], 0.0)
        slow = -np.sum(np.where(part.legal, p * np.log(np.where(p > 0, p, 1.0)), 0.0), axis=-1)
        wanted = (part.share * slow).mean(axis=tuple(range(1, slow.ndim)))
        np.testing.assert_allclose(entropies, wanted, rtol=1e-4, atol=1e-6)


def test_what_teammates_want_is_their_own_reward_the_egos_or_a_weighted_sum(played) -> None:
    _, _, steps, _, _ = played
    for share, scale in ((0.0, 1.0), (0.25, 0.5), (1.0, 0.1)):
        settings = make_trainer(ego_reward_share=share, own_reward_scale=scale).settings
        wanted = (1 - share) * scale * steps.team_rewards + share * steps.reward[..., None]
        found = np.asarray(objective_rewards(jax.tree.map(jnp.asarray, steps), None, settings))
        np.testing.assert_allclose(found[..., 0], steps.reward)
        np.testing.assert_allclose(found[..., 1:], wanted, rtol=1e-6)


def test_the_critic_has_a_head_for_each_seat_only_where_teammates_want_something_else() -> None:
    assert num_value_heads(GAME, make_trainer().settings) == 3
    assert num_value_heads(GAME, make_trainer(ego_reward_share=1.0).settings) == 1
    assert num_value_heads(MatrixGame(), make_trainer().settings) == 1


def test_three_seats_learn_the_best_legal_play_and_their_values() -> None:
    """Each seat finds its best legal action, and the critic's heads each seat's return. Illegal play costs 1000."""
    settings = GenerateSettings(
        population_size=2, total_steps=30_000, chunk_steps=1_000_000, hidden_sizes=(16,), envs_per_pair=8,
        rollout_length=4, learning_rate=0.01, critic_learning_rate=0.01, discount=1.0, entropy=0.02, entropy_final=0.0,
        own_reward_scale=1.0,
    )  # fmt: skip
    trainer = Trainer(GAME, Independent(), settings)
    state = jax.jit(trainer.init)(jax.random.key(0))
    state, metrics = jax.jit(trainer.train_chunk)(state)
    assert np.all(np.asarray(metrics.tally.returns) >= 0.0), "somebody played an illegal action while training"
    played = cross_play(jax.random.key(1), GAME, *trainer.population(state), trials=64)
    # Seat 0 plays 1 at time 0 and at time 3, seat 1 plays 2, seat 2 plays 1: (2 + 3 + 2 + 2) (s + 1).
    returns = np.asarray(played.seat_returns).mean(axis=(2, 3))
    np.testing.assert_allclose(returns[np.arange(2), np.arange(2)], [[9.0, 18.0, 27.0]] * 2, rtol=0.03)
    critic = state.optimised.networks.critic
    start = GAME.observe(GAME.reset(jax.random.key(0)))
    for pair in range(2):
        heads = critic.step(start, (), critic.identity(jnp.int32(pair), jnp.int32(pair)))[0]
        np.testing.assert_allclose(heads, [9.0, 18.0, 27.0], rtol=0.2)


def test_seats_of_policies_are_counted_from_the_ego() -> None:
    assert seating(Relay(), 0).team == (1, 2)
    assert seating(MatrixGame(payoffs=(((0.0, 1.0),) * 2,) * 2), 2).team == (0, 1)
