"""The routes of the studio: static files, run records, and simulations."""

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
from coverset.studio.engine import Busy, SimulationEngine, WorkerPool
from coverset.studio.files import NotFound, OutsideDirectory, SafeDirectory
from coverset.studio.guard import AccessRules, Guard, refuse
from coverset.studio.limits import Rate, RateLimit
from coverset.studio.pages import Pages
from coverset.studio.recordings import RecordingStore
from coverset.studio.records import RunRecords
from coverset.studio.snapshot import Snapshot, encode, respond

DISK_WORKERS = 8
MOST_WAITING_FOR_DISK = 256
"""Below the connection limit, so that requests for slow files do not use up all connections."""
WARM_UP_SECONDS = 1.0
"""Delay after the first overview, so that the import of JAX does not slow down the first page."""
MOVES = Rate(burst=60, per_second=30)
"""Rate of moves per trial: faster than anybody types."""
SIMULATIONS = Rate(burst=120, per_second=10)
"""Rate of simulations per client address."""


class Studio:
    """The state behind the routes."""

    def __init__(self, path: Path, *, prepare: Callable[[], None] = lambda: None) -> None:
        self.directory = SafeDirectory(path)
        self.catalogue = Catalogue(self.directory)
        self.records = RunRecords(self.directory)
        self.store = RecordingStore(self.directory)
        self.engine = SimulationEngine(self.directory, self.store, prepare=prepare)
        self.disk = WorkerPool("studio-disk", DISK_WORKERS, MOST_WAITING_FOR_DISK)
        self.pages = Pages()
        self.overview = Snapshot(self._overview)
        self.moves = RateLimit(MOVES)
        self.simulations = RateLimit(SIMULATIONS)

    def _overview(self) -> dict[str, Any]:
        """All runs by group and seed, groups that are training first."""
        runs = [self.records.brief(run) for run in self.catalogue.runs().values()]
        live = {run["group"] for run in runs if run["state"] in ("training", "measuring")}
        runs.sort(key=lambda run: run["group"] not in live)
        return {"directory": self.directory.path.name, "runs": runs}

    async def show_runs(self, request: Request) -> Response:
        """Return the overview, cached for a second; schedule the import of JAX."""
        asyncio.get_running_loop().call_later(WARM_UP_SECONDS, self.engine.warm_up)
        return respond(request, await self.overview.content())

    async def show_run(self, request: Request) -> Response:
        """Return the details of one run."""
        run = await self._run(_run_id(request))
        return respond(request, await self.disk.run(lambda: encode(self.records.details(run))))

    async def show_engine(self, request: Request) -> Response:
        """Return whether the simulation engine is ready."""
        return _json({"state": self.engine.state})

    async def show_board(self, request: Request) -> Response:
        """Return the board and the heuristics of a run's environment."""
        self._check_rate(request)
        return _json(await self.engine.board(await self._run(_run_id(request))))

    async def watch(self, request: Request) -> Response:
        """Simulate an episode of one pair."""
        self._check_rate(request)
        asked = messages.read_query(messages.Watch, request.query_params)
        return _json(await self.engine.watch(await self._run(asked.run), asked))

    async def start_trial(self, request: Request) -> Response:
        """Start a person's trial with a partner."""
        self._check_rate(request)
        asked = messages.read_body(messages.NewTrial, await _body(request))
        return _json(await self.engine.start_trial(await self._run(asked.run), asked))

    async def show_trial(self, request: Request) -> Response:
        """Return the state of a trial, for a reloaded page."""
        return _json(await self.engine.trial(request.path_params["trial"]))

    async def move(self, request: Request) -> Response:
        """Play the person's next action."""
        id = request.path_params["trial"]
        if not self.moves.allows(id):
            raise HTTPException(429, "Too many moves: wait a moment.")
        return _json(await self.engine.move(id, messages.read_body(messages.Move, await _body(request))))

    async def show_recordings(self, request: Request) -> Response:
        """List the recordings, newest first."""
        self._check_rate(request)
        return _json({"recordings": await self.disk.run(self.store.briefs)})

    async def download(self, request: Request) -> Response:
        """Return a recording as a file."""
        name = request.path_params["name"]
        content = await self.disk.run(self.store.content, name)
        headers = {"Content-Disposition": f'attachment; filename="{name}.json"', "Cache-Control": "no-store"}
        return Response(content, media_type="application/json", headers=headers)

    async def replay(self, request: Request) -> Response:
        """Replay a recording as frames."""
        self._check_rate(request)
        return _json(await self.engine.replay(request.path_params["name"]))

    async def delete(self, request: Request) -> Response:
        """Delete a recording."""
        await self.disk.run(self.store.delete, request.path_params["name"])
        return _json({"deleted": True})

    async def _run(self, id: str) -> Run:
        """Look up a run in a thread, because the disk may be slow."""
        return await self.disk.run(self.catalogue.run, id)

    def _check_rate(self, request: Request) -> None:
        if not self.simulations.allows(request.client.host if request.client else "unknown"):
            raise HTTPException(429, "Too many requests: wait a moment.")

    def close(self) -> None:
        """Stop the worker threads."""
        self.engine.close()
        self.disk.close()

    def routes(self) -> list[Route]:
        """All routes."""
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


def make_app(studio: Studio, access: AccessRules) -> ASGIApp:
    """Build the guarded application. Caller mistakes and damaged files are reported in one sentence."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        studio.close()

    def refuse_with(status: int, sentence: str | None = None) -> Callable[[Request, Exception], Response]:
        def handle(request: Request, error: Exception) -> Response:
            return refuse(status, sentence or _describe_error(error, studio.directory))

        return handle

    handlers: dict[Any, Any] = {
        HTTPException: lambda request, error: refuse(error.status_code, error.detail),
        NotFound: refuse_with(404),
        messages.OutOfOrder: refuse_with(409),
        Busy: refuse_with(503),
        ClientDisconnect: refuse_with(400, "The message did not arrive."),
        ValueError: refuse_with(400),
        DamagedFile: refuse_with(422),
        OutsideDirectory: refuse_with(422),
        **dict.fromkeys((KeyError, TypeError), _refuse_inconsistent_files),
        OSError: refuse_with(422, "A file of this run is missing or cannot be read."),
        Exception: refuse_with(500, "Internal error: see the traceback in the terminal that runs the studio."),
    }
    return Guard(Starlette(routes=studio.routes(), exception_handlers=handlers, lifespan=lifespan), access)


def _describe_error(error: Exception, directory: SafeDirectory) -> str:
    """Describe an error in one line of bounded length, with paths relative to the directory."""
    return " ".join(str(error).replace(f"{directory.path}/", "").split())[:500]


def _refuse_inconsistent_files(request: Request, error: Exception) -> Response:
    """Refuse files that are valid but inconsistent; print the traceback in the terminal."""
    traceback.print_exception(error)
    return refuse(422, "The files of this run are inconsistent.")


def _run_id(request: Request) -> str:
    return request.query_params.get("run", "")


def _json(content: Any) -> Response:
    return Response(encode(content).body, media_type="application/json", headers={"Cache-Control": "no-store"})


async def _body(request: Request) -> bytes:
    """Read a request body of bounded size; `connections` sets its deadline."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > messages.MOST_BYTES:
            raise HTTPException(413, f"A message must not be longer than {messages.MOST_BYTES:,} bytes.")
    return body
