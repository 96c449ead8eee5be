"""Mutable host environments as pure functions of a seed and the actions so far.

`reset` and `step` of `Environment` are pure: `vmap` batches them, a trainer draws more initial states than it uses, and
checkpoints store states. A host environment changes in place, so its state is represented by what determines it: the
seed of the episode and the actions so far. A cache keeps the host environments of running episodes under this key, and
a step advances the one it needs. If it is missing, for example after a resume, a new environment replays the episode,
with the same result.

This requires that `reset(seed)` of a new environment determines the whole episode.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

CAPACITY = 2**15
"""Maximum number of cached episodes. The least recently used are evicted first, and replayed if needed again."""

PROBE_SEED = 1


class EpisodeStep(NamedTuple):
    """Result of the last step of an episode, or of its reset."""

    observations: Float[np.ndarray, "seats d"]
    rewards: Float[np.ndarray, "seats"]
    legal: Bool[np.ndarray, "seats a"]
    """Actions that each seat may choose; none for a seat that has to pass."""
    terminated: bool = False
    truncated: bool = False

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated


class HostEpisode(Protocol):
    """A host environment that plays one episode."""

    def reset(self, seed: int) -> EpisodeStep:
        """Start the episode."""
        ...

    def step(self, actions: Int[np.ndarray, "seats"]) -> EpisodeStep:
        """Play one joint action; never called after the end."""
        ...


class _Entry(NamedTuple):
    episode: HostEpisode | None
    """None once the episode is over."""
    last: EpisodeStep


class EpisodeCache:
    """Cache of running episodes."""

    def __init__(self, make: Callable[[], HostEpisode], capacity: int = CAPACITY) -> None:
        self.make = make
        self.capacity = capacity
        self.replayed = 0
        """Number of episodes replayed from their start."""
        self._entries: OrderedDict[tuple[int, bytes], _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def find_step(self, seed: int, actions: Int[np.ndarray, "t seats"]) -> EpisodeStep:
        """The last step of the episode with this seed after `actions`; actions after its end have no effect."""
        with self._lock:
            return self._find_entry(seed, np.ascontiguousarray(actions)).last

    def _find_entry(self, seed: int, actions: Int[np.ndarray, "t seats"]) -> _Entry:
        key = (seed, actions.tobytes())
        entry = self._entries.get(key)
        if entry is None:
            entry = self._play(seed, actions)
            self._entries[key] = entry
            while len(self._entries) > self.capacity:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry

    def _play(self, seed: int, actions: Int[np.ndarray, "t seats"]) -> _Entry:
        """Advance the cached environment that has played all but the last action, or else a new one."""
        if not len(actions):
            return self._start(seed)
        before = self._entries.pop((seed, actions[:-1].tobytes()), None)
        if before is not None:
            return _advance(before, actions[-1])
        self.replayed += len(actions) > 1
        entry = self._start(seed)
        for joint in actions:
            entry = _advance(entry, joint)
        return entry

    def _start(self, seed: int) -> _Entry:
        episode = self.make()
        return _Entry(episode, episode.reset(seed))


def _advance(entry: _Entry, actions: Int[np.ndarray, "seats"]) -> _Entry:
    if entry.episode is None:
        return _Entry(None, entry.last._replace(rewards=np.zeros_like(entry.last.rewards)))
    step = entry.episode.step(actions)
    return _Entry(None if step.over else entry.episode, step)


def check_reproducible(name: str, make: Callable[[], HostEpisode], steps: int) -> None:
    """Raise ValueError unless two new environments play the same episode, with the same random legal actions."""
    twice = zip(_play_probe(make, steps), _play_probe(make, steps), strict=False)
    for step, (one, other) in enumerate(twice):
        if not all(np.array_equal(*parts, equal_nan=True) for parts in zip(one, other, strict=True)):
            raise ValueError(
                f"reset(seed) of '{name}' must determine the whole episode, but two new environments with seed "
                f"{PROBE_SEED} differ after {step} steps."
            )


def _play_probe(make: Callable[[], HostEpisode], steps: int) -> Iterator[EpisodeStep]:
    episode, random = make(), np.random.default_rng(0)
    step = episode.reset(PROBE_SEED)
    yield step
    for _ in range(steps):
        if step.over:
            return
        step = episode.step(_draw_legal(random, step.legal))
        yield step


def _draw_legal(random: np.random.Generator, legal: Bool[np.ndarray, "seats a"]) -> Int[np.ndarray, "seats"]:
    """A random legal action for each seat; 0 for those that have none."""
    return np.where(legal, random.random(legal.shape), -1.0).argmax(axis=1)
