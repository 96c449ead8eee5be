"""Step-by-step simulation of two seats, for watching, playing and replaying.

A seat without a policy gets its actions from the caller. The seed determines the initial states.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt

from coverset.envs.base import Environment
from coverset.policy import Policy
from coverset.studio.boards import describe_scene
from coverset.types import Actions, Outcome, Percept, PRNGKey, PyTree, Scalar

MOST_STEPS = 1000
"""Step limit of an episode that is simulated in one go; third-party environments may be longer."""


@partial(jax.jit, static_argnums=0)
def _start(environment: Environment, seed: UInt[Array, ""], episode: Int[Array, ""]) -> tuple[PyTree, PRNGKey]:
    reset_key, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), episode))
    return environment.reset(reset_key), key


@partial(jax.jit, static_argnums=0)
def _act(
    environment: Environment,
    policy: Policy,
    key: PRNGKey,
    state: PyTree,
    reward: Scalar,
    time: Int[Array, ""],
    seat: Int[Array, ""],
    memory: PyTree,
) -> tuple[Int[Array, ""], PyTree]:
    """Choose the action of the policy in `seat` at step `time` of an episode."""
    percept = Percept(environment.observe(state)[seat], reward, time == 0)
    return policy.act(jax.random.fold_in(jax.random.fold_in(key, time), seat), percept, memory)


@partial(jax.jit, static_argnums=0)
def _step(
    environment: Environment, key: PRNGKey, state: PyTree, time: Int[Array, ""], actions: Actions
) -> tuple[Outcome, Int[Array, "2"]]:
    outcome = environment.step(jax.random.fold_in(jax.random.fold_in(key, time), 2), state, actions)
    return outcome, jnp.stack([environment.convention(outcome.state, seat) for seat in (0, 1)])


@dataclass(frozen=True)
class Step:
    """The result of one step of a match."""

    actions: tuple[int, int]
    reward: float
    ended: str | None
    """`terminated`, `truncated`, or None if the episode continues."""
    conventions: tuple[int, int]
    """Index of the convention that each seat followed, valid once the episode has ended."""


class Match:
    """Successive episodes of two seats in one environment; policy memories persist across episodes."""

    def __init__(self, environment: Environment, policies: tuple[Policy | None, Policy | None], seed: int) -> None:
        if environment.num_seats != 2:
            raise ValueError(f"the studio plays games of two players, and this one has {environment.num_seats}.")
        self.environment = environment
        self.policies = policies
        self.seed = jnp.uint32(seed)
        self.memories = [None if policy is None else policy.initial_memory() for policy in policies]
        self.reward = jnp.float32(0.0)
        self.episode = -1
        self.start_episode()

    def start_episode(self) -> None:
        """Start the next episode."""
        self.episode += 1
        self.time = 0
        self.state, self._key = _start(self.environment, self.seed, jnp.int32(self.episode))

    def step(self, given: dict[int, int]) -> Step:
        """Play one step; `given` has the actions of the seats without a policy."""
        time = jnp.int32(self.time)
        seats = enumerate(self.policies)
        actions = [given[seat] if policy is None else self._choose(seat, policy) for seat, policy in seats]
        joint = jnp.array(actions, jnp.int32)
        outcome, conventions = _step(self.environment, self._key, self.state, time, joint)
        self.state, self.reward = outcome.state, outcome.reward
        self.time += 1
        reward, terminated, truncated, followed = jax.device_get(
            (outcome.reward, outcome.terminated, outcome.truncated, conventions)
        )
        ended = "terminated" if terminated else "truncated" if truncated else None
        return Step((actions[0], actions[1]), float(reward), ended, (int(followed[0]), int(followed[1])))

    def _choose(self, seat: int, policy: Policy) -> int:
        time, place = jnp.int32(self.time), jnp.int32(seat)
        action, self.memories[seat] = _act(
            self.environment, policy, self._key, self.state, self.reward, time, place, self.memories[seat]
        )
        return int(action)

    def observations(self) -> np.ndarray:
        """Current observations of both seats, [2, d]."""
        return np.asarray(self.environment.observe(self.state))

    def frame(self, step: Step | None = None) -> dict[str, Any]:
        """Describe the current state to the browser, with the step that led to it."""
        shown: dict[str, Any] = {
            "time": self.time,
            "scene": describe_scene(self.environment, jax.device_get(self.state)),
        }
        if step is not None:
            shown |= {"actions": list(step.actions), "reward": step.reward}
        if step is not None and step.ended is not None:
            shown |= {"ended": step.ended, "conventions": self.convention_names(step)}
        return shown

    def convention_names(self, step: Step) -> list[str | None]:
        """Names of the conventions that the seats followed in an ended episode."""
        names = self.environment.conventions
        return [names[index] if index < len(names) else None for index in step.conventions]


def play_episode(match: Match) -> list[dict[str, Any]]:
    """Simulate an episode of two policies; return its frames."""
    frames = [match.frame()]
    for _ in range(MOST_STEPS):
        step = match.step({})
        frames.append(match.frame(step))
        if step.ended:
            break
    return frames
