"""The routes of the studio: static files, what runs say about themselves, and what the engine simulates."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coverset.runs.storage import DamagedFile
from coverset.studio import messages
from coverset.studio.catalogue import Catalogue, Run
from coverset.studio.engine import Busy, Engine, Line
from coverset.studio.files import NotFound, OutsideDirectory, SafeDirectory
from coverset.studio.guard import Door, Guard, refuse
from coverset.studio.limits import Rate, RateLimit
from coverset.studio.pages import Pages
from coverset.studio.recordings import RecordingStore
from coverset.studio.records import RunRecords
from coverset.studio.snapshot import Snapshot, answer, encode

DISK_WORKERS = 8
MOST_WAITING_FOR_DISK = 256
"""Fewer than there may be connections, so that readers of slow files do not take all of them."""
WARM_UP_SECONDS = 1.0
"""After the first overview, so that the first page does not share the interpreter with the import of JAX."""
MOVES = Rate(burst=60, per_second=30)
"""Of one trial: faster than anybody types."""
SIMULATIONS = Rate(burst=120, per_second=10)
"""Of one address."""


class Studio:
    """The state behind the routes."""

    def __init__(self, path: Path, *, prepare: Callable[[], None] = lambda: None) -> None:
        self.directory = SafeDirectory(path)
        self.catalogue = Catalogue(self.directory)
        self.records = RunRecords(self.directory)
        self.store = RecordingStore(self.directory)
        self.engine = Engine(self.directory, self.store, prepare=prepare)
        self.disk = Line("studio-disk", DISK_WORKERS, MOST_WAITING_FOR_DISK)
        self.pages = Pages()
        self.overview = Snapshot(self._overview)
        self.moves = RateLimit(MOVES)
        self.simulations = RateLimit(SIMULATIONS)

    def _overview(self) -> dict[str, Any]:
        runs = [self.records.brief(run) for run in self.catalogue.runs().values()]
        return {"directory": self.directory.path.name, "runs": runs}

    async def show_runs(self, request: Request) -> Response:
        """The overview; one look at the disk serves everybody for a second. JAX starts once somebody has it."""
        asyncio.get_running_loop().call_later(WARM_UP_SECONDS, self.engine.warm_up)
        return answer(request, await self.overview.content())

    async def show_run(self, request: Request) -> Response:
        """Everything that one run's files say."""
        run = await self._run(_run_id(request))
        return answer(request, await self.disk.run(lambda: encode(self.records.details(run))))

    async def show_engine(self, request: Request) -> Response:
        """Whether policies can be simulated yet."""
        return _json({"state": self.engine.state})

    async def show_board(self, request: Request) -> Response:
        """The board of a run's environment and its heuristics."""
        self._check_rate(request)
        return _json(await self.engine.board(await self._run(_run_id(request))))

    async def watch(self, request: Request) -> Response:
        """An episode of one pair."""
        self._check_rate(request)
        asked = messages.read_query(messages.Watch, request.query_params)
        return _json(await self.engine.watch(await self._run(asked.run), asked))

    async def start_trial(self, request: Request) -> Response:
        """A person sits down with a partner."""
        self._check_rate(request)
        asked = messages.read_body(messages.NewTrial, await _body(request))
        return _json(await self.engine.start_trial(await self._run(asked.run), asked))

    async def show_trial(self, request: Request) -> Response:
        """Where a trial stands, for a page that was reloaded."""
        return _json(await self.engine.trial(request.path_params["trial"]))

    async def move(self, request: Request) -> Response:
        """The person's next action."""
        id = request.path_params["trial"]
        if not self.moves.allows(id):
            raise HTTPException(429, "Too many moves: wait a moment.")
        return _json(await self.engine.move(id, messages.read_body(messages.Move, await _body(request))))

    async def show_recordings(self, request: Request) -> Response:
        """The recordings, newest first."""
        self._check_rate(request)
        return _json({"recordings": await self.disk.run(self.store.briefs)})

    async def download(self, request: Request) -> Response:
        """A recording as a file."""
        name = request.path_params["name"]
        content = await self.disk.run(self.store.content, name)
        named = {"Content-Disposition": f'attachment; filename="{name}.json"', "Cache-Control": "no-store"}
        return Response(content, media_type="application/json", headers=named)

    async def replay(self, request: Request) -> Response:
        """A recording as frames."""
        self._check_rate(request)
        return _json(await self.engine.replay(request.path_params["name"]))

    async def delete(self, request: Request) -> Response:
        """Forget a recording."""
        await self.disk.run(self.store.delete, request.path_params["name"])
        return _json({"deleted": True})

    async def _run(self, id: str) -> Run:
        """Look a run up in a thread: the disk may be slow."""
        return await self.disk.run(self.catalogue.run, id)

    def _check_rate(self, request: Request) -> None:
        if not self.simulations.allows(request.client.host if request.client else "unknown"):
            raise HTTPException(429, "Too many requests: wait a moment.")

    def close(self) -> None:
        """Let the threads go."""
        self.engine.close()
        self.disk.close()

    def routes(self) -> list[Route]:
        """Every address that is answered."""
        post, delete = ["POST"], ["DELETE"]
        return [
            Route("/api/runs", self.show_runs),
            Route("/api/run", self.show_run),
            Route("/api/engine", self.show_engine),
            Route("/api/board", self.show_board),
            Route("/api/watch", self.watch),
            Route("/api/trials", self.start_trial, methods=post),
            Route("/api/trials/{trial}", self.show_trial),
            Route("/api/trials/{trial}/moves", self.move, methods=post),
            Route("/api/recordings", self.show_recordings),
            Route("/api/recordings/{name}", self.download),
            Route("/api/recordings/{name}", self.delete, methods=delete),
            Route("/api/recordings/{name}/frames", self.replay),
            Route("/{path:path}", self.pages.show),
        ]


def make_app(studio: Studio, door: Door) -> ASGIApp:
    """The guarded application. Mistakes of the caller and damage in files are told in one sentence."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        studio.close()

    def telling(status: int, told: str | None = None) -> Callable[[Request, Exception], Response]:
        def handle(request: Request, error: Exception) -> Response:
            return refuse(status, told or _sentence(error, studio.directory))

        return handle

    handlers: dict[Any, Any] = {
        HTTPException: lambda request, error: refuse(error.status_code, error.detail),
        NotFound: telling(404),
        messages.OutOfOrder: telling(409),
        Busy: telling(503),
        ClientDisconnect: telling(400, "The message did not arrive."),
        ValueError: telling(400),
        DamagedFile: telling(422),
        OutsideDirectory: telling(422),
        **dict.fromkeys((KeyError, TypeError), _unfit),
        OSError: telling(422, "A file of this run is missing or cannot be read."),
        Exception: telling(500, "Something went wrong; the terminal in which the studio runs says what."),
    }
    return Guard(Starlette(routes=studio.routes(), exception_handlers=handlers, lifespan=lifespan), door)


def _sentence(error: Exception, directory: SafeDirectory) -> str:
    """An error in one line of bounded length, with paths as seen from the directory."""
    return " ".join(str(error).replace(f"{directory.path}/", "").split())[:500]


def _unfit(request: Request, error: Exception) -> Response:
    """Files that were read but make no whole; the terminal gets to know more."""
    traceback.print_exception(error)
    return refuse(422, "The files of this run do not fit together.")


def _run_id(request: Request) -> str:
    return request.query_params.get("run", "")


def _json(content: Any) -> Response:
    return Response(encode(content).body, media_type="application/json", headers={"Cache-Control": "no-store"})


async def _body(request: Request) -> bytes:
    """The body of a request, if it is short; `connections` ends the wait for one that is slow to arrive."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > messages.MOST_BYTES:
            raise HTTPException(413, f"A message must not be longer than {messages.MOST_BYTES:,} bytes.")
    return body
