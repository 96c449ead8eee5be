"""Static files, served from memory: no request path reaches the disk."""

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from coverset.studio.files import NotFound
from coverset.studio.snapshot import EncodedContent, respond

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Pages:
    """The files below `static` by request path."""

    def __init__(self, folder: Path = STATIC) -> None:
        self.files = {
            path.relative_to(folder).as_posix(): _load_file(path)
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES
        }

    async def show(self, request: Request) -> Response:
        """Return a file, or index.html for the empty path."""
        found = self.files.get(request.path_params["path"] or "index.html")
        if found is None:
            raise NotFound("There is no such page.")
        return respond(request, found)


def _load_file(path: Path) -> EncodedContent:
    body = path.read_bytes()
    return EncodedContent(body, f'"{hashlib.sha256(body).hexdigest()[:24]}"', MEDIA_TYPES[path.suffix])
