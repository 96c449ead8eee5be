"""Finite games as tables, solved exactly by dynamic programming.

An environment with known `initial_states` is enumerated once: every reachable joint state with the successors, rewards
and observations of each joint action. Leaves of the state that only count steps until the horizon are omitted
(`contract`). The return of an episode ends with it or at the horizon, so everything below is a recursion over the
remaining steps:

    V_t(s) = sum_a pi(a | s) [r(s, a) + gamma V_{t+1}(s')]        V_horizon = 0

(Rahman et al. 2024, the definition of R_{i,-i}, with the sum cut at the horizon). Rewards are
the results of `step` in its own precision; tables and sums are float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import sparse

from coverset.certificates.contract import (
    EGO,
    StepCounter,
    check_resets,
    check_solvable,
    find_step_counter,
    read_program,
    state_bytes,
)
from coverset.envs.base import Environment
from coverset.envs.conformance import check_initial_states
from coverset.envs.seats import has_common_reward, sides
from coverset.policies.actor import ActorPolicy
from coverset.policy import Policy
from coverset.types import Outcome, Percept, PyTree

MAX_HORIZON = 10_000
"""The longest horizon of a game that is solved: every recursion goes over it step by step."""
MAX_ENTRIES = 10_000_000
"""States times steps, the size of one value function over time; a certificate holds one for each policy at once."""
MAX_STATES = 100_000
"""Most joint states; tables and recursions of larger games would take minutes and gigabytes."""
BLOCK = 512
"""States stepped together; a fixed size, so that one program is compiled."""


@dataclass(frozen=True)
class FiniteGame:
    """Every joint state of a game, numbered from 0 to S - 1. States in which the game is over are absorbing."""

    name: str
    horizon: int
    initial: Float[np.ndarray, "S"]
    """p_0."""
    next_state: Int[np.ndarray, "S A B"]
    """By the actions of seat 0 and of seat 1."""
    reward: Float[np.ndarray, "S A B"]
    """The ego's, in seat 0."""
    ended: Bool[np.ndarray, "S A B"]
    """Whether the step ends the episode; True for states in which it is over."""
    live: Bool[np.ndarray, "S"]
    """States in which play continues."""
    observations: Float[np.ndarray, "O d"]
    """Every observation of either seat; shorter ones end in zeros."""
    observation_sizes: tuple[int, int]
    """How many of the d numbers each seat observes."""
    observed: Int[np.ndarray, "S 2"]
    """Index of each seat's observation."""
    conventions: Int[np.ndarray, "S 2"]
    """The convention of each seat if the episode ended in the state."""
    num_conventions: int
    knows_time: bool = False
    """Whether states tell the time, because it does more than end the episode at the horizon."""

    @property
    def num_states(self) -> int:
        return len(self.initial)


def enumerate_game(environment: Environment, *, max_states: int = MAX_STATES) -> FiniteGame:
    """Follow every joint action from every initial state; raises ValueError if the game cannot be enumerated."""
    check_solvable(environment)
    if environment.initial_states() is None:
        name = type(environment).__name__
        raise ValueError(f"{name} cannot be enumerated: its initial_states, the distribution of its resets, is None.")
    check_length(environment)
    with np.errstate(over="ignore"):  # `_check_finite` finds overflows
        game = _enumerate_checked(environment, max_states)
    check_length(environment, game.num_states)
    return game


def check_length(environment: Environment, states: int = 1) -> None:
    """Raise where a recursion over all steps and states would take minutes and gigabytes."""
    longest = min(MAX_HORIZON, MAX_ENTRIES // states)
    if environment.horizon > longest:
        raise ValueError(
            f"{type(environment).__name__} is too long to be solved exactly: its horizon is {environment.horizon:,} "
            f"steps, and at most {longest:,} are allowed; choose a shorter horizon."
        )


def _enumerate_checked(environment: Environment, max_states: int) -> FiniteGame:
    program = read_program(environment)
    check_initial_states(environment)
    states, probabilities = _read_initial_states(environment)
    check_resets(environment, states, probabilities)
    states, probabilities = _drop_impossible(states, probabilities.astype(np.float64))
    counter = find_step_counter(program, states, environment.horizon)
    if counter is not None:
        game, everything = _enumerate(environment, states, probabilities, counter, max_states)
        if _ends_at_horizon(environment, game, everything, counter):
            return game
    game, _ = _enumerate(environment, states, probabilities, None, max_states)
    _check_ends(game)
    return game


def _read_initial_states(environment: Environment) -> tuple[PyTree, Float[np.ndarray, "n"]]:
    """`initial_states` as NumPy arrays; probabilities may be any sequence of numbers."""
    given = environment.initial_states()
    assert given is not None  # `enumerate_game` has refused such a game
    return jax.tree.map(np.asarray, given[0]), np.asarray(given[1])


def _drop_impossible(states: PyTree, probabilities: Float[np.ndarray, "n"]) -> tuple[PyTree, Float[np.ndarray, "m"]]:
    """Keep states with positive probability, and normalise probabilities that were rounded to float32."""
    chosen = probabilities > 0
    total = probabilities.sum()
    probabilities = probabilities if abs(total - 1) < 1e-12 else probabilities / total
    return jax.tree.map(lambda x: x[chosen], states), probabilities[chosen]


def _enumerate(
    environment: Environment,
    starts: PyTree,
    probabilities: Float[np.ndarray, "n"],
    counter: StepCounter | None,
    max_states: int,
) -> tuple[FiniteGame, PyTree]:
    """Return the game and its states in order; states that differ only in the counter are merged.

    Args:
      starts: stacked initial states.
      probabilities: their probabilities.
      counter: leaves to ignore; None to keep time in the state.
      max_states: most joint states.
    """
    name = type(environment).__name__
    index = _StateIndex(name, max_states, counter)
    first = index.add(starts)
    rows = list(_breadth_first(environment, index, first))
    states = index.states()
    tables = _build_tables(environment, states, rows)
    initial = np.bincount(first, weights=probabilities, minlength=len(tables["live"]))
    return FiniteGame(name, environment.horizon, initial, **tables, knows_time=counter is None), states


def _ends_at_horizon(environment: Environment, game: FiniteGame, states: PyTree, counter: StepCounter) -> bool:
    """Whether every episode that reaches the last step of the horizon ends with it."""
    live = np.flatnonzero(game.live)
    for block in np.array_split(live, -(-len(live) // BLOCK)):
        here = jax.tree.map(lambda x, block=block: x[block], states)
        outcome = _step_block(environment, counter.write(here, counter.last))
        if not (outcome.terminated | outcome.truncated).all():
            return False
    return True


def _check_ends(game: FiniteGame) -> None:
    """Raise unless every episode ends by the horizon under any actions."""
    reached = np.flatnonzero(game.initial)
    for _ in range(game.horizon):
        reached = np.unique(game.next_state[reached][~game.ended[reached]])
    if len(reached):
        raise ValueError(
            f"{game.name} cannot be enumerated: some episodes continue after its horizon, {game.horizon} steps; let "
            "step set truncated there."
        )


class _StateIndex:
    """Numbers states in order of discovery; states with equal bytes are the same."""

    def __init__(self, name: str, max_states: int, counter: StepCounter | None) -> None:
        self.name, self.max_states, self.counter = name, max_states, counter
        self.numbers: dict[bytes, int] = {}
        self.found: list[PyTree] = []

    def add(self, states: PyTree) -> Int[np.ndarray, "n"]:
        """Return the numbers of states; unseen states get new ones."""
        if self.counter is not None:
            states = self.counter.write(states, self.counter.first)
        rows = state_bytes(states)
        unique, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        before, numbers = len(self.numbers), np.zeros(len(unique), np.int64)
        for place in np.argsort(first):
            numbers[place] = self.numbers.setdefault(unique[place].tobytes(), len(self.numbers))
        fresh = np.sort(first[numbers >= before])
        if len(fresh):
            self.found.append(jax.tree.map(lambda x: x[fresh], states))
        if len(self.numbers) > self.max_states:
            raise ValueError(
                f"{self.name} has too many joint states to be solved exactly: {len(self.numbers):,} were found before "
                f"stopping, and at most {self.max_states:,} are allowed{self._explain_count()}."
            )
        return numbers[inverse.reshape(-1)]

    def _explain_count(self) -> str:
        if self.counter is not None:
            return ""
        return "; they differ by time, because no part of the state only ends the episode at the horizon"

    def states(self) -> PyTree:
        """Return all states, stacked in the order of their numbers."""
        self.found = [jax.tree.map(lambda *parts: np.concatenate(parts), *self.found)]
        return self.found[0]


class _Transitions(NamedTuple):
    """Results of all joint actions in some states."""

    states: Int[np.ndarray, "n"]
    next_state: Int[np.ndarray, "n A B"]
    reward: Float[np.ndarray, "n A B"]
    ended: Bool[np.ndarray, "n A B"]


def _breadth_first(environment: Environment, index: _StateIndex, first: Int[np.ndarray, "n"]) -> Iterator[_Transitions]:
    """Step all states found so far until there are no new live states or the horizon is reached."""
    waiting, seen = np.unique(first), np.zeros(0, np.int64)
    for _ in range(environment.horizon):
        if not len(waiting):
            return
        known = index.states()
        reached = []
        for block in np.array_split(waiting, -(-len(waiting) // BLOCK)):
            row = _expand_states(environment, index, jax.tree.map(lambda x, block=block: x[block], known), block)
            reached.append(row.next_state[~row.ended])
            yield row
        seen = np.union1d(seen, waiting)
        waiting = np.setdiff1d(np.concatenate(reached), seen)


def _expand_states(
    environment: Environment, index: _StateIndex, states: PyTree, numbers: Int[np.ndarray, "n"]
) -> _Transitions:
    shape = (len(numbers), *environment.num_actions)
    outcome = _step_block(environment, states)
    reward = np.asarray(outcome.reward if has_common_reward(environment) else outcome.reward[..., EGO], np.float64)
    _check_finite(environment, "step pays", reward)
    after = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), outcome.state)
    return _Transitions(
        states=numbers,
        next_state=index.add(after).reshape(shape),
        reward=reward,
        ended=np.asarray(outcome.terminated | outcome.truncated),
    )


def _step_block(environment: Environment, states: PyTree) -> Outcome:
    """Return the outcomes of up to `BLOCK` states in NumPy; see `_step_all`."""
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
    """Return the outcomes of every joint action in every state, axes [state, action of seat 0, action of seat 1]."""
    numbers = [jnp.arange(count, dtype=jnp.int32) for count in environment.num_actions]
    actions = jnp.stack(jnp.meshgrid(*numbers, indexing="ij"), axis=-1)
    step = partial(environment.step, key)
    over_actions = jax.vmap(jax.vmap(step, in_axes=(None, 0)), in_axes=(None, 0))
    return jax.vmap(over_actions, in_axes=(0, None))(states, actions)


def _build_tables(environment: Environment, states: PyTree, rows: list[_Transitions]) -> dict[str, Any]:
    """Return the fields of a `FiniteGame` except for its start; states that were never stepped are over."""
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
        "observation_sizes": tuple(side.observation_size for side in sides(environment)),
        "observed": observed.reshape(count, 2),
        # Where an episode cannot end, the convention may be any number.
        "conventions": np.where((followed >= 0) & (followed <= none), followed, none),
        "num_conventions": none,
    }


def action_probabilities(policies: ActorPolicy, game: FiniteGame, *, seat: int) -> Float[np.ndarray, "K O a"]:
    """pi(a | o) of stacked memoryless policies for every observation of the game."""
    wanted = (game.observation_sizes[seat], game.next_state.shape[1 + seat])
    sizes = (policies.observation_size, policies.num_actions)
    if sizes != wanted:
        raise ValueError(
            f"policies of seat {seat} must read {wanted[0]} numbers and choose among {wanted[1]} actions to play "
            f"{game.name}, got {sizes[0]} and {sizes[1]}."
        )
    if jax.tree.leaves(policies.initial_memory()):
        raise ValueError(
            f"policies of seat {seat} must have no memory to be solved exactly, got '{policies.kind}' networks: "
            "measure them by simulation instead (`coverset crossplay`)."
        )
    observations = jnp.asarray(game.observations[:, : wanted[0]], jnp.float32)

    def probabilities(policy: Policy, observation: Float[Array, "d"]) -> Float[Array, "a"] | None:
        percept = Percept(observation, jnp.float32(0.0), jnp.bool_(True))
        return policy.action_probabilities(percept, policy.initial_memory())

    over_observations = jax.vmap(probabilities, in_axes=(None, 0))
    found = np.asarray(jax.vmap(over_observations, in_axes=(0, None))(policies, observations), np.float64)
    finite = np.isfinite(found).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(
            f"policies of seat {seat} must compute finite numbers, but member {int(np.argmin(finite)) + 1} computes "
            f"{found[~np.isfinite(found)][0]}: its weights are not finite or too large."
        )
    return found / found.sum(axis=-1, keepdims=True)


class PairValue(NamedTuple):
    """Expected results of an episode of one pair."""

    returns: float
    discounted_returns: float
    length: float
    conventions: Float[np.ndarray, "2 c"]
    """Probability that each seat follows each convention; the last column is none of them."""


def evaluate_pair(
    game: FiniteGame, first: Float[np.ndarray, "O A"], second: Float[np.ndarray, "O B"], *, discount: float
) -> PairValue:
    """Evaluate two memoryless policies exactly by propagating the distribution of joint states."""
    joint = first[game.observed[:, 0]][:, :, None] * second[game.observed[:, 1]][:, None, :]
    going, ending = (build_flow_matrix(game, np.where(kind, joint, 0.0)) for kind in (~game.ended, game.ended))
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


def build_flow_matrix(game: FiniteGame, weights: Float[np.ndarray, "S A B"]) -> sparse.csr_array:
    """Build [S, S]: the weight that reaches each state (row) from each other (column)."""
    source, *actions = np.nonzero(weights)
    target = game.next_state[source, *actions]
    return sparse.csr_array((weights[source, *actions], (target, source)), shape=(game.num_states,) * 2)


@dataclass(frozen=True)
class Response:
    """The decision process of seat 0 over joint states with a fixed teammate."""

    game: FiniteGame
    rewards: Float[np.ndarray, "S A"]
    """Expected reward of seat 0's actions."""
    transitions: sparse.csr_array
    """[S A, S]: probability of continuing in a state; rows sum to less than 1 if the episode may end."""

    def action_values(self, values: Float[np.ndarray, "S"], discount: float) -> Float[np.ndarray, "S A"]:
        """One step of the recursion: Q(s, a) = r(s, a) + gamma sum_s' P(s' | s, a) V(s')."""
        return self.rewards + discount * (self.transitions @ values).reshape(self.rewards.shape)

    def solve_observed(self, discount: float) -> Float[np.ndarray, "T S"]:
        """V*_t(s) for t = 0..horizon of a responder that sees the joint state and the time, an upper bound."""
        return self._backward(lambda values: self.action_values(values, discount).max(axis=1))

    def evaluate_policy(self, policy: Float[np.ndarray, "O A"], discount: float) -> Float[np.ndarray, "T S"]:
        """V_t(s) for t = 0..horizon of a memoryless policy in seat 0."""
        chosen = policy[self.game.observed[:, 0]]
        return self._backward(lambda values: np.sum(chosen * self.action_values(values, discount), axis=1))

    def _backward(self, step: Any) -> Float[np.ndarray, "T S"]:
        values = [np.zeros(self.game.num_states)]
        for _ in range(self.game.horizon):
            values.append(step(values[-1]))
        return np.stack(values[::-1])


def build_response(game: FiniteGame, teammate: Float[np.ndarray, "O B"]) -> Response:
    """Build the decision process of seat 0 with a memoryless teammate."""
    chances = np.broadcast_to(teammate[game.observed[:, 1]][:, None, :], game.reward.shape)
    states, actions, _ = game.reward.shape
    source, action, other = np.nonzero(~game.ended & (chances > 0))
    target, row = game.next_state[source, action, other], source * actions + action
    transitions = sparse.csr_array((chances[source, action, other], (row, target)), shape=(states * actions, states))
    return Response(game, np.sum(chances * game.reward, axis=2), transitions)
