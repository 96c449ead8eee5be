"""One answer for everybody who asks within the same second."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from coverset.runs.storage import to_jsonable

FRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Content:
    """Bytes, and a tag that changes with them."""

    body: bytes
    tag: str
    media_type: str = "application/json"


def encode(content: Any) -> Content:
    """JSON that any browser reads: infinite numbers are text."""
    body = json.dumps(to_jsonable(content), separators=(",", ":"), allow_nan=False).encode()
    return Content(body, f'"{hashlib.sha256(body).hexdigest()[:24]}"')


def answer(request: Request, content: Content) -> Response:
    """The content, or 304 for somebody who has it already."""
    headers = {"ETag": content.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == content.tag:
        return Response(status_code=304, headers=headers)
    return Response(content.body, media_type=content.media_type, headers=headers)


class Snapshot:
    """The result of a function that reads the disk, made again when it is asked for and a second old."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self._lock = asyncio.Lock()
        self._content: Content | None = None
        self._made_at = 0.0

    async def content(self) -> Content:
        """The newest content; while one caller makes it the others wait for that."""
        async with self._lock:
            if self._content is None or time.monotonic() - self._made_at > FRESH_SECONDS:
                self._content = await run_in_threadpool(lambda: encode(self.make()))
                self._made_at = time.monotonic()
            return self._content
