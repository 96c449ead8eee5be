"""Step-by-step simulation of all seats, for watching, playing and replaying.

A seat without a policy gets its actions from the caller. The seed determines the initial states.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt

from coverset.envs.base import Environment
from coverset.envs.extensions import is_shown_by_seat
from coverset.envs.seats import PASS_ACTION, perceive, rewards_by_seat
from coverset.policy import Policy
from coverset.studio.boards import describe_scene
from coverset.types import Actions, Outcome, Percept, PRNGKey, PyTree

MOST_STEPS = 1000
"""Step limit of an episode that is simulated in one go; third-party environments may be longer."""


@partial(jax.jit, static_argnums=0)
def _start(environment: Environment, seed: UInt[Array, ""], episode: Int[Array, ""]) -> tuple[PyTree, PRNGKey]:
    reset_key, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), episode))
    return environment.reset(reset_key), key


@partial(jax.jit, static_argnums=(0, 1))
def _perceive(
    environment: Environment, ego: int, state: PyTree, rewards: Float[Array, "seats"], time: Int[Array, ""]
) -> tuple[Percept, ...]:
    return perceive(environment, state, rewards, time == 0, ego=ego)


@jax.jit
def _act(
    policies: tuple[Policy | None, ...],
    key: PRNGKey,
    time: Int[Array, ""],
    percepts: tuple[Percept, ...],
    memories: tuple[PyTree, ...],
) -> tuple[tuple[Int[Array, ""] | None, ...], tuple[PyTree, ...]]:
    """Choose the actions of all policies at step `time` of an episode."""
    key = jax.random.fold_in(key, time)
    moves = [
        (None, None) if policy is None else policy.act(jax.random.fold_in(key, seat), percept, memory)
        for seat, (policy, percept, memory) in enumerate(zip(policies, percepts, memories, strict=True))
    ]
    return tuple(action for action, _ in moves), tuple(memory for _, memory in moves)


@partial(jax.jit, static_argnums=0)
def _step(
    environment: Environment, key: PRNGKey, state: PyTree, time: Int[Array, ""], actions: Actions
) -> tuple[Outcome, Float[Array, "seats"], Int[Array, "seats"]]:
    seats = environment.num_seats
    outcome = environment.step(jax.random.fold_in(jax.random.fold_in(key, time), seats), state, actions)
    conventions = jnp.stack([environment.convention(outcome.state, seat) for seat in range(seats)])
    return outcome, rewards_by_seat(environment, outcome.reward), conventions


@jax.jit
def _read_belief(policy: Policy, memory: PyTree) -> Float[Array, "K"] | None:
    return policy.belief(memory)


@partial(jax.jit, static_argnums=0)
def _find_legal(environment: Environment, state: PyTree) -> Bool[Array, "seats a"] | None:
    return environment.legal_actions(state)


@dataclass(frozen=True)
class Step:
    """The result of one step of a match."""

    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    """Every seat's; all the same in a game with a common reward."""
    ended: str | None
    """`terminated`, `truncated`, or None if the episode continues."""
    conventions: tuple[int, ...]
    """Index of the convention that each seat followed, valid once the episode has ended."""


class Match:
    """Successive episodes of all seats in one environment; policy memories persist across episodes."""

    def __init__(self, environment: Environment, policies: Sequence[Policy | None], seed: int, *, ego: int = 0) -> None:
        """Start the first episode.

        Args:
          environment: the game.
          policies: of every seat; None for a seat whose actions the caller gives.
          seed: of the initial states and of all random choices.
          ego: the seat from which the seats that policies know are counted (`envs.seats`).
        """
        if len(policies) != environment.num_seats:
            raise ValueError(f"a game of {environment.num_seats} players needs as many policies, got {len(policies)}.")
        self.environment = environment
        self.policies = tuple(policies)
        self.ego = ego
        self.seed = jnp.uint32(seed)
        self.memories = tuple(None if policy is None else policy.initial_memory() for policy in policies)
        self.rewards = jnp.zeros(environment.num_seats)
        self.episode = -1
        self.start_episode()

    def start_episode(self) -> None:
        """Start the next episode."""
        self.episode += 1
        self.time = 0
        self.ended = False
        self.state, self._key = _start(self.environment, self.seed, jnp.int32(self.episode))

    def step(self, given: dict[int, int]) -> Step:
        """Play one step; `given` has the actions of the seats without a policy."""
        chosen = self._choose() if any(policy is not None for policy in self.policies) else {}
        actions = tuple((chosen | given)[seat] for seat in range(self.environment.num_seats))
        joint = jnp.array(actions, jnp.int32)
        outcome, self.rewards, conventions = _step(self.environment, self._key, self.state, jnp.int32(self.time), joint)
        self.state = outcome.state
        self.time += 1
        rewards, terminated, truncated, followed = jax.device_get(
            (self.rewards, outcome.terminated, outcome.truncated, conventions)
        )
        ended = "terminated" if terminated else "truncated" if truncated else None
        self.ended = ended is not None
        return Step(actions, tuple(rewards.tolist()), ended, tuple(followed.tolist()))

    def _choose(self) -> dict[int, int]:
        """The policies' actions by seat."""
        time = jnp.int32(self.time)
        actions, self.memories = _act(self.policies, self._key, time, self._percepts(), self.memories)
        return {seat: int(action) for seat, action in enumerate(jax.device_get(actions)) if action is not None}

    def _percepts(self) -> tuple[Percept, ...]:
        return _perceive(self.environment, self.ego, self.state, self.rewards, jnp.int32(self.time))

    def perceive(self, seat: int) -> Percept:
        """What a policy in `seat` would perceive now, on the host."""
        return jax.device_get(self._percepts()[seat])

    def belief(self, seat: int) -> list[float] | None:
        """What the policy in `seat` believes after its last action; None if it keeps no belief, or is a person."""
        policy = self.policies[seat]
        found = None if policy is None else _read_belief(policy, self.memories[seat])
        return None if found is None else jax.device_get(found).tolist()

    def legal_actions(self, seat: int) -> list[bool] | None:
        """Which actions `seat` may choose now, possibly none; None in a game without a mask."""
        legal = _find_legal(self.environment, self.state)
        return None if legal is None else jax.device_get(legal)[seat, : self.environment.num_actions[seat]].tolist()

    def forced_action(self, seat: int) -> int | None:
        """The only action that `seat` can play now, or the pass where there is none; None if there is a choice."""
        legal = self.legal_actions(seat)
        if legal is None or sum(legal) > 1:
            return None
        return legal.index(True) if any(legal) else PASS_ACTION

    def frame(self, step: Step | None = None, *, seat: int | None = None) -> dict[str, Any]:
        """Describe the current state to the browser, with the step that led to it.

        Args:
          step: the step, None at the start of an episode.
          seat: of the person who looks on: until the episode ends, the frame then has only what that player may know.
            None for everything.
        """
        viewer = None if self.ended else seat
        frame: dict[str, Any] = {
            "time": self.time,
            "scene": describe_scene(self.environment, jax.device_get(self.state), viewer),
        }
        if seat is not None and not self.ended:
            frame |= {"legal": self.legal_actions(seat)}
        if step is not None:
            frame |= self._describe_step(step, viewer)
        return frame

    def _describe_step(self, step: Step, viewer: int | None) -> dict[str, Any]:
        """Actions and rewards by seat; those that the viewer may not know are None."""
        seen = viewer if is_shown_by_seat(self.environment) else None
        told: dict[str, Any] = {"actions": _keep(step.actions, seen), "rewards": _keep(step.rewards, viewer)}
        return told | ({"ended": step.ended, "conventions": self.convention_names(step)} if step.ended else {})

    def convention_names(self, step: Step) -> list[str | None]:
        """Names of the conventions that the seats followed in an ended episode."""
        names = self.environment.conventions
        return [names[index] if index < len(names) else None for index in step.conventions]


def _keep(values: Sequence[Any], seat: int | None) -> list[Any]:
    """The values of all seats, or None for all but one."""
    return [value if seat is None or number == seat else None for number, value in enumerate(values)]


def play_episode(match: Match) -> list[dict[str, Any]]:
    """Simulate an episode of policies in all seats; return its frames."""
    frames = [match.frame()]
    for _ in range(MOST_STEPS):
        step = match.step({})
        frames.append(match.frame(step))
        if step.ended:
            break
    return frames
