"""Finite games as tables, and what dynamic programming says about them exactly.

An environment that knows its initial distribution is enumerated once: every joint state that can be reached, where each
joint action leads, what it pays, what each seat sees. Parts of the state that only count steps until the horizon are
left out (`contract`). An episode's return is what is earned until it ends or the horizon cuts it, so everything below
is a recursion over the steps that are left:

    V_t(s) = sum_a pi(a | s) [r(s, a) + gamma V_{t+1}(s')]        V_horizon = 0

(Rahman et al. 2024, the definition of R_{i,-i}, with the sum cut at the horizon). Rewards are those that `step` pays,
in its own arithmetic; tables hold them in float64, in which sums are taken.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.special import softmax

from coverset.analysis.contract import Clock, check_resets, find_clock, read_program, state_bytes
from coverset.envs.base import Environment
from coverset.envs.conformance import check_initial_states
from coverset.policies.networks import NetworkPolicy
from coverset.types import Outcome, PyTree

MOST_STATES = 100_000
"""Beyond so many joint states a game is refused: tables and recursions would take minutes and gigabytes."""
MOST_STEPS = 10_000
"""The longest horizon of a game that is solved: every recursion goes over it step by step."""
MOST_ENTRIES = 10_000_000
"""States times steps, the size of one value function over time; a certificate holds one for each policy at once."""
BLOCK = 512
"""States that are stepped together; one size, so that one program is compiled."""


@dataclass(frozen=True)
class FiniteGame:
    """Every joint state of a game, numbered from 0 to S - 1. States in which the game is over lead nowhere."""

    name: str
    horizon: int
    initial: Float[np.ndarray, "S"]
    """p_0."""
    next_state: Int[np.ndarray, "S A B"]
    """By the actions of seat 0 and of seat 1."""
    reward: Float[np.ndarray, "S A B"]
    ended: Bool[np.ndarray, "S A B"]
    """Whether the step ends the episode; set everywhere for states in which it is over."""
    live: Bool[np.ndarray, "S"]
    """States in which there is something left to play."""
    observations: Float[np.ndarray, "O d"]
    """Every observation that any seat may make."""
    observed: Int[np.ndarray, "S 2"]
    """Which of them each seat makes."""
    conventions: Int[np.ndarray, "S 2"]
    """The convention of each seat, were the episode to end here."""
    num_conventions: int

    @property
    def num_states(self) -> int:
        return len(self.initial)


def enumerate_game(environment: Environment, *, most_states: int = MOST_STATES) -> FiniteGame:
    """Follow every joint action from every initial state; raises ValueError where the game cannot be enumerated."""
    if environment.initial_states() is None:
        name = type(environment).__name__
        raise ValueError(f"{name} cannot be enumerated: its initial_states, the distribution of its resets, is None.")
    check_length(environment)
    with np.errstate(over="ignore"):  # what overflows is found by `_check_finite`
        game = _checked_game(environment, most_states)
    check_length(environment, game.num_states)
    return game


def check_length(environment: Environment, states: int = 1) -> None:
    """Raise where a recursion over all steps and states would take minutes and gigabytes."""
    most = min(MOST_STEPS, MOST_ENTRIES // states)
    if environment.horizon > most:
        raise ValueError(
            f"{type(environment).__name__} is too long to be solved exactly: its horizon is {environment.horizon:,} "
            f"steps, and at most {most:,} are allowed; choose a shorter horizon."
        )


def _checked_game(environment: Environment, most_states: int) -> FiniteGame:
    program = read_program(environment)
    check_initial_states(environment)
    states, probabilities = jax.tree.map(np.asarray, environment.initial_states())
    check_resets(environment, states, probabilities)
    states, probabilities = _possible(states, probabilities.astype(np.float64))
    clock = find_clock(program, states, environment.horizon)
    if clock is not None:
        game, everything = _enumerate(environment, states, probabilities, clock, most_states)
        if _ends_last(environment, game, everything, clock):
            return game
    game, _ = _enumerate(environment, states, probabilities, None, most_states)
    _check_ends(game)
    return game


def _possible(states: PyTree, probabilities: Float[np.ndarray, "n"]) -> tuple[PyTree, Float[np.ndarray, "m"]]:
    """The states with which an episode may start. Probabilities that were rounded to float32 are made to sum to 1."""
    chosen = probabilities > 0
    total = probabilities.sum()
    probabilities = probabilities if abs(total - 1) < 1e-12 else probabilities / total
    return jax.tree.map(lambda x: x[chosen], states), probabilities[chosen]


def _enumerate(
    environment: Environment,
    starts: PyTree,
    probabilities: Float[np.ndarray, "n"],
    clock: Clock | None,
    most_states: int,
) -> tuple[FiniteGame, PyTree]:
    """The game and its states in order; states that differ by the clock alone are one."""
    name = type(environment).__name__
    index = _StateIndex(name, most_states, clock)
    first = index.add(starts)
    rows = list(_breadth_first(environment, index, first))
    states = index.states()
    tables = _tables(environment, states, rows)
    initial = np.bincount(first, weights=probabilities, minlength=len(tables["live"]))
    return FiniteGame(name, environment.horizon, initial, **tables), states


def _ends_last(environment: Environment, game: FiniteGame, states: PyTree, clock: Clock) -> bool:
    """Whether every episode that goes on until the last step of the horizon ends with it."""
    live = np.flatnonzero(game.live)
    for block in np.array_split(live, -(-len(live) // BLOCK)):
        here = jax.tree.map(lambda x, block=block: x[block], states)
        outcome = _step_block(environment, clock.wind(here, clock.last))
        if not (outcome.terminated | outcome.truncated).all():
            return False
    return True


def _check_ends(game: FiniteGame) -> None:
    """Raise unless the rules end every episode by the horizon, whatever is played."""
    reached = np.flatnonzero(game.initial)
    for _ in range(game.horizon):
        reached = np.unique(game.next_state[reached][~game.ended[reached]])
    if len(reached):
        raise ValueError(
            f"{game.name} cannot be enumerated: some episodes go on after its horizon, {game.horizon} steps; let step "
            "set truncated there."
        )


class _StateIndex:
    """Numbers for states, in the order of their discovery; two states are the same if all their bytes are."""

    def __init__(self, name: str, most_states: int, clock: Clock | None) -> None:
        self.name, self.most_states, self.clock = name, most_states, clock
        self.numbers: dict[bytes, int] = {}
        self.found: list[PyTree] = []

    def add(self, states: PyTree) -> Int[np.ndarray, "n"]:
        """The numbers of some states, new ones where they have not been seen."""
        if self.clock is not None:
            states = self.clock.wind(states, self.clock.first)
        rows = state_bytes(states)
        unique, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        before, numbers = len(self.numbers), np.zeros(len(unique), np.int64)
        for place in np.argsort(first):
            numbers[place] = self.numbers.setdefault(unique[place].tobytes(), len(self.numbers))
        fresh = np.sort(first[numbers >= before])
        if len(fresh):
            self.found.append(jax.tree.map(lambda x: x[fresh], states))
        if len(self.numbers) > self.most_states:
            raise ValueError(
                f"{self.name} has too many joint states to be solved exactly: {len(self.numbers):,} were found before "
                f"stopping, and at most {self.most_states:,} are allowed{self._why_so_many()}."
            )
        return numbers[inverse.reshape(-1)]

    def _why_so_many(self) -> str:
        if self.clock is not None:
            return ""
        return "; they differ by time, since no part of the state does nothing but end the episode at the horizon"

    def states(self) -> PyTree:
        """All of them, stacked in the order of their numbers."""
        self.found = [jax.tree.map(lambda *parts: np.concatenate(parts), *self.found)]
        return self.found[0]


class _Row(NamedTuple):
    """Where some states lead: their numbers, and arrays over all joint actions."""

    states: Int[np.ndarray, "n"]
    next_state: Int[np.ndarray, "n A B"]
    reward: Float[np.ndarray, "n A B"]
    ended: Bool[np.ndarray, "n A B"]


def _breadth_first(environment: Environment, index: _StateIndex, first: Int[np.ndarray, "n"]) -> Iterator[_Row]:
    """Step the states that were found until no step finds a new one from which play goes on, or time is up."""
    waiting, seen = np.unique(first), np.zeros(0, np.int64)
    for _ in range(environment.horizon):
        if not len(waiting):
            return
        known = index.states()
        reached = []
        for block in np.array_split(waiting, -(-len(waiting) // BLOCK)):
            row = _row(environment, index, jax.tree.map(lambda x, block=block: x[block], known), block)
            reached.append(row.next_state[~row.ended])
            yield row
        seen = np.union1d(seen, waiting)
        waiting = np.setdiff1d(np.concatenate(reached), seen)


def _row(environment: Environment, index: _StateIndex, states: PyTree, numbers: Int[np.ndarray, "n"]) -> _Row:
    shape = (len(numbers), *environment.num_actions)
    outcome = _step_block(environment, states)
    reward = np.asarray(outcome.reward, np.float64)
    _check_finite(environment, "step pays", reward)
    after = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), outcome.state)
    return _Row(
        states=numbers,
        next_state=index.add(after).reshape(shape),
        reward=reward,
        ended=np.asarray(outcome.terminated | outcome.truncated),
    )


def _step_block(environment: Environment, states: PyTree) -> Outcome:
    """Outcomes of up to `BLOCK` states in NumPy; see `_step_all`."""
    count = len(jax.tree.leaves(states)[0])
    padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[:1], BLOCK - count, axis=0)]), states)
    return jax.tree.map(lambda x: np.asarray(x)[:count], _step_all(environment, jax.random.key(0), padded))


def _check_finite(environment: Environment, what: str, numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{type(environment).__name__} cannot be enumerated: its {what} {numbers[~np.isfinite(numbers)][0]} in a "
            "state that can be reached; keep its numbers within the range of float32."
        )


@partial(jax.jit, static_argnums=0)
def _step_all(environment: Environment, key: jax.Array, states: PyTree) -> Outcome:
    """Outcomes of every joint action in every state; leading axes [state, action of seat 0, action of seat 1]."""
    numbers = [jnp.arange(count, dtype=jnp.int32) for count in environment.num_actions]
    actions = jnp.stack(jnp.meshgrid(*numbers, indexing="ij"), axis=-1)
    step = partial(environment.step, key)
    over_actions = jax.vmap(jax.vmap(step, in_axes=(None, 0)), in_axes=(None, 0))
    return jax.vmap(over_actions, in_axes=(0, None))(states, actions)


def _tables(environment: Environment, states: PyTree, rows: list[_Row]) -> dict[str, Any]:
    """The fields of a `FiniteGame` but for its start; states that were never stepped are over."""
    count, actions = len(jax.tree.leaves(states)[0]), environment.num_actions
    next_state = np.broadcast_to(np.arange(count)[:, None, None], (count, *actions)).copy()
    reward, ended = np.zeros((count, *actions)), np.ones((count, *actions), bool)
    live = np.zeros(count, bool)
    for row in rows:
        live[row.states] = True
        next_state[row.states], reward[row.states], ended[row.states] = row.next_state, row.reward, row.ended
    seen = np.asarray(jax.jit(jax.vmap(environment.observe))(states))
    _check_finite(environment, "observe shows", seen)
    observations, observed = np.unique(seen.reshape(2 * count, -1), axis=0, return_inverse=True)
    seats = [jax.jit(jax.vmap(lambda s, seat=seat: environment.convention(s, seat)))(states) for seat in (0, 1)]
    followed, none = np.stack([np.asarray(seat) for seat in seats], axis=1), len(environment.conventions)
    return {
        "next_state": next_state,
        "reward": reward,
        "ended": ended,
        "live": live,
        "observations": observations.astype(np.float64),
        "observed": observed.reshape(count, 2),
        # Where an episode cannot end, an environment may say anything.
        "conventions": np.where((followed >= 0) & (followed <= none), followed, none),
        "num_conventions": none,
    }


def action_probabilities(policies: NetworkPolicy, game: FiniteGame, *, seat: int) -> Float[np.ndarray, "K O a"]:
    """pi(a | o) of stacked memoryless policies for every observation of the game."""
    mlp, actions = policies.mlp, game.next_state.shape[1 + seat]
    wanted = (game.observations.shape[1], actions)
    if (mlp.sizes[0], mlp.sizes[-1]) != wanted:
        raise ValueError(
            f"policies of seat {seat} must read {wanted[0]} numbers and choose among {wanted[1]} actions to play "
            f"{game.name}, got {mlp.sizes[0]} and {mlp.sizes[-1]}."
        )
    observations = jnp.asarray(game.observations, jnp.float32)
    logits = np.asarray(jax.vmap(lambda member: member(observations))(mlp), np.float64)
    finite = np.isfinite(logits).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(
            f"policies of seat {seat} must compute finite numbers, but member {int(np.argmin(finite))} computes "
            f"{logits[~np.isfinite(logits)][0]}: its weights are not finite or too large."
        )
    return softmax(logits, axis=-1)


class PairValue(NamedTuple):
    """What the episodes of one pair are like on average."""

    returns: float
    discounted_returns: float
    length: float
    conventions: Float[np.ndarray, "2 c"]
    """How likely each seat is to follow each convention; the last is none of them."""


def evaluate_pair(
    game: FiniteGame, first: Float[np.ndarray, "O A"], second: Float[np.ndarray, "O B"], *, discount: float
) -> PairValue:
    """Exact values of two memoryless policies: the distribution of joint states, pushed forward step by step."""
    joint = first[game.observed[:, 0]][:, :, None] * second[game.observed[:, 1]][:, None, :]
    going, ending = (_matrix(game, np.where(kind, joint, 0.0)) for kind in (~game.ended, game.ended))
    alive, visits, discounted_visits = game.initial, np.zeros(game.num_states), np.zeros(game.num_states)
    for time in range(game.horizon):
        visits, discounted_visits = visits + alive, discounted_visits + discount**time * alive
        alive = going @ alive
    final = alive + ending @ visits
    reward = np.sum(joint * game.reward, axis=(1, 2))
    shares = [np.bincount(game.conventions[:, s], weights=final, minlength=game.num_conventions + 1) for s in (0, 1)]
    return PairValue(
        returns=float(visits @ reward),
        discounted_returns=float(discounted_visits @ reward),
        length=float(visits.sum()),
        conventions=np.stack(shares),
    )


def _matrix(game: FiniteGame, weights: Float[np.ndarray, "S A B"]) -> sparse.csr_array:
    """[S, S]: the weight that reaches each state (row) from each other (column)."""
    source, *actions = np.nonzero(weights)
    target = game.next_state[source, *actions]
    return sparse.csr_array((weights[source, *actions], (target, source)), shape=(game.num_states,) * 2)


@dataclass(frozen=True)
class Response:
    """What remains for seat 0 once the teammate is fixed: a decision process over joint states."""

    game: FiniteGame
    rewards: Float[np.ndarray, "S A"]
    """Expected reward of seat 0's actions."""
    transitions: sparse.csr_array
    """[S A, S]: probability of going on in a state; rows sum to less than 1 where the episode may end."""

    def action_values(self, values: Float[np.ndarray, "S"], discount: float) -> Float[np.ndarray, "S A"]:
        """One step of the recursion: Q(s, a) = r(s, a) + gamma sum_s' P(s' | s, a) V(s')."""
        return self.rewards + discount * (self.transitions @ values).reshape(self.rewards.shape)

    def observed(self, discount: float) -> Float[np.ndarray, "T S"]:
        """V*_t(s) for t = 0..horizon of a responder that sees the joint state and the time: no policy does better."""
        return self._backward(lambda values: self.action_values(values, discount).max(axis=1))

    def of_policy(self, policy: Float[np.ndarray, "O A"], discount: float) -> Float[np.ndarray, "T S"]:
        """V_t(s) for t = 0..horizon of a memoryless policy in seat 0."""
        chosen = policy[self.game.observed[:, 0]]
        return self._backward(lambda values: np.sum(chosen * self.action_values(values, discount), axis=1))

    def _backward(self, step: Any) -> Float[np.ndarray, "T S"]:
        values = [np.zeros(self.game.num_states)]
        for _ in range(self.game.horizon):
            values.append(step(values[-1]))
        return np.stack(values[::-1])


def response(game: FiniteGame, teammate: Float[np.ndarray, "O B"]) -> Response:
    """The decision process that a memoryless teammate leaves to seat 0."""
    chances = np.broadcast_to(teammate[game.observed[:, 1]][:, None, :], game.reward.shape)
    states, actions, _ = game.reward.shape
    source, action, other = np.nonzero(~game.ended & (chances > 0))
    target, row = game.next_state[source, action, other], source * actions + action
    transitions = sparse.csr_array((chances[source, action, other], (row, target)), shape=(states * actions, states))
    return Response(game, np.sum(chances * game.reward, axis=2), transitions)
