"""Environments that live on the host and change in place, as pure functions of a seed and the actions since.

`reset` and `step` of the contract are pure: `vmap` runs them side by side, a trainer draws more starts than it uses,
a checkpoint keeps states for another day. A host environment is one thing that changes. So its state is here what
decides it: the seed of the episode and the actions so far. Environments under way are kept in a table under exactly
that, and a step takes the one it needs and moves it on. Where none is found, for example after a resume, a fresh one is
made and the episode replayed: slower, and the same.

This promises as much as the environment does: that `reset(seed)` of a fresh one decides everything that follows.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

CAPACITY = 2**15
"""Episodes under way that a table keeps, the least recently used go first; beyond it, steps turn into replays."""

PROBE_SEED = 1


class Moment(NamedTuple):
    """What the last step of an episode led to, or its start."""

    observations: Float[np.ndarray, "2 d"]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated


class Player(Protocol):
    """A host environment for two, good for one episode."""

    def reset(self, seed: int) -> Moment:
        """Start the episode."""
        ...

    def step(self, actions: Int[np.ndarray, "2"]) -> Moment:
        """Play one joint action; never called after the end."""
        ...


class _Entry(NamedTuple):
    player: Player | None
    """None once the episode is over."""
    moment: Moment


class Replays:
    """The table of episodes under way."""

    def __init__(self, make: Callable[[], Player], capacity: int = CAPACITY) -> None:
        self.make = make
        self.capacity = capacity
        self.replayed = 0
        """Episodes that had to be played again from their start, for measurements."""
        self._entries: OrderedDict[tuple[int, bytes], _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def moment(self, seed: int, actions: Int[np.ndarray, "t 2"]) -> Moment:
        """What the episode that starts with `seed` shows after `actions`; nothing changes once it is over."""
        with self._lock:
            return self._entry(seed, np.ascontiguousarray(actions)).moment

    def _entry(self, seed: int, actions: Int[np.ndarray, "t 2"]) -> _Entry:
        key = (seed, actions.tobytes())
        entry = self._entries.get(key)
        if entry is None:
            entry = self._played(seed, actions)
            self._entries[key] = entry
            while len(self._entries) > self.capacity:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry

    def _played(self, seed: int, actions: Int[np.ndarray, "t 2"]) -> _Entry:
        """Move on the environment that has played all but the last action, or else a fresh one."""
        if not len(actions):
            player = self.make()
            return _Entry(player, player.reset(seed))
        before = self._entries.pop((seed, actions[:-1].tobytes()), None)
        if before is not None:
            return _moved(before, actions[-1])
        self.replayed += len(actions) > 1
        player = self.make()
        entry = _Entry(player, player.reset(seed))
        for joint in actions:
            entry = _moved(entry, joint)
        return entry


def _moved(entry: _Entry, actions: Int[np.ndarray, "2"]) -> _Entry:
    if entry.player is None:
        return _Entry(None, entry.moment._replace(reward=0.0))
    moment = entry.player.step(actions)
    return _Entry(None if moment.over else entry.player, moment)


def check_reproducible(name: str, make: Callable[[], Player], num_actions: tuple[int, int], steps: int) -> None:
    """Raise ValueError unless two fresh environments play the same episode twice, by random actions."""
    actions = np.random.default_rng(0).integers(0, num_actions, (steps, 2))
    twice = zip(_episode(make, actions), _episode(make, actions), strict=False)
    for step, (one, other) in enumerate(twice):
        if not all(np.array_equal(*parts, equal_nan=True) for parts in zip(one, other, strict=True)):
            raise ValueError(
                f"reset(seed) of '{name}' must decide the whole episode, but two fresh environments with seed "
                f"{PROBE_SEED} differ after {step} steps."
            )


def _episode(make: Callable[[], Player], actions: Int[np.ndarray, "t 2"]) -> Iterator[Moment]:
    player = make()
    moment = player.reset(PROBE_SEED)
    yield moment
    for joint in actions:
        if moment.over:
            return
        moment = player.step(joint)
        yield moment
