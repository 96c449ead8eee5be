"""TrajeDi's divergence: closed forms, slow loops over trajectories, and the gradient of the rewards' score function."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.envs.matrix import MatrixGame
from coverset.teammates.methods.trajedi import TrajeDi, divergence_rewards
from small_world import play_rollout, small_world

GAMMAS = [0.0, 0.3, 1.0]
POLICIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])


def slow_divergence(log_p: np.ndarray, own: int, gamma: float) -> float:
    """Sum over t of log(delta_t / deltahat_t) of one trajectory; `log_p` is [K, T]."""
    total = 0.0
    for t in range(log_p.shape[1]):
        delta = [
            np.prod([np.exp(p) ** (gamma ** abs(t - s) if s != t else 1) for s, p in enumerate(row)]) for row in log_p
        ]
        total += np.log(delta[own] / np.mean(delta))
    return total


def of_trajectory(log_p: np.ndarray, own: int, gamma: float) -> np.ndarray:
    """The rewards of a single trajectory of policy `own`."""
    size = len(log_p)
    laid_out = jnp.broadcast_to(jnp.asarray(log_p, jnp.float32)[:, :, None, None], (*log_p.shape, size, 1))
    fresh = jnp.zeros((log_p.shape[1], size, 1), bool).at[0].set(True)
    return np.asarray(divergence_rewards(laid_out, fresh, gamma))[:, own, 0]


def test_in_one_state_it_is_the_jensen_shannon_divergence_whatever_gamma() -> None:
    mean = POLICIES.mean(axis=0)
    wanted = np.mean([np.sum(p * np.log(p / mean)) for p in POLICIES])
    for gamma in GAMMAS:
        found = 0.0
        for own, action in itertools.product(range(2), range(3)):
            found += 0.5 * POLICIES[own, action] * of_trajectory(np.log(POLICIES[:, [action]]), own, gamma).sum()
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_rewards_add_up_to_the_divergence_of_the_trajectory(gamma: float) -> None:
    log_p = np.log(np.random.default_rng(0).uniform(0.1, 0.9, (3, 5)))
    for own in range(3):
        rewards = of_trajectory(log_p, own, gamma)
        for end in range(1, 6):
            np.testing.assert_allclose(
                rewards[:end].sum(), slow_divergence(log_p[:, :end], own, gamma), rtol=1e-4, atol=1e-5
            )


def test_without_a_kernel_a_step_earns_its_own_log_ratio() -> None:
    log_p = np.log(np.random.default_rng(1).uniform(0.1, 0.9, (3, 4)))
    wanted = log_p[1] - np.log(np.exp(log_p).mean(axis=0))
    np.testing.assert_allclose(of_trajectory(log_p, 1, 0.0), wanted, rtol=1e-4)


def test_a_fresh_step_starts_another_trajectory() -> None:
    log_p = np.log(np.random.default_rng(2).uniform(0.1, 0.9, (2, 5)))
    laid_out = jnp.broadcast_to(jnp.asarray(log_p, jnp.float32)[:, :, None, None], (2, 5, 2, 1))
    fresh = jnp.zeros((5, 2, 1), bool).at[3].set(True)
    found = np.asarray(divergence_rewards(laid_out, fresh, 0.5))[:, 0, 0]
    parts = [of_trajectory(log_p[:, :3], 0, 0.5), of_trajectory(log_p[:, 3:], 0, 0.5)]
    np.testing.assert_allclose(found, np.concatenate(parts), rtol=1e-4, atol=1e-6)


def test_impossible_actions_of_others_give_log_k_and_nothing_infinite() -> None:
    """Policies that never do the same are log K apart at every step; log-probabilities stay finite in practice."""
    log_p = np.array([[0.0, 0.0], [-300.0, -300.0], [-300.0, -300.0]])
    np.testing.assert_allclose(of_trajectory(log_p, 0, 1.0).sum(), 2 * np.log(3), rtol=1e-5)


def test_the_score_function_of_the_rewards_is_the_gradient_of_the_divergence_of_trajectories() -> None:
    """gamma = 1, two steps of two actions: all trajectories are enumerated. The part that is left out is zero."""
    logits = jnp.asarray(np.random.default_rng(3).normal(size=(2, 2, 2)), jnp.float32)  # [policy, step, action]
    trajectories = list(itertools.product(range(2), repeat=2))

    def likelihoods(logits, actions):
        log_p = jax.nn.log_softmax(logits)
        return jnp.stack([log_p[:, t, a] for t, a in enumerate(actions)], axis=1)

    def divergence(logits):
        total = 0.0
        for actions in trajectories:
            whole = likelihoods(logits, actions).sum(axis=1)
            mean = jax.scipy.special.logsumexp(whole) - jnp.log(2.0)
            total += 0.5 * jnp.sum(jnp.exp(whole) * 2.0 * (whole - mean))  # each of two steps counts the whole
        return total

    wanted = jax.grad(divergence)(logits)
    found = np.zeros_like(wanted)
    for actions in trajectories:
        log_p = np.asarray(likelihoods(logits, actions))
        for own in range(2):
            rewards = of_trajectory(log_p, own, 1.0)
            to_go = np.cumsum(rewards[::-1])[::-1]
            for t, action in enumerate(actions):
                chances = np.exp(np.asarray(jax.nn.log_softmax(logits[own, t])))
                found[own, t] += 0.5 * np.exp(log_p[own].sum()) * to_go[t] * (np.eye(2)[action] - chances)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_bonus_compares_the_joint_policies_of_all_pairs(gamma: float) -> None:
    method = TrajeDi(diversity_weight=0.3, kernel_discount=gamma)
    world = small_world(2, MatrixGame(horizon=2), envs_per_pair=1)
    rollout = play_rollout(method, world, scale=300.0)
    found = np.asarray(method.bonus((), jnp.eye(2), rollout))
    steps, networks = rollout.steps, rollout.networks
    for row, place in np.ndindex(2, 2):
        log_p = np.zeros((2, 4))
        for member, t, seat in np.ndindex(2, 4, 2):
            stack = (networks.best_responses, networks.teammates)[seat]
            policy = jax.tree.map(lambda x, k=member: x[k], stack)
            at = (t, row, place, seat)
            log_p[member, t] += np.asarray(jax.nn.log_softmax(policy(steps.observations[at])))[int(steps.actions[at])]
        wanted = sum(slow_divergence(log_p[:, part], row, gamma) for part in (slice(0, 2), slice(2, 4)))
        np.testing.assert_allclose(found[:, row, place].sum(), 0.3 * wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("changes", [{"kernel_discount": 1.5}, {"kernel_discount": -0.1}, {"diversity_weight": -1.0}])
def test_settings_are_checked(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        TrajeDi(**changes)
