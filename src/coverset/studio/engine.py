"""Simulations for the server: JAX is imported in the background, and work runs in its own threads.

Work that may compile (loading policies, watching, starting a trial, replaying) and moves, which must be fast, have
separate thread pools, so that a move never waits for compilation.
"""

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from coverset.studio.catalogue import Run
from coverset.studio.files import NotFound, SafeDirectory
from coverset.studio.messages import Move, NewTrial, Watch
from coverset.studio.recordings import RecordingStore

if TYPE_CHECKING:
    from coverset.studio.partners import PartnerLoader
    from coverset.studio.trials import TrialStore

MOST_WAITING = 64
SLOW_WORKERS = 2
QUICK_WORKERS = 2

Result = TypeVar("Result")


class Busy(Exception):
    """Too many requests are waiting."""


class WorkerPool:
    """A thread pool with a bounded queue."""

    def __init__(self, name: str, workers: int, most_waiting: int = MOST_WAITING) -> None:
        self.most_waiting = most_waiting
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self.waiting = 0

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function in the pool. Call this from the event loop only: the counter has no lock."""
        if self.waiting >= self.most_waiting:
            raise Busy("The studio is busy: try again in a moment.")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Stop the threads and drop waiting work."""
        self.pool.shutdown(wait=False, cancel_futures=True)


class SimulationEngine:
    """Boards, episodes and trials for the runs of one directory."""

    def __init__(
        self,
        directory: SafeDirectory,
        store: RecordingStore,
        *,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = directory
        self.store = store
        self.prepare = prepare
        self.slow = WorkerPool("studio-slow", SLOW_WORKERS)
        self.quick = WorkerPool("studio-quick", QUICK_WORKERS)
        self.state = "starting"
        self._lock = threading.Lock()
        self._warming = False
        self._parts: tuple[PartnerLoader, TrialStore] | None = None

    def warm_up(self) -> None:
        """Import JAX in the background; only the first call has an effect."""
        if self._warming:
            return
        self._warming = True
        threading.Thread(target=self._warm_up, name="studio-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        try:
            self._load_parts()
        except Exception:
            self.state = "failed"
            traceback.print_exc()

    def _load_parts(self) -> "tuple[PartnerLoader, TrialStore]":
        """Return the parts that need JAX, imported on first use."""
        with self._lock:
            if self._parts is None:
                self.prepare()
                from coverset.studio.partners import PartnerLoader
                from coverset.studio.trials import TrialStore

                partners = PartnerLoader(self.directory)
                self._parts = partners, TrialStore(partners, self.store)
                self.state = "ready"
            return self._parts

    async def board(self, run: Run) -> dict[str, Any]:
        """Describe the board and the heuristics of a run's environment."""
        return await self.slow.run(self._board, run)

    def _board(self, run: Run) -> dict[str, Any]:
        partners, _ = self._load_parts()
        from coverset.studio.boards import describe_board

        return {
            "board": describe_board(partners.environment_of(run).environment),
            "heuristics": partners.list_heuristics(run),
        }

    async def watch(self, run: Run, asked: Watch) -> dict[str, Any]:
        """Simulate an episode of one pair."""
        return await self.slow.run(self._watch, run, asked)

    def _watch(self, run: Run, asked: Watch) -> dict[str, Any]:
        partners, _ = self._load_parts()
        from coverset.learning.rollout import seat_policies
        from coverset.studio.boards import describe_board
        from coverset.studio.match import Match, play_episode

        environment, pair = partners.pair(run, asked.best_response, asked.teammate, asked.probe)
        frames = play_episode(Match(environment, seat_policies(environment, pair), asked.seed))
        return {"board": describe_board(environment), "seat": 0, "episodes": [frames]}

    async def start_trial(self, run: Run, asked: NewTrial) -> dict[str, Any]:
        """Start a trial."""
        return await self.slow.run(lambda: self._load_parts()[1].start(run, asked))

    async def trial(self, id: str) -> dict[str, Any]:
        """Return the state of a trial."""
        return await self.quick.run(lambda: self._existing_trials().find(id).status())

    async def move(self, id: str, move: Move) -> dict[str, Any]:
        """Play a person's move."""
        return await self.quick.run(lambda: self._existing_trials().find(id).move(move))

    def _existing_trials(self) -> "TrialStore":
        """Return the trials without waiting for the import of JAX, before which there are none."""
        if self._parts is None:
            raise NotFound("There is no such trial, or it has expired: start a new one.")
        return self._parts[1]

    async def replay(self, name: str) -> dict[str, Any]:
        """Replay a recording as frames."""
        return await self.slow.run(self._replay, name)

    def _replay(self, name: str) -> dict[str, Any]:
        partners, _ = self._load_parts()
        from coverset.studio.replays import replay_frames

        recording = self.store.load(name)
        return replay_frames(recording, partners.make_environment(recording).environment)

    def close(self) -> None:
        """Stop the worker threads."""
        for pool in (self.slow, self.quick):
            pool.close()
