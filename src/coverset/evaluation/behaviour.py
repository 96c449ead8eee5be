"""What teammates do, in words, for games that do not name their conventions.

A game may say it itself: `Environment.describe` turns a whole episode into a few words. For any other game a teammate
is described by the action and the observation that tell it most from teammates of other kinds:

    action:       a that maximises |p_j(a) - p_others(a)|, its share of the teammate's steps
    answer:       a and x that maximise p_j(a | x high) - p_others(a | x high); told instead of the action where
                  teammates differ in how they answer what they see rather than in what they do on the whole
    observation:  x that maximises |m_j(x) - m_others(x)| / s(x), with s^2 the mean of both variances
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from coverset.checks import describe_exception, format_value
from coverset.envs.base import Environment
from coverset.envs.extensions import draw_board
from coverset.envs.seats import perceive, rewards_by_seat
from coverset.learning.rollout import seat_policies
from coverset.policies.population import Population
from coverset.policies.stacked import count_members, take_member
from coverset.policy import Policy
from coverset.types import PRNGKey, PyTree, Trajectory

EPISODES = 16
MOST_STEPS = 2048
"""Steps of an episode that are looked at."""
SEAT = 1
"""The first seat of the team."""
TELLING_SHARE = 0.1
"""Smallest difference between shares of an action that is told."""
TELLING_ANSWER = 0.2
"""By how much an answer must differ more than any action does to be told instead."""
FEWEST_STEPS = 8
"""In which an observation must be high for an answer to it to count."""
TELLING_EFFECT = 0.5
"""Smallest difference between means of an observation, in standard deviations, that is told."""


@dataclass(frozen=True)
class Habits:
    """Averages over the steps of a teammate's self-play."""

    actions: Float[np.ndarray, "a"]
    """Share of every action."""
    means: Float[np.ndarray, "d"]
    """Of the numbers that it observes."""
    variances: Float[np.ndarray, "d"]
    answers: Float[np.ndarray, "d a"] | None = None
    """In how many steps each action answers each number while that is high: above `high`."""
    high: Float[np.ndarray, "d"] | None = None


def describe_teammates(
    key: PRNGKey, environment: Environment, population: Population, kinds: Sequence[int]
) -> list[str]:
    """A few words for every teammate, from episodes with its own best response.

    Args:
      key: random key.
      environment: the game.
      population: matched pairs; teammates without a best response of their own play with the last one.
      kinds: the kind of every teammate; those of other kinds are what it is compared with.
    """
    last = count_members(population.best_responses) - 1
    keys = jax.random.split(key, len(kinds))
    played = [
        _play(keys[j], environment, take_member(population.best_responses, min(j, last)), teammate)
        for j, teammate in enumerate(take_member(population.teammates, j) for j in range(len(kinds)))
    ]
    if type(environment).describe is not Environment.describe:
        return [_ask_game(environment, trajectories) for trajectories in played]
    high = _find_middles(played)
    habits = [_average(environment, trajectories, high) for trajectories in played]
    names = _action_names(environment)
    return [
        describe_habits(own, [other for other, k in zip(habits, kinds, strict=True) if k != kind], names)
        for own, kind in zip(habits, kinds, strict=True)
    ]


def describe_habits(own: Habits, others: Sequence[Habits], names: Sequence[str]) -> str:
    """What one teammate does that others do not."""
    if not others:
        return "acts as all others do"
    shares = np.mean([other.actions for other in others], axis=0)
    means = np.mean([other.means for other in others], axis=0)
    spread = np.sqrt((own.variances + np.mean([other.variances for other in others], axis=0)) / 2)
    effect = np.abs(own.means - means) / (spread + 1e-3)
    action, seen = int(np.argmax(np.abs(own.actions - shares))), int(np.argmax(effect))
    differs = abs(own.actions[action] - shares[action])
    told = []
    if answer := _describe_answer(own, others, names, differs + TELLING_ANSWER):
        told.append(answer)
    elif differs >= TELLING_SHARE:
        told.append(f"plays {names[action]} in {own.actions[action]:.0%} of steps (others {shares[action]:.0%})")
    if effect[seen] >= TELLING_EFFECT:
        told.append(f"observation[{seen}] averages {own.means[seen]:.2g} (others {means[seen]:.2g})")
    return ", ".join(told) or "differs from others in no action or observation on average"


def _describe_answer(own: Habits, others: Sequence[Habits], names: Sequence[str], least: float) -> str | None:
    """The answer to an observation that differs most, if by `least` or more."""
    if own.answers is None or own.high is None:
        return None
    steps = own.answers, np.sum([other.answers for other in others if other.answers is not None], axis=0)
    often = np.minimum(*(counts.sum(axis=1) for counts in steps)) >= FEWEST_STEPS
    mine, theirs = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) for counts in steps)
    differs = np.where(often[:, None], mine - theirs, 0.0)
    seen, action = map(int, np.unravel_index(int(np.argmax(differs)), differs.shape))
    if differs[seen, action] < least:
        return None
    share, other = mine[seen, action], theirs[seen, action]
    when = f"when observation[{seen}] is above {own.high[seen]:.2g}"
    return f"plays {names[action]} in {share:.0%} of steps {when} (others {other:.0%})"


@eqx.filter_jit
def _play(key: PRNGKey, environment: Environment, ego: Policy, teammate: Policy) -> tuple[Trajectory, Array]:
    """Episodes of a pair, with leading axes [episodes, steps], and which of the steps were played."""
    return jax.vmap(lambda key: _play_one(key, environment, (ego, teammate)))(jax.random.split(key, EPISODES))


def _play_one(key: Key[Array, ""], environment: Environment, policies: tuple[Policy, ...]) -> tuple[Trajectory, Array]:
    seated = seat_policies(environment, policies)
    reset_key, key = jax.random.split(key)
    start = environment.reset(reset_key)
    memories = tuple(policy.initial_memory() for policy in seated)

    def step(carry: PyTree, key: PRNGKey) -> tuple[PyTree, PyTree]:
        state, memories, rewards, first, over = carry
        *act_keys, step_key = jax.random.split(key, len(seated) + 1)
        percepts = perceive(environment, state, rewards, first)
        moves = [policy.act(act_keys[s], percepts[s], memories[s]) for s, policy in enumerate(seated)]
        actions = jnp.stack([action for action, _ in moves])
        outcome = environment.step(step_key, state, actions)
        earned = rewards_by_seat(environment, outcome.reward)
        record = (outcome.state, environment.observe(state), actions, earned, ~over)
        after = (outcome.state, tuple(memory for _, memory in moves), earned, jnp.bool_(False))
        kept = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, carry[:4])
        return (*kept, over | outcome.terminated | outcome.truncated), record

    rewards = jnp.zeros(environment.num_seats)
    carry = (start, memories, rewards, jnp.bool_(True), jnp.bool_(False))
    steps = min(environment.horizon, MOST_STEPS)
    _, (after, observations, actions, earned, played) = jax.lax.scan(step, carry, jax.random.split(key, steps))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, after)
    return Trajectory(states, observations, actions, earned), played


def _seen(played: tuple[Trajectory, Array]) -> Float[np.ndarray, "n d"]:
    """What the team's first seat observed in every step that was played."""
    trajectories, steps = played
    return np.asarray(trajectories.observations, np.float64)[..., SEAT, :][np.asarray(steps)]


def _find_middles(played: Sequence[tuple[Trajectory, Array]]) -> Float[np.ndarray, "d"]:
    """Halfway between the lowest and the highest value of every number that any teammate observed."""
    seen = np.concatenate([_seen(one) for one in played])
    return (seen.min(axis=0) + seen.max(axis=0)) / 2


def _average(environment: Environment, played: tuple[Trajectory, Array], high: Float[np.ndarray, "d"]) -> Habits:
    """Habits of the team's first seat."""
    trajectories, steps = played
    actions, seen = np.asarray(trajectories.actions)[..., SEAT][np.asarray(steps)], _seen(played)
    chosen = np.eye(environment.num_actions[SEAT])[actions]
    answers = (seen > high).astype(float).T @ chosen
    return Habits(chosen.mean(axis=0), seen.mean(axis=0), seen.var(axis=0), answers, high)


def _ask_game(environment: Environment, played: tuple[Trajectory, Array]) -> str:
    """What the game says of each episode, the most frequent words first."""
    trajectories, steps = jax.device_get(played)
    lengths = np.asarray(steps).sum(axis=1)
    told = Counter(_describe_one(environment, trajectories, n, int(length)) for n, length in enumerate(lengths))
    total = sum(told.values())
    return ", ".join(f"{words} {count / total:.0%}" for words, count in told.most_common(2))


def _describe_one(environment: Environment, trajectories: Trajectory, number: int, length: int) -> str:
    """Call the game's `describe` with one episode, cut to its length."""
    states = jax.tree.map(lambda x: x[number, : length + 1], trajectories.states)
    rest = [x[number, :length] for x in trajectories[1:]]
    who = f"{type(environment).__name__}.describe"
    try:
        words = environment.describe(Trajectory(states, *rest), SEAT)
    except Exception as error:  # whatever the code of a game may raise
        raise ValueError(f"{who} fails: {describe_exception(error)}.") from error
    if not isinstance(words, str) or not words:
        raise ValueError(f"{who} must return a few words, got {format_value(words)}.")
    return " ".join(words.split())


def _action_names(environment: Environment) -> list[str]:
    """Names of the actions of the team's first seat, from the board where the game has one."""
    board = draw_board(environment)
    named = [action.name for action in board.actions[SEAT]] if board is not None else []
    count = environment.num_actions[SEAT]
    return named if len(named) == count else [f"action {action}" for action in range(count)]
