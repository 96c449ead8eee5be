"""Responses that are cached for a second and validated by ETag."""

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
class EncodedContent:
    """A response body and its ETag."""

    body: bytes
    tag: str
    media_type: str = "application/json"


def encode(content: Any) -> EncodedContent:
    """Encode as strict JSON; infinite numbers become strings."""
    body = json.dumps(to_jsonable(content), separators=(",", ":"), allow_nan=False).encode()
    return EncodedContent(body, f'"{hashlib.sha256(body).hexdigest()[:24]}"')


def respond(request: Request, content: EncodedContent) -> Response:
    """Return the content, or 304 if the client already has it."""
    headers = {"ETag": content.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == content.tag:
        return Response(status_code=304, headers=headers)
    return Response(content.body, media_type=content.media_type, headers=headers)


class Snapshot:
    """The cached result of a function that reads the disk, computed again if it is older than a second."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self._lock = asyncio.Lock()
        self._content: EncodedContent | None = None
        self._made_at = 0.0

    async def content(self) -> EncodedContent:
        """Return the content; concurrent callers share one computation."""
        async with self._lock:
            if self._content is None or time.monotonic() - self._made_at > FRESH_SECONDS:
                self._content = await run_in_threadpool(lambda: encode(self.make()))
                self._made_at = time.monotonic()
            return self._content
