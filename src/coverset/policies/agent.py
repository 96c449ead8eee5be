"""A policy for a loop of one's own: give it what it sees, get its action."""

from typing import Any

import jax
import numpy as np

from coverset.checks import format_value
from coverset.policy import Policy
from coverset.types import Percept


class Agent:
    """A policy that plays, with its memory and its random numbers.

    Memory lasts from `reset` on; call that when a new partner comes.
    """

    def __init__(self, policy: Policy, about: dict[str, Any], seed: int = 0, seat: int | None = None) -> None:
        """Let a policy play.

        Args:
          policy: what decides.
          about: what it was made for, as its file says.
          seed: of its random numbers.
          seat: where it sits, for a teammate that plays several seats of a game of three or more players.
        """
        self.about = about
        self._policy = policy
        self._seat = None if seat is None else np.int32(seat)
        self._step = jax.jit(_make_step(policy))
        self._key = jax.random.key(seed)
        self.reset()

    def reset(self) -> None:
        """Forget everything: a new partner."""
        self._memory = self._policy.initial_memory()
        self._first = True

    def act(self, observation: Any, reward: float = 0.0, done: bool = False, legal: Any = None) -> int:
        """Choose an action.

        Args:
          observation: the agent's observation, [d].
          reward: the reward of the step before; 0 at the first step with a partner.
          done: whether that step ended an episode, so that `observation` starts another.
          legal: which actions are legal, [a], in games where not all are.
        """
        # One compiled call on numpy arrays: converting each of them to a JAX array first would take most of the time.
        percept = Percept(
            observation=self._check_observation(observation),
            reward=np.float32(reward),  # pyright: ignore[reportArgumentType]
            first=np.bool_(done or self._first),  # pyright: ignore[reportArgumentType]
            legal=self._check_legal(legal),
            seat=self._seat,  # pyright: ignore[reportArgumentType]
        )
        action, self._memory, self._key = self._step(self._key, percept, self._memory)
        self._first = False
        return int(action)

    def _check_observation(self, observation: Any) -> Any:
        """The observation as float32; raises unless it has the numbers that the policy reads."""
        try:
            array = np.asarray(observation, np.float32)
        except (TypeError, ValueError):
            raise ValueError(f"observation must hold numbers, got {format_value(observation)}.") from None
        size = getattr(self._policy, "observation_size", None)
        if array.ndim != 1 or (size is not None and array.size != size):
            wanted = "a vector" if size is None else f"a vector of {size} numbers"
            raise ValueError(f"observation must be {wanted}, got an array of shape {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"observation must hold finite numbers, got {format_value(array.tolist())}.")
        return array

    def _check_legal(self, legal: Any) -> Any:
        if legal is None:
            if self.about.get("masked"):
                raise ValueError("legal must be given, because the agent's game has illegal actions, got None.")
            return None
        array = np.asarray(legal, bool)
        size = getattr(self._policy, "num_actions", None)
        if array.ndim != 1 or (size is not None and array.size != size):
            wanted = "a vector" if size is None else f"a vector of {size} Booleans"
            raise ValueError(f"legal must be {wanted}, one for each action, got an array of shape {array.shape}.")
        return array

    def __repr__(self) -> str:
        known = {name: self.about[name] for name in ("env", "learner", "seat", "seed") if name in self.about}
        told = ", ".join(f"{name} {value}" for name, value in known.items())
        return f"<Agent{': ' if told else ''}{told}>"


def _make_step(policy: Policy) -> Any:
    """The policy's step, and the key of the next one."""

    def step(key: jax.Array, percept: Percept, memory: Any) -> tuple[Any, Any, Any]:
        key, act_key = jax.random.split(key)
        action, memory = policy.act(act_key, percept, memory)
        return action, memory, key

    return step
