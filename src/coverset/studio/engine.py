"""Everything that needs JAX, behind the server: imported in the background, run in threads of its own.

What may compile (finding policies, watching, starting a trial, replaying) and what must be quick (a move) wait in
different lines, so that nobody's move waits for somebody else's compiler.
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
    from coverset.studio.players import Players
    from coverset.studio.trials import Trials

MOST_WAITING = 64
SLOW_WORKERS = 2
QUICK_WORKERS = 2

Result = TypeVar("Result")


class Busy(Exception):
    """Too many requests wait already."""


class Line:
    """A pool of threads before which only so many may wait."""

    def __init__(self, name: str, workers: int, most_waiting: int = MOST_WAITING) -> None:
        self.most_waiting = most_waiting
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self.waiting = 0

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function in the pool; called from the event loop only, so that counting needs no lock."""
        if self.waiting >= self.most_waiting:
            raise Busy("The studio is busy: try again in a moment.")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Let the threads go; what waits is dropped."""
        self.pool.shutdown(wait=False, cancel_futures=True)


class Engine:
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
        self.slow = Line("studio-slow", SLOW_WORKERS)
        self.quick = Line("studio-quick", QUICK_WORKERS)
        self.state = "starting"
        self._lock = threading.Lock()
        self._warming = False
        self._parts: tuple[Players, Trials] | None = None

    def warm_up(self) -> None:
        """Start to import JAX without waiting for it; only the first call does something."""
        if self._warming:
            return
        self._warming = True
        threading.Thread(target=self._warm_up, name="studio-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        try:
            self._loaded()
        except Exception:
            self.state = "failed"
            traceback.print_exc()

    def _loaded(self) -> "tuple[Players, Trials]":
        """The parts that need JAX, imported on first use."""
        with self._lock:
            if self._parts is None:
                self.prepare()
                from coverset.studio.players import Players
                from coverset.studio.trials import Trials

                players = Players(self.directory)
                self._parts = players, Trials(players, self.store)
                self.state = "ready"
            return self._parts

    async def board(self, run: Run) -> dict[str, Any]:
        """The board of a run's environment, and its heuristics."""
        return await self.slow.run(self._board, run)

    def _board(self, run: Run) -> dict[str, Any]:
        players, _ = self._loaded()
        from coverset.studio.boards import board

        return {"board": board(players.world_of(run).environment), "heuristics": players.list_heuristics(run)}

    async def watch(self, run: Run, asked: Watch) -> dict[str, Any]:
        """An episode of one pair."""
        return await self.slow.run(self._watch, run, asked)

    def _watch(self, run: Run, asked: Watch) -> dict[str, Any]:
        players, _ = self._loaded()
        from coverset.studio.boards import board
        from coverset.studio.match import Match, play_episode

        environment, pair = players.pair(run, asked.best_response, asked.teammate)
        return {"board": board(environment), "episodes": [play_episode(Match(environment, pair, asked.seed))]}

    async def start_trial(self, run: Run, asked: NewTrial) -> dict[str, Any]:
        """Begin a trial."""
        return await self.slow.run(lambda: self._loaded()[1].start(run, asked))

    async def trial(self, id: str) -> dict[str, Any]:
        """Where a trial stands."""
        return await self.quick.run(lambda: self._started().find(id).status())

    async def move(self, id: str, move: Move) -> dict[str, Any]:
        """Play a person's move."""
        return await self.quick.run(lambda: self._started().find(id).move(move))

    def _started(self) -> "Trials":
        """The trials, without waiting for the import of JAX: before that there are none."""
        if self._parts is None:
            raise NotFound("There is no such trial, or it was left alone for too long: start a new one.")
        return self._parts[1]

    async def replay(self, name: str) -> dict[str, Any]:
        """A recording as frames."""
        return await self.slow.run(self._replay, name)

    def _replay(self, name: str) -> dict[str, Any]:
        players, _ = self._loaded()
        from coverset.studio.replays import replay_frames

        recording = self.store.load(name)
        return replay_frames(recording, players.world(recording).environment)

    def close(self) -> None:
        """Let the threads go."""
        for line in (self.slow, self.quick):
            line.close()
